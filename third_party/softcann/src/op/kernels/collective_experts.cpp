// Products of several matrices at once beside collectives: of experts that two communicators share, and of groups that are summed
// over the ranks.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "op/collective.h"
#include "op/kernels/common.h"

using namespace softcann::op;

namespace {

// Experts lie along the ranks of `ep`; a matrix of each along those of `tp`.
struct Mesh {
  const char *ep, *tp;
  int64_t ep_ranks, tp_ranks;

  Plan plan() const {
    if (std::strcmp(ep, tp) == 0) invalid("groupEp and groupTp are both '%s'", ep);
    Plan made = plan_of(ep);
    made.second = communicator_called(tp);
    if (made.ranks != ep_ranks || made.second->ranks != tp_ranks) {
      invalid("epWorldSize %ld and tpWorldSize %ld, but the communicators have %u and %u ranks", static_cast<long>(ep_ranks),
              static_cast<long>(tp_ranks), made.ranks, made.second->ranks);
    }
    return made;
  }
  // What goes to the experts' ranks, or comes back: as many bytes for each.
  Exchange to_experts(int64_t bytes) const {
    const std::vector<uint64_t> parts(static_cast<size_t>(ep_ranks), 1);
    return rows_of(static_cast<uint64_t>(bytes / ep_ranks), parts, parts);
  }
};

enum Sharded : int64_t { along_columns = 0, along_rows = 1 };

void require_shard_type(int64_t type) {
  if (type != along_columns && type != along_rows) invalid("shard type %ld: 0 and 1 are supported", static_cast<long>(type));
}

void require_sizes(const at::Tensor& tensor, at::IntArrayRef wanted, const char* what) {
  if (tensor.sizes() == wanted) return;
  invalid("%s is %s, not %s", what, c10::str(tensor.sizes()).c_str(), c10::str(wanted).c_str());
}

at::Tensor bias_by_expert(const at::Tensor& bias) { return widened(bias.dim() == 2 ? bias.unsqueeze(1) : bias); }

at::Tensor activated(const at::Tensor& x, int64_t type) {
  enum : int64_t { none, gelu, silu, relu, fast_gelu };
  switch (type) {
    case none:
      return x;
    case gelu:
      return at::gelu(x);
    case silu:
      return at::silu(x);
    case relu:
      return at::relu(x);
    case fast_gelu:
      return x * at::sigmoid(1.702 * x);
    default:
      TORCH_CHECK(false, "actType ", type, ": 0 to 4 are supported");
  }
}

// --- all_to_all of the rows, all_gather of their parts, the product

Plan exchange_gather_plan(const Mesh& mesh, const at::Tensor& x, const at::Tensor& weight, int64_t type) {
  require_shard_type(type);
  Plan plan = mesh.plan();
  const int64_t columns = weight.size(1) / (type == along_columns ? mesh.tp_ranks : 1);
  require_sizes(x, {weight.size(0) * mesh.ep_ranks, x.size(1), columns}, "x");
  plan.exchanges.push_back(mesh.to_experts(bytes_of(x)));
  plan.exchanges.push_back(gather_bytes(bytes_of(x)));
  plan.exchanges.back().among = 1;
  return plan;
}

// Rows of all ranks for this rank's experts, [experts, rows, columns].
at::Tensor gathered(const at::Tensor& x, const at::Tensor& weight, int64_t type) {
  const Stage& now = stage();
  const int64_t ep = now.plan.ranks, tp = now.plan.second->ranks, experts = weight.size(0), rows = x.size(1), columns = x.size(2);
  const at::Tensor parts = now.received(1, {tp, experts, ep, rows, columns}, x.scalar_type());
  const at::Tensor ordered = type == along_columns ? parts.permute({1, 2, 3, 0, 4}) : parts.permute({1, 2, 0, 3, 4});
  return ordered.reshape({experts, -1, weight.size(1)});
}

// --- the product, reduce_scatter, all_to_all

Plan scatter_exchange_plan(const Mesh& mesh, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& out, int64_t type) {
  require_shard_type(type);
  Plan plan = mesh.plan();
  const int64_t experts = x.size(0), split = type == along_columns ? 1 : mesh.tp_ranks;
  const int64_t rows = x.size(1) / (mesh.ep_ranks * split), columns = weight.size(2) * split / mesh.tp_ranks;
  require_sizes(out, {experts * mesh.ep_ranks, rows, columns}, "out");
  require_sizes(x, {weight.size(0), mesh.ep_ranks * split * rows, weight.size(1)}, "x");
  plan.exchanges.push_back(sum_of(HCCL_CMD_REDUCE_SCATTER, out.scalar_type(), out.numel()));
  plan.exchanges.back().among = 1;
  plan.exchanges.push_back(mesh.to_experts(bytes_of(out)));
  return plan;
}

void product_scatter_exchange(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& out,
                              int64_t type) {
  const Stage& now = stage();
  if (now.number == 2) return put(out, now.received(1, out.sizes(), out.scalar_type()));
  const int64_t ep = now.plan.ranks, tp = now.plan.second->ranks, experts = x.size(0), rows = out.size(1), columns = out.size(2);
  if (now.number == 0) {
    const at::Tensor product = at::bmm(widened(x), widened(weight));
    const at::Tensor parts = type == along_columns ? product.view({experts, ep, rows, tp, columns}).permute({3, 0, 1, 2, 4})
                                                   : product.view({experts, ep, tp, rows, columns}).permute({2, 0, 1, 3, 4});
    return put(now.sent(parts.sizes(), out.scalar_type()), parts);
  }
  const at::Tensor sums = now.received(0, {experts, ep, rows, columns}, out.scalar_type());
  const at::Tensor biased = given(bias) ? widened(sums) + bias_by_expert(bias).unsqueeze(1) : sums;
  put(now.sent({ep, experts, rows, columns}, out.scalar_type()), biased.transpose(0, 1));
}

// --- products of groups, summed over the ranks

int64_t elements(at::TensorList tensors) {
  return std::accumulate(tensors.begin(), tensors.end(), int64_t{0},
                         [](int64_t sum, const at::Tensor& t) { return sum + t.numel(); });
}

// Where each group's rows end: as the client says for rows in one tensor, else where the tensors do.
std::vector<int64_t> ends_of(at::TensorList x, at::IntArrayRef ends) {
  if (!ends.empty()) return ends.vec();
  std::vector<int64_t> result;
  for (const at::Tensor& part : x) result.push_back((result.empty() ? 0 : result.back()) + part.numel() / part.size(-1));
  return result;
}

Plan groups_plan(const char* group, const char* op, at::TensorList x, at::TensorList weight, at::IntArrayRef ends,
                 at::TensorList y) {
  require_sum(op);
  const bool split = x.size() == 1 && !ends.empty();
  const size_t groups = split ? ends.size() : x.size();
  if (weight.size() != groups && (weight.size() != 1 || weight[0].dim() != 3))
    invalid("%zu weights for %zu groups", weight.size(), groups);
  if (y.size() != 1 && y.size() != groups) invalid("%zu results of %zu groups", y.size(), groups);
  if (split && (!std::is_sorted(ends.begin(), ends.end()) || ends.front() < 0 || ends.back() != x[0].size(0))) {
    invalid("groupListOptional says %s of %ld rows", c10::str(ends).c_str(), static_cast<long>(x[0].size(0)));
  }
  Plan plan = plan_of(group);
  plan.exchanges.push_back(sum_of(HCCL_CMD_ALLREDUCE, y[0].scalar_type(), elements(y)));
  return plan;
}

void sum_of_groups(at::TensorList x, at::TensorList weight, at::TensorList bias, at::IntArrayRef given_ends, at::TensorList y) {
  const Stage& now = stage();
  const at::ScalarType dtype = y[0].scalar_type();
  if (now.number == 1) {
    const at::Tensor sums = now.received(0, {elements(y)}, dtype);
    int64_t place = 0;
    for (const at::Tensor& part : y) {
      put(part, sums.narrow(0, place, part.numel()).view(part.sizes()));
      place += part.numel();
    }
    return;
  }
  const at::Tensor mine = now.sent({elements(y)}, dtype);
  const std::vector<int64_t> ends = ends_of(x, given_ends);
  int64_t start = 0, place = 0;
  for (size_t i = 0; i < ends.size(); ++i) {
    const at::Tensor rows = x.size() == 1 ? x[0].flatten(0, -2).slice(0, start, ends[i]) : x[i];
    const at::Tensor matrix = weight.size() == 1 && weight[0].dim() == 3 ? weight[0][static_cast<int64_t>(i)] : weight[i];
    at::Tensor product = at::matmul(widened(rows), widened(matrix));
    if (!bias.empty()) product.add_(widened(bias[i]));
    put(mine.narrow(0, place, product.numel()).view(product.sizes()), product);
    start = ends[i], place += product.numel();
  }
}

}  // namespace

