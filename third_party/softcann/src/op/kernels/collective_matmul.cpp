// Matrix products before, behind or between collectives.
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>

#include <cstring>
#include <numeric>

#include "op/collective.h"
#include "op/kernels/common.h"
#include "op/kernels/gemm.h"
#include "op/kernels/quant_product.h"
#include "op/kernels/storage_format.h"

using namespace softcann::op;

namespace {

void require_sum(const char* op) {
  if (*op != 0 && std::strcmp(op, "sum") != 0) invalid("reduceOp '%s': only sum is supported", op);
}

at::Tensor turned(const at::Tensor& x, bool transpose) { return transpose ? x.transpose(-1, -2) : x; }

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

void matmul_sum(const at::Tensor& x1, const Factors& factors, const at::Tensor& addend, const at::Tensor& out) {
  sum_over_ranks(addend, out, [&](const at::Tensor& mine) {
    if (!factors.quantized()) return factors.product(mine, x1, factors.row_scale);
    const at::Tensor rows = mine.view({-1, mine.size(-1)});
    factors.product(rows, x1.flatten(0, -2), factors.row_scale);
  });
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
    if (end != start) matmul_into(part, rows.slice(0, start, end), turned(weight[expert], transposed));
    start = end;
  }
}

void shared_product(const at::Tensor& x, const at::Tensor& weight, bool transposed, const at::Tensor& out) {
  if (given(x) && given(weight) && given(out)) put(out, at::matmul(x, turned(weight, transposed)));
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
#define WEIGHT_QUANT_ALL_REDUCE(NAME)                                                              \
  OP_COLLECTIVE(NAME, sum_plan(group, reduceOp, output)) {                                         \
    sum_over_ranks(x3, output, [&](const at::Tensor& mine) {                                       \
      const WeightQuantProduct product{antiquantScale, antiquantOffset, bias, antiquantGroupSize}; \
      put(mine, product.value(x1, in_base_format(x2)));                                            \
    });                                                                                            \
  }
WEIGHT_QUANT_ALL_REDUCE(aclnnWeightQuantMatmulAllReduce)
WEIGHT_QUANT_ALL_REDUCE(aclnnWeightQuantMatmulAllReduceV2)

#define EXCHANGE_MATMUL(NAME)                                                                                                 \
  OP_COLLECTIVE(NAME, exchange_plan(group, turned(x1, transposeX1).size(0), bytes_of_row(turned(x1, transposeX1)), "rows")) { \
    exchange_matmul(turned(x1, transposeX1), {turned(x2, transposeX2), biasOptional, {}, {}}, output, alltoAllOutOptional);   \
  }
EXCHANGE_MATMUL(aclnnAlltoAllMatmul)
EXCHANGE_MATMUL(aclnnAlltoAllMatmulV2)
#define MATMUL_EXCHANGE(NAME)                                                                                                \
  OP_COLLECTIVE(NAME, exchange_plan(group, turned(x2, transposeX2).size(1),                                                  \
                                    turned(x1, transposeX1).size(0) * static_cast<int64_t>(output.itemsize()), "columns")) { \
    matmul_exchange(turned(x1, transposeX1), {turned(x2, transposeX2), biasOptional, {}, {}}, output);                       \
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
