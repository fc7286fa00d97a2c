// Matrix products before, behind or between collectives.
#include <numeric>

#include "op/collective.h"
#include "op/kernels/common.h"
#include "op/kernels/kv_cache.h"
#include "op/kernels/gemm.h"
#include "op/kernels/quant_product.h"
#include "op/kernels/quantize.h"
#include "op/kernels/storage_format.h"

#include "boost/boost_params.h"

using namespace softcann::op;

namespace {

at::Tensor transposed_if(const at::Tensor& x, bool transpose) { return transpose ? x.transpose(-1, -2) : x; }

// What is multiplied; the scales of int8 where they are given.
struct Factors {
  at::Tensor x2, bias, row_scale, scale;

  bool quantized() const { return scale.defined(); }
  // A scale for each row of x1 goes where the rows go.
  bool scales_rows() const { return quantized() && row_scale.defined() && row_scale.numel() > 1; }

  void product(const at::Tensor& out, const at::Tensor& x1, const at::Tensor& rows) const {
    if (quantized()) return put(out, quantized_value({x1, in_base_format(x2), scale, {}, rows, bias}, true));
    const at::Tensor weight = in_base_format(x2);
    if (!bias.defined() && out.is_contiguous()) {
      at::Tensor straight = out;
      return matmul_into(straight, x1, weight);
    }
    at::Tensor value = at::empty(out.sizes(), out.options().dtype(bias.defined() ? wide_type(out) : out.scalar_type()));
    matmul_into(value, x1, weight);
    put(out, bias.defined() ? value.add_(widened(bias)) : value);
  }
};

// --- all_gather, then the product

Plan gather_plan(const char* group, int64_t gather_index, const at::Tensor& x1, const Factors& factors) {
  if (gather_index != 0) invalid("gatherIndex %ld: only 0, the left factor, is supported", static_cast<long>(gather_index));
  Plan plan = plan_of(group);
  plan.exchanges.push_back(gather_bytes(bytes_of(x1)));
  if (factors.scales_rows()) plan.exchanges.push_back(gather_bytes(bytes_of(factors.row_scale)));
  return plan;
}

at::Tensor of_all_ranks(size_t exchange, const at::Tensor& part) {
  std::vector<int64_t> sizes = part.sizes().vec();
  sizes[0] *= stage().plan.ranks;
  return stage().received(exchange, sizes, part.scalar_type());
}

void gather_matmul(const at::Tensor& x1, const Factors& factors, const at::Tensor& out, const at::Tensor& gathered_out) {
  const Stage& now = stage();
  if (now.number < now.plan.exchanges.size()) {
    const at::Tensor& part = now.number == 0 ? x1 : factors.row_scale;
    return put(now.sent(part.sizes(), part.scalar_type()), part);
  }
  const at::Tensor gathered = of_all_ranks(0, x1);
  factors.product(out, gathered, factors.scales_rows() ? of_all_ranks(1, factors.row_scale) : factors.row_scale);
  if (given(gathered_out) && gathered_out.numel() != 0) put(gathered_out, gathered);
}

// --- the product, then the sum over the ranks

Plan scatter_plan(const char* group, const char* op, const at::Tensor& x1, const at::Tensor& out) {
  require_sum(op);
  Plan plan = plan_of(group);
  if (x1.size(0) != out.size(0) * plan.ranks) {
    invalid("%ld rows on %u ranks make %ld rows", static_cast<long>(x1.size(0)), plan.ranks, static_cast<long>(out.size(0)));
  }
  plan.exchanges.push_back(sum_of(HCCL_CMD_REDUCE_SCATTER, out.scalar_type(), out.numel()));
  return plan;
}

void matmul_scatter(const at::Tensor& x1, const Factors& factors, const at::Tensor& out) {
  const Stage& now = stage();
  if (now.number == 1) return put(out, now.received(0, out.sizes(), out.scalar_type()));
  factors.product(now.sent({x1.size(0), out.size(1)}, out.scalar_type()), x1, factors.row_scale);
}

Plan sum_plan(const char* group, const char* op, const at::Tensor& out) {
  require_sum(op);
  Plan plan = plan_of(group);
  plan.exchanges.push_back(sum_of(HCCL_CMD_ALLREDUCE, out.scalar_type(), out.numel()));
  return plan;
}

// `value` of this rank, plus `addend`.
template <class Value>
void sum_over_ranks(const at::Tensor& addend, const at::Tensor& out, Value&& value) {
  const Stage& now = stage();
  if (now.number == 1) return put(out, now.received(0, out.sizes(), out.scalar_type()));
  const at::Tensor mine = now.sent(out.sizes(), out.scalar_type());
  value(mine);
  if (given(addend)) put(mine, widened(mine) + widened(addend));
}

// What sum_over_ranks() takes of this rank.
auto product_of(const at::Tensor& x1, const Factors& factors) {
  return [&](const at::Tensor& mine) {
    if (!factors.quantized()) return factors.product(mine, x1, factors.row_scale);
    const at::Tensor rows = mine.view({-1, mine.size(-1)});
    factors.product(rows, x1.flatten(0, -2), factors.row_scale);
  };
}

void matmul_sum(const at::Tensor& x1, const Factors& factors, const at::Tensor& addend, const at::Tensor& out) {
  sum_over_ranks(addend, out, product_of(x1, factors));
}

// --- all_gather, the product and the sum, those that have a group; what is added is added once, to the result

Plan linear_plan(const char* gather_group, const char* sum_group, bool scattered, const at::Tensor& x, const at::Tensor& weight,
                 const at::Tensor& out) {
  const bool gathers = *gather_group != 0, sums = *sum_group != 0;
  Plan plan = plan_of(gathers ? gather_group : sum_group);
  if (gathers && sums) plan.second = communicator_called(sum_group);
  const Communicator& adding = plan.second ? *plan.second : plan;
  const int64_t rows = x.numel() / std::max<int64_t>(x.size(-1), 1) * (gathers ? plan.ranks : 1);
  const int64_t wanted = out.numel() / std::max<int64_t>(out.size(-1), 1) * (scattered ? adding.ranks : 1);
  if (weight.dim() != 2 || weight.size(0) != x.size(-1) || weight.size(1) != out.size(-1) || rows != wanted) {
    invalid("%ld rows of %ld and a weight of %ld by %ld do not make the result, %ld of %ld over the ranks",
            static_cast<long>(rows), static_cast<long>(x.size(-1)), static_cast<long>(weight.size(0)),
            static_cast<long>(weight.size(-1)), static_cast<long>(wanted), static_cast<long>(out.size(-1)));
  }
  if (gathers) plan.exchanges.push_back(gather_bytes(bytes_of(x)));
  if (sums) {
    plan.exchanges.push_back(sum_of(scattered ? HCCL_CMD_REDUCE_SCATTER : HCCL_CMD_ALLREDUCE, out.scalar_type(), out.numel()));
    plan.exchanges.back().among = plan.second ? 1 : 0;
  }
  return plan;
}

void linear_over_ranks(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& residual, bool gathers, bool sums,
                       const at::Tensor& out, const at::Tensor& gathered_out) {
  const Stage& now = stage();
  const auto plus_residual = [&](const at::Tensor& value) {
    put(out, given(residual) ? widened(value) + widened(residual) : value);
  };
  if (now.number == (gathers ? 2 : 1)) return plus_residual(now.received(now.number - 1, out.sizes(), out.scalar_type()));
  if (gathers && now.number == 0) return put(now.sent(x.sizes(), x.scalar_type()), x);
  const at::Tensor rows = gathers ? of_all_ranks(0, x) : x;
  if (given(gathered_out)) put(gathered_out, rows);
  const at::Tensor factor = rows.flatten(0, -2);
  at::Tensor product = sums ? now.sent({factor.size(0), out.size(-1)}, out.scalar_type()) : out.view({-1, out.size(-1)});
  matmul_into(product, factor, in_base_format(weight));
  if (!sums && given(residual)) plus_residual(out);
}

// `value` of the ranks is summed; the sum, plus `residual`, goes to `sum`, which may be `residual` itself, and its RMS
// normalization to `normal`.
template <class Value>
void sum_and_norm(Value&& value, const at::Tensor& residual, const at::Tensor& gamma, double epsilon, const at::Tensor& sum,
                  const at::Tensor& normal) {
  if (stage().number == 0) return value(stage().sent(normal.sizes(), normal.scalar_type()));
  // Rounded as it is stored, as where the operators follow each other.
  const at::Tensor total = stage().received(0, normal.sizes(), normal.scalar_type()) + residual;
  put(sum, total);
  put(normal, row_norm(total, gamma, epsilon));
}

// --- all_to_all of even parts

std::vector<uint64_t> evenly(uint32_t ranks, int64_t rows) {
  return std::vector<uint64_t>(ranks, static_cast<uint64_t>(rows) / ranks);
}

Plan exchange_plan(const char* group, int64_t rows, int64_t row_bytes, const char* what) {
  Plan plan = plan_of(group);
  if (rows % plan.ranks != 0) invalid("%ld %s cannot be split among %u ranks", static_cast<long>(rows), what, plan.ranks);
  plan.exchanges.push_back(rows_of(static_cast<uint64_t>(row_bytes), evenly(plan.ranks, rows), evenly(plan.ranks, rows)));
  return plan;
}

// Rows of all ranks become parts of longer rows.
void exchange_matmul(const at::Tensor& x1, const Factors& factors, const at::Tensor& out, const at::Tensor& exchanged_out) {
  const Stage& now = stage();
  if (now.number == 0) return put(now.sent(x1.sizes(), x1.scalar_type()), x1);
  const int64_t ranks = now.plan.ranks, rows = x1.size(0) / ranks;
  const at::Tensor parts = now.received(0, {ranks, rows, x1.size(1)}, x1.scalar_type());
  const at::Tensor exchanged = parts.transpose(0, 1).reshape({rows, ranks * x1.size(1)});
  factors.product(out, exchanged, factors.row_scale);
  if (given(exchanged_out) && exchanged_out.numel() != 0) put(exchanged_out, exchanged);
}

// Columns of the product become rows, one part for each rank.
void matmul_exchange(const at::Tensor& x1, const Factors& factors, const at::Tensor& out) {
  const Stage& now = stage();
  if (now.number == 1) return put(out, now.received(0, out.sizes(), out.scalar_type()));
  const int64_t ranks = now.plan.ranks, rows = x1.size(0), columns = factors.x2.size(1) / ranks;
  const at::Tensor product = at::empty({rows, columns * ranks}, out.options());
  factors.product(product, x1, factors.row_scale);
  put(now.sent({ranks, rows, columns}, out.scalar_type()), product.view({rows, ranks, columns}).transpose(0, 1));
}

// --- all_to_all of tokens, and products by expert. Counts are by (rank, expert).

std::vector<uint64_t> by_rank(at::IntArrayRef counts, uint32_t ranks) {
  const size_t experts = counts.size() / ranks;
  std::vector<uint64_t> sums(ranks);
  for (size_t i = 0; i < counts.size(); ++i) sums[i / experts] += static_cast<uint64_t>(counts[i]);
  return sums;
}

int64_t total(at::IntArrayRef counts) { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

struct Tokens {
  const char* group;
  int64_t ranks;
  at::IntArrayRef sends, receives;
};

Plan tokens_plan(const Tokens& tokens, int64_t row_bytes, const at::Tensor& weight, int64_t sent_rows, int64_t received_rows) {
  Plan plan = plan_of(tokens.group);
  if (tokens.ranks != plan.ranks) {
    invalid("epWorldSize %ld, but '%s' has %u ranks", static_cast<long>(tokens.ranks), tokens.group, plan.ranks);
  }
  const auto expected = static_cast<size_t>(weight.size(0)) * plan.ranks;
  if (tokens.sends.size() != expected || tokens.receives.size() != expected) {
    invalid("%zu and %zu counts for %ld experts on each of %u ranks", tokens.sends.size(), tokens.receives.size(),
            static_cast<long>(weight.size(0)), plan.ranks);
  }
  if (total(tokens.sends) > sent_rows || total(tokens.receives) > received_rows) invalid("there are fewer rows than counts say");
  plan.exchanges.push_back(
      rows_of(static_cast<uint64_t>(row_bytes), by_rank(tokens.sends, plan.ranks), by_rank(tokens.receives, plan.ranks)));
  return plan;
}

// Rows that lie by (first, second), so many each, as they lie by (second, first). `counts` are by (rank, expert), and so lie the
// rows where `by_rank_first`.
at::Tensor regrouped(const at::Tensor& rows, at::IntArrayRef counts, int64_t ranks, bool by_rank_first) {
  const int64_t experts = static_cast<int64_t>(counts.size()) / ranks;
  const int64_t outer = by_rank_first ? ranks : experts, inner = by_rank_first ? experts : ranks;
  const auto count = [&](int64_t i, int64_t j) { return by_rank_first ? counts[i * experts + j] : counts[j * experts + i]; };
  std::vector<at::Tensor> parts(static_cast<size_t>(outer * inner));
  int64_t start = 0;
  for (int64_t i = 0; i < outer; ++i) {
    for (int64_t j = 0; j < inner; ++j) {
      parts[static_cast<size_t>(j * outer + i)] = rows.slice(0, start, start + count(i, j));
      start += count(i, j);
    }
  }
  return at::cat(parts);
}

// Each expert's rows times its matrix.
void products_by_expert(const at::Tensor& rows, at::IntArrayRef counts, int64_t ranks, const at::Tensor& weight, bool transposed,
                        const at::Tensor& out) {
  const int64_t experts = weight.size(0);
  int64_t start = 0;
  for (int64_t expert = 0; expert < experts; ++expert) {
    int64_t end = start;
    for (int64_t rank = 0; rank < ranks; ++rank) end += counts[static_cast<size_t>(rank * experts + expert)];
    at::Tensor part = out.slice(0, start, end);
    if (end != start) matmul_into(part, rows.slice(0, start, end), transposed_if(weight[expert], transposed));
    start = end;
  }
}

void shared_product(const at::Tensor& x, const at::Tensor& weight, bool transposed, const at::Tensor& out) {
  if (given(x) && given(weight) && given(out)) put(out, at::matmul(x, transposed_if(weight, transposed)));
}

}  // namespace

#define GATHER_FACTORS \
  Factors { x2, bias, x1Scale, x2Scale }
OP_COLLECTIVE(aclnnAllGatherMatmul, gather_plan(group, gatherIndex, x1, {})) {
  gather_matmul(x1, {x2, bias, {}, {}}, output, gatherOut);
}
OP_COLLECTIVE(aclnnAllGatherMatmulV2,
              (require_absent(quantScale, "quantScale"), gather_plan(group, gatherIndex, x1, GATHER_FACTORS))) {
  gather_matmul(x1, GATHER_FACTORS, output, gatherOut);
}
OP_COLLECTIVE(aclnnMatmulReduceScatter, scatter_plan(group, reduceOp, x1, output)) {
  matmul_scatter(x1, {x2, bias, {}, {}}, output);
}
OP_COLLECTIVE(aclnnMatmulReduceScatterV2, (require_absent(quantScale, "quantScale"), scatter_plan(group, reduceOp, x1, output))) {
  matmul_scatter(x1, GATHER_FACTORS, output);
}

// Of Ascend's transformer library.
OP_COLLECTIVE(atbLinearParallel, linear_plan(gatherGroup, sumGroup, scattered, x, transposed_if(weight, transposeWeight), out)) {
  linear_over_ranks(x, transposed_if(weight, transposeWeight), residualOptional, *gatherGroup != 0, *sumGroup != 0, out,
                    gatheredOptional);
}

OP_COLLECTIVE(aclnnMatmulAllReduce, sum_plan(group, reduceOp, output)) { matmul_sum(x1, {x2, bias, {}, {}}, {}, output); }
OP_COLLECTIVE(aclnnMatmulAllReduceV2, sum_plan(group, reduceOp, output)) { matmul_sum(x1, {x2, bias, {}, {}}, x3, output); }
OP_COLLECTIVE(aclnnMatmulAllReduceV3, sum_plan(group, reduceOp, output)) { matmul_sum(x1, {x2, bias, {}, {}}, x3, output); }
OP_COLLECTIVE(aclnnQuantMatmulAllReduce, sum_plan(group, reduceOp, output)) {
  matmul_sum(x1, {x2, bias, {}, dequantScale}, x3, output);
}
OP_COLLECTIVE(aclnnQuantMatmulAllReduceV2, sum_plan(group, reduceOp, output)) {
  matmul_sum(x1, {x2, biasOptional, pertokenScaleOptional, dequantScale}, x3Optional, output);
}
#define WITHOUT_QUANTISED_SUMS                                       \
  (require_absent(commQuantScale1Optional, "communication of int8"), \
   require_absent(commQuantScale2Optional, "communication of int8"))
OP_COLLECTIVE(aclnnQuantMatmulAllReduceV3, (WITHOUT_QUANTISED_SUMS, sum_plan(group, reduceOp, output))) {
  matmul_sum(x1, {x2, biasOptional, pertokenScaleOptional, dequantScale}, x3Optional, output);
}
OP_COLLECTIVE(aclnnQuantMatmulAllReduceV4, (WITHOUT_QUANTISED_SUMS, sum_plan(group, reduceOp, output))) {
  matmul_sum(x1, {x2, biasOptional, x1ScaleOptional, x2Scale}, x3Optional, output);
}
OP_COLLECTIVE(aclnnQuantMatmulAllReduceV5, (WITHOUT_QUANTISED_SUMS, sum_plan(group, reduceOp, output))) {
  matmul_sum(x1, {x2, biasOptional, x1ScaleOptional, x2Scale}, x3Optional, output);
}
#define WEIGHT_QUANT_VALUE                                                                       \
  [&](const at::Tensor& mine) {                                                                  \
    const WeightQuantProduct product{antiquantScale, antiquantOffset, bias, antiquantGroupSize}; \
    put(mine, product.value(x1, in_base_format(x2)));                                            \
  }
#define WEIGHT_QUANT_ALL_REDUCE(NAME) \
  OP_COLLECTIVE(NAME, sum_plan(group, reduceOp, output)) { sum_over_ranks(x3, output, WEIGHT_QUANT_VALUE); }
WEIGHT_QUANT_ALL_REDUCE(aclnnWeightQuantMatmulAllReduce)
WEIGHT_QUANT_ALL_REDUCE(aclnnWeightQuantMatmulAllReduceV2)

#define SUM_AND_NORM(NAME, SUM, VALUE) \
  OP_COLLECTIVE(NAME, sum_plan(group, reduceOp, normOut)) { sum_and_norm(VALUE, residual, gamma, epsilon, SUM, normOut); }
#define PRODUCT_VALUE(SCALE) product_of(x1, {x2, bias, {}, SCALE})
SUM_AND_NORM(aclnnMatmulAllReduceAddRmsNorm, y, PRODUCT_VALUE({}))
SUM_AND_NORM(aclnnInplaceMatmulAllReduceAddRmsNorm, residual, PRODUCT_VALUE({}))
SUM_AND_NORM(aclnnQuantMatmulAllReduceAddRmsNorm, y, PRODUCT_VALUE(dequantScale))
SUM_AND_NORM(aclnnInplaceQuantMatmulAllReduceAddRmsNorm, residual, PRODUCT_VALUE(dequantScale))
SUM_AND_NORM(aclnnWeightQuantMatmulAllReduceAddRmsNorm, y, WEIGHT_QUANT_VALUE)
SUM_AND_NORM(aclnnInplaceWeightQuantMatmulAllReduceAddRmsNorm, residual, WEIGHT_QUANT_VALUE)

#define EXCHANGE_MATMUL(NAME)                                                                                                    \
  OP_COLLECTIVE(NAME, exchange_plan(group, transposed_if(x1, transposeX1).size(0), bytes_of_row(transposed_if(x1, transposeX1)), \
                                    "rows")) {                                                                                   \
    exchange_matmul(transposed_if(x1, transposeX1), {transposed_if(x2, transposeX2), biasOptional, {}, {}}, output,              \
                    alltoAllOutOptional);                                                                                        \
  }
EXCHANGE_MATMUL(aclnnAlltoAllMatmul)
EXCHANGE_MATMUL(aclnnAlltoAllMatmulV2)
#define MATMUL_EXCHANGE(NAME)                                                                                                 \
  OP_COLLECTIVE(NAME,                                                                                                         \
                exchange_plan(group, transposed_if(x2, transposeX2).size(1),                                                  \
                              transposed_if(x1, transposeX1).size(0) * static_cast<int64_t>(output.itemsize()), "columns")) { \
    matmul_exchange(transposed_if(x1, transposeX1), {transposed_if(x2, transposeX2), biasOptional, {}, {}}, output);          \
  }
MATMUL_EXCHANGE(aclnnMatmulAlltoAll)
MATMUL_EXCHANGE(aclnnMatmulAlltoAllV2)

#define WITHOUT_COUNTS_IN_TENSORS                                                                           \
  (require_absent(sendCountsTensorOptional, "counts in a tensor"), require_absent(recvCountsTensorOptional, \
                                                                                  "counts in a "            \
                                                                                  "tensor"))
#define EXCHANGE_PRODUCTS(NAME)                                                                                                 \
  OP_COLLECTIVE(NAME, (WITHOUT_COUNTS_IN_TENSORS, tokens_plan({group, epWorldSize, sendCounts, recvCounts}, bytes_of_row(gmmX), \
                                                              gmmWeight, gmmX.size(0), gmmY.size(0)))) {                        \
    const Stage& now = stage();                                                                                                 \
    if (now.number == 0) {                                                                                                      \
      put(now.sent({total(sendCounts), gmmX.size(1)}, gmmX.scalar_type()), gmmX.slice(0, 0, total(sendCounts)));                \
      return shared_product(mmXOptional, mmWeightOptional, transMmWeight, mmYOptional);                                         \
    }                                                                                                                           \
    const at::Tensor arrived = now.received(0, {total(recvCounts), gmmX.size(1)}, gmmX.scalar_type());                          \
    const at::Tensor rows = regrouped(arrived, recvCounts, epWorldSize, true);                                                  \
    products_by_expert(rows, recvCounts, epWorldSize, gmmWeight, transGmmWeight, gmmY);                                         \
    if (permuteOutFlag && given(permuteOutOptional)) put(permuteOutOptional, rows);                                             \
  }
EXCHANGE_PRODUCTS(aclnnAlltoAllvGroupedMatMul)
EXCHANGE_PRODUCTS(aclnnAlltoAllvGroupedMatMulV2)
#define PRODUCTS_EXCHANGE(NAME)                                                                                              \
  OP_COLLECTIVE(NAME, (WITHOUT_COUNTS_IN_TENSORS, tokens_plan({group, epWorldSize, sendCounts, recvCounts}, bytes_of_row(y), \
                                                              gmmWeight, gmmX.size(0), y.size(0)))) {                        \
    const Stage& now = stage();                                                                                              \
    if (now.number == 1) {                                                                                                   \
      return put(y.slice(0, 0, total(recvCounts)), now.received(0, {total(recvCounts), y.size(1)}, y.scalar_type()));        \
    }                                                                                                                        \
    at::Tensor products = at::empty({total(sendCounts), y.size(1)}, y.options());                                            \
    products_by_expert(gmmX, sendCounts, epWorldSize, gmmWeight, transGmmWeight, products);                                  \
    put(now.sent(products.sizes(), y.scalar_type()), regrouped(products, sendCounts, epWorldSize, false));                   \
    shared_product(mmXOptional, mmWeightOptional, transMmWeight, mmYOptional);                                               \
  }
PRODUCTS_EXCHANGE(aclnnGroupedMatMulAlltoAllv)
PRODUCTS_EXCHANGE(aclnnGroupedMatMulAlltoAllvV2)

namespace {

// --- Products of matrices of few bits beside an all_to_all

// Scales of a matrix [rows, columns]: one, one for each row of the left or column of the right one, one for each 128 by 128
// numbers, or MX scales in pairs along the dimension that is summed over.
at::Tensor in_full(const at::Tensor& x, const at::Tensor& scale, bool left) {
  constexpr int64_t block = 128, mx_block = 32, bias = 127;
  const at::Tensor wide = widened(x);
  if (!given(scale)) return wide;
  if (scale.dim() == 3) {
    const at::Tensor bytes = scale.scalar_type() == at::kByte ? scale : scale.view(at::kByte);
    const at::Tensor pairs = left ? bytes.flatten(1) : bytes.transpose(1, 2).flatten(0, 1);
    const at::Tensor powers = at::ldexp(at::ones(pairs.sizes(), at::kFloat), pairs.to(at::kInt) - bias);
    const int64_t along = left ? 1 : 0;
    return wide * powers.repeat_interleave(mx_block, along).narrow(along, 0, x.size(along));
  }
  const at::Tensor factor = scale_of(scale);
  if (factor.numel() == 1) return wide * factor.reshape({});
  if (factor.numel() == (left ? x.size(0) : x.size(1))) return wide * (left ? factor.reshape({-1, 1}) : factor.reshape({1, -1}));
  const at::Tensor spread = factor.repeat_interleave(block, 0).repeat_interleave(block, 1);
  TORCH_CHECK(spread.dim() == 2 && spread.size(0) >= x.size(0) && spread.size(1) >= x.size(1), "scales ", scale.sizes(),
              " do not fit a matrix ", x.sizes());
  return wide * spread.slice(0, 0, x.size(0)).slice(1, 0, x.size(1));
}

void quantized_product(const at::Tensor& x1, const at::Tensor& scale1, const at::Tensor& x2, const at::Tensor& scale2,
                       const at::Tensor& bias, const at::Tensor& out) {
  const at::Tensor weight = in_base_format(x2);
  const at::Tensor value = at::matmul(in_full(x1, scale1, true), in_full(weight, scale2, false));
  const at::Tensor sum = given(bias) ? value + widened(bias) : value;
  if (out.itemsize() == 1) return put_quantized(out, sum);
  put(out, sum);
}

bool few_bits(const at::Tensor& x) { return x.itemsize() == 1; }
bool moves(const at::Tensor& scale) { return given(scale) && scale.dim() == 3; }  // MX scales go where their rows go
int64_t bytes_of_part(const at::Tensor& x) { return bytes_of(x) / std::max<int64_t>(1, x.size(0)); }

Plan quantized_exchange_plan(const char* group, const at::Tensor& x1, const at::Tensor& scale, int64_t mode) {
  constexpr int64_t dynamic = 7;
  if (!few_bits(x1) && mode != dynamic)
    invalid("x1QuantMode %ld of numbers that are not quantised; 7 is supported", static_cast<long>(mode));
  if (few_bits(x1) && given(scale) && scale.numel() > 1 && !moves(scale)) {
    invalid("x1Scale is one number, or MX scales: the parts of an exchanged row come from several ranks");
  }
  Plan plan = exchange_plan(group, x1.size(0), bytes_of_part(x1), "rows");
  if (moves(scale)) {
    const auto parts = evenly(plan.ranks, x1.size(0));
    plan.exchanges.push_back(rows_of(static_cast<uint64_t>(bytes_of_part(scale)), parts, parts));
  }
  return plan;
}

// Rows of all ranks as parts of longer rows.
at::Tensor longer_rows(size_t exchange, const at::Tensor& part) {
  const int64_t ranks = stage().plan.ranks, rows = part.size(0) / ranks;
  std::vector<int64_t> sizes = part.sizes().vec();
  sizes[0] = rows, sizes.insert(sizes.begin(), ranks);
  return stage().received(exchange, sizes, part.scalar_type()).transpose(0, 1).flatten(1, 2);
}

void quantized_exchange(const at::Tensor& x1, const at::Tensor& scale, const at::Tensor& x2, const at::Tensor& scale2,
                        const at::Tensor& bias, const at::Tensor& out, const at::Tensor& exchanged_out) {
  const Stage& now = stage();
  if (now.number < now.plan.exchanges.size()) {
    const at::Tensor& part = now.number == 0 ? x1 : scale;
    return put(now.sent(part.sizes(), part.scalar_type()), part);
  }
  const at::Tensor exchanged = longer_rows(0, x1);
  if (given(exchanged_out) && exchanged_out.numel() != 0) put(exchanged_out, exchanged);
  if (few_bits(x1)) return quantized_product(exchanged, moves(scale) ? longer_rows(1, scale) : scale, x2, scale2, bias, out);
  const at::Tensor smooth = given(scale) ? widened(exchanged) * widened(scale) : widened(exchanged);
  const at::Tensor rows = at::empty(smooth.sizes(), at::kChar), row_scale = at::empty({smooth.size(0)}, at::kFloat);
  quantize_rows(smooth, rows, row_scale);
  quantized_product(rows, row_scale, x2, scale2, bias, out);
}

// Counts by expert of (rank, expert).
struct ExpertProducts {
  const at::Tensor &weight, &weight_scale;
  bool transposed;