OP_COLLECTIVE(aclnnAlltoAllAllGatherBatchMatMul,
              exchange_gather_plan({groupEp, groupTp, epWorldSize, tpWorldSize}, x, weight, xShardType)) {
  const Stage& now = stage();
  if (now.number == 0) return put(now.sent(x.sizes(), x.scalar_type()), x);
  if (now.number == 1) {
    const at::Tensor arrived = now.received(0, {epWorldSize, weight.size(0), x.size(1), x.size(2)}, x.scalar_type());
    const at::Tensor by_expert = arrived.transpose(0, 1);
    return put(now.sent(by_expert.sizes(), x.scalar_type()), by_expert);
  }
  const at::Tensor rows = gathered(x, weight, xShardType);
  at::Tensor product = at::bmm(widened(rows), widened(weight));
  if (given(biasOptional)) product.add_(bias_by_expert(biasOptional));
  put(y1Out, activated(product, actType));
  if (given(y2OutOptional) && y2OutOptional.numel() != 0) put(y2OutOptional, rows);
  if (given(y3OutOptional) && y3OutOptional.numel() != 0) put(y3OutOptional, product);
}

OP_COLLECTIVE(aclnnBatchMatMulReduceScatterAlltoAll,
              scatter_exchange_plan({groupEp, groupTp, epWorldSize, tpWorldSize}, x, weight, out, yShardType)) {
  product_scatter_exchange(x, weight, biasOptional, out, yShardType);
}

OP_COLLECTIVE(aclnnGroupedMatMulAllReduce, groups_plan(group, reduceOp, x, weight, groupListOptional, y)) {
  sum_of_groups(x, weight, bias, groupListOptional, y);
}