  void run(const at::Tensor& rows, const at::Tensor& scale, at::IntArrayRef counts, int64_t ranks, const at::Tensor& out) const {
    const int64_t experts = weight.size(0);
    int64_t start = 0;
    for (int64_t expert = 0; expert < experts; ++expert) {
      int64_t end = start;
      for (int64_t rank = 0; rank < ranks; ++rank) end += counts[static_cast<size_t>(rank * experts + expert)];
      if (end != start) {
        at::Tensor of = weight_scale.dim() == 4 ? weight_scale[expert] : weight_scale;
        if (transposed && of.dim() == 3) of = of.transpose(0, 1);
        quantized_product(rows.slice(0, start, end), moves(scale) ? scale.slice(0, start, end) : scale,
                          transposed_if(weight[expert], transposed), of, {}, out.slice(0, start, end));
      }
      start = end;
    }
  }
};

void quantized_shared(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& scale, const at::Tensor& weight_scale,
                      bool transposed, const at::Tensor& out) {
  if (!given(x) || !given(weight) || !given(out) || out.numel() == 0) return;
  const at::Tensor of = transposed && weight_scale.dim() == 3 ? weight_scale.transpose(0, 1) : weight_scale;
  quantized_product(x, scale, transposed_if(weight, transposed), of, {}, out);
}

Plan quantized_tokens_plan(const Tokens& tokens, const at::Tensor& x, const at::Tensor& scale, const at::Tensor& weight,
                           const at::Tensor& out) {
  Plan plan = tokens_plan(tokens, bytes_of_row(x), weight, x.size(0), out.size(0));
  if (moves(scale)) {
    plan.exchanges.push_back(rows_of(static_cast<uint64_t>(bytes_of_part(scale)), by_rank(tokens.sends, plan.ranks),
                                     by_rank(tokens.receives, plan.ranks)));
  }
  return plan;
}

}  // namespace

#define WITHOUT_OFFSETS                                                                                          \
  (require_absent(commScaleOptional, "communication of few bits"), require_absent(x1OffsetOptional, "x1Offset"), \
   require_absent(x2OffsetOptional, "x2Offset"))
#define QUANTIZED_EXCHANGE(NAME)                                                                                               \
  OP_COLLECTIVE(                                                                                                               \
      NAME, (WITHOUT_OFFSETS, quantized_exchange_plan(group, transposed_if(x1, transposeX1), x1ScaleOptional, x1QuantMode))) { \
    quantized_exchange(transposed_if(x1, transposeX1), x1ScaleOptional, transposed_if(x2, transposeX2), x2Scale, biasOptional, \
                       output, alltoAllOutOptional);                                                                           \
  }
QUANTIZED_EXCHANGE(aclnnAlltoAllQuantMatmul)
QUANTIZED_EXCHANGE(aclnnAlltoAllQuantMatmulV2)

#define EXCHANGED_QUANTIZED(NAME)                                                                                               \
  OP_COLLECTIVE(NAME,                                                                                                           \
                (WITHOUT_OFFSETS,                                                                                               \
                 exchange_plan(group, transposed_if(x2, transposeX2).size(1),                                                   \
                               transposed_if(x1, transposeX1).size(0) * static_cast<int64_t>(output.itemsize()), "columns"))) { \
    const Stage& now = stage();                                                                                                 \
    if (now.number == 1) return put(output, now.received(0, output.sizes(), output.scalar_type()));                             \
    const at::Tensor left = transposed_if(x1, transposeX1), right = transposed_if(x2, transposeX2);                             \
    const int64_t ranks = now.plan.ranks, rows = left.size(0), columns = right.size(1) / ranks;                                 \
    const at::Tensor product = at::empty({rows, columns * ranks}, output.options());                                            \
    quantized_product(left, x1Scale, right, x2Scale, biasOptional, product);                                                    \
    put(now.sent({ranks, rows, columns}, output.scalar_type()), product.view({rows, ranks, columns}).transpose(0, 1));          \
  }
EXCHANGED_QUANTIZED(aclnnQuantMatmulAlltoAll)
EXCHANGED_QUANTIZED(aclnnQuantMatmulAlltoAllV2)

#define EXCHANGE_QUANTIZED_PRODUCTS(NAME)                                                                                        \
  OP_COLLECTIVE(NAME, (WITHOUT_COUNTS_IN_TENSORS,                                                                                \
                       quantized_tokens_plan({group, epWorldSize, sendCounts, recvCounts}, gmmX, gmmXScale, gmmWeight, gmmY))) { \
    const Stage& now = stage();                                                                                                  \
    if (now.number < now.plan.exchanges.size()) {                                                                                \
      const at::Tensor part = (now.number == 0 ? gmmX : gmmXScale).slice(0, 0, total(sendCounts));                               \
      return put(now.sent(part.sizes(), part.scalar_type()), part);                                                              \
    }                                                                                                                            \
    const auto arrived = [&](size_t exchange, const at::Tensor& of) {                                                            \
      std::vector<int64_t> sizes = of.sizes().vec();                                                                             \
      sizes[0] = total(recvCounts);                                                                                              \
      return regrouped(now.received(exchange, sizes, of.scalar_type()), recvCounts, epWorldSize, true);                          \
    };                                                                                                                           \
    const at::Tensor rows = arrived(0, gmmX);                                                                                    \
    ExpertProducts{gmmWeight, gmmWeightScale, transGmmWeight}.run(rows, moves(gmmXScale) ? arrived(1, gmmXScale) : gmmXScale,    \
                                                                  recvCounts, epWorldSize, gmmY);                                \
    if (permuteOutFlag && given(permuteOutOptional)) put(permuteOutOptional, rows);                                              \
    quantized_shared(mmXOptional, mmWeightOptional, mmXScaleOptional, mmWeightScaleOptional, transMmWeight, mmYOptional);        \
  }
EXCHANGE_QUANTIZED_PRODUCTS(aclnnAlltoAllvQuantGroupedMatMul)
EXCHANGE_QUANTIZED_PRODUCTS(aclnnAlltoAllvQuantGroupedMatMulV2)

#define QUANTIZED_PRODUCTS_EXCHANGE(NAME)                                                                                       \
  OP_COLLECTIVE(                                                                                                                \
      NAME, (WITHOUT_COUNTS_IN_TENSORS, require_absent(commQuantScaleOptional, "communication of few bits"),                    \
             tokens_plan({group, epWorldSize, sendCounts, recvCounts}, bytes_of_row(y), gmmWeight, gmmX.size(0), y.size(0)))) { \
    const Stage& now = stage();                                                                                                 \
    if (now.number == 1) {                                                                                                      \
      return put(y.slice(0, 0, total(recvCounts)), now.received(0, {total(recvCounts), y.size(1)}, y.scalar_type()));           \
    }                                                                                                                           \
    const at::Tensor products = at::empty({total(sendCounts), y.size(1)}, y.options());                                         \
    ExpertProducts{gmmWeight, gmmWeightScale, transGmmWeight}.run(gmmX, gmmXScale, sendCounts, epWorldSize, products);          \
    put(now.sent(products.sizes(), y.scalar_type()), regrouped(products, sendCounts, epWorldSize, false));                      \
    quantized_shared(mmXOptional, mmWeightOptional, mmXScaleOptional, mmWeightScaleOptional, transMmWeight, mmYOptional);       \
  }
QUANTIZED_PRODUCTS_EXCHANGE(aclnnQuantGroupedMatMulAlltoAllv)
QUANTIZED_PRODUCTS_EXCHANGE(aclnnQuantGroupedMatMulAlltoAllvV2)
