// Mixtures of experts: gating.
#include <limits>

#include "op/kernel.h"
#include "op/kernels/common.h"

using namespace softcann::op;

namespace {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

}  // namespace

OP(aclnnMoeGatingTopKSoftmax) {
  const auto [values, experts] = at::topk(at::softmax(widened(x), -1), k, -1);
  put(yOut, values);
  at::Tensor chosen = experts;
  if (finishedOptional.defined()) chosen = at::where(finishedOptional.to(at::kBool).unsqueeze(-1), x.size(-1), experts);
  put(expertIdxOut, chosen);
  const int64_t rows = x.numel() / std::max<int64_t>(x.size(-1), 1);
  put(rowIdxOut, at::arange(rows * k, at::kLong).view({k, rows}).t().reshape(experts.sizes()));
}

OP(aclnnMoeGatingTopKSoftmaxV2) {
  TORCH_CHECK(renorm == 0 || renorm == 1, "aclnnMoeGatingTopKSoftmaxV2: renorm ", renorm, " is not supported");
  const at::Tensor wide = widened(x);
  const auto [best, experts] = at::topk(renorm ? wide : at::softmax(wide, -1), k, -1);
  put(yOut, renorm ? at::softmax(best, -1) : best);
  at::Tensor chosen = experts;
  if (finishedOptional.defined()) chosen = at::where(finishedOptional.to(at::kBool).unsqueeze(-1), x.size(-1), experts);
  put(expertIdxOut, chosen);
  if (outputSoftmaxResultFlag && !renorm) put(softmaxResultOutOptional, at::softmax(wide, -1));
}

namespace {

// Scores of the experts outside the k_group best groups become minus infinity.
at::Tensor within_groups(const at::Tensor& scores, int64_t groups, int64_t kept, int64_t select_mode) {
  if (groups <= 1 || kept >= groups) return scores;
  const at::Tensor split = scores.view({scores.size(0), groups, -1});
  const at::Tensor best = select_mode == 0 ? split.amax({-1}) : std::get<0>(at::topk(split, 2, -1)).sum({-1});
  const at::Tensor chosen = std::get<1>(at::topk(best, kept, -1));
  const at::Tensor in = at::zeros(best.sizes(), at::kBool).scatter_(1, chosen, true).unsqueeze(-1);
  return at::where(in, split, minus_infinity).view(scores.sizes());
}

// Sigmoids of the chosen experts always are made to sum to 1; shares of a softmax with renorm 1. CANN documents renorm 0
// alone; 1 is what vLLM for Ascend asks of an operator of this name, for models that norm the weights (norm_topk_prob).
struct Gating {
  const char* op;
  const at::Tensor &bias, &tokens, &table;  // of a table with the experts of each token there is no choice
  int64_t k, kept, groups, select_mode, renorm, norm_type;
  double factor, eps;

  void run(const at::Tensor& x, const at::Tensor& weights_out, const at::Tensor& experts_out,
           const at::Tensor& normal_out) const {
    TORCH_CHECK(renorm == 0 || renorm == 1, op, ": renorm ", renorm, " is not supported");
    TORCH_CHECK(norm_type == 0 || norm_type == 1, op, ": normType ", norm_type, " is not supported");
    TORCH_CHECK(select_mode == 0 || select_mode == 1, op, ": groupSelectMode ", select_mode, " is not supported");
    TORCH_CHECK(given(tokens) == given(table), op, ": inputIds and tid2eid must both be given, or none");
    const at::Tensor normal = norm_type == 0 ? at::softmax(widened(x), -1) : at::sigmoid(widened(x));
    const at::Tensor experts = chosen(normal);
    at::Tensor weights = normal.gather(1, experts);
    if (norm_type == 1 || renorm == 1) weights = weights / (weights.sum({-1}, true) + eps);
    put(weights_out, weights * factor);
    put(experts_out, experts);
    if (given(normal_out)) put(normal_out, normal);
  }

 private:
  at::Tensor chosen(const at::Tensor& normal) const {
    if (given(table)) return table.index_select(0, tokens.to(at::kLong)).to(at::kLong);
    const at::Tensor scores = given(bias) ? normal + widened(bias) : normal;
    return std::get<1>(at::topk(within_groups(scores, groups, kept, select_mode), k, -1));
  }
};

}  // namespace

OP(aclnnMoeGatingTopK) {
  const at::Tensor none;
  Gating{"aclnnMoeGatingTopK", biasOptional, none, none, k, kGroup, groupCount, groupSelectMode, renorm, normType,
         routedScalingFactor,  eps}
      .run(x, yOut, expertIdxOut, outFlag ? outOut : none);
}
OP(aclnnMoeGatingTopKV2) {
  const at::Tensor none;
  Gating{"aclnnMoeGatingTopKV2", biasOptional, inputIdsOptional, tid2eidOptional,     k,  kGroup, groupCount,
         groupSelectMode,        renorm,       normType,         routedScalingFactor, eps}
      .run(x, yOut, expertIdxOut, outFlag ? outOut : none);
}
// Rows and columns are weighed until the columns' weights no longer change by more than `tol`. A NaN ends it too.
OP(aclnnSinkhorn) {
  constexpr double least = 1e-8;
  const at::Tensor weight = at::exp(widened(cost));
  const auto rows = static_cast<double>(cost.size(0)), columns = static_cast<double>(cost.size(1));
  const double limit = given(tol) ? tol.toDouble() : 1e-4;
  TORCH_CHECK(limit > 0, "aclnnSinkhorn: tol ", limit, ", expected more than 0");
  at::Tensor by_row, by_column = at::ones({cost.size(1)}, weight.options());
  double error = 1e9;
  for (int steps = 0; error > limit; ++steps) {
    TORCH_CHECK(steps < 10000, "aclnnSinkhorn: after ", steps, " steps the error is ", error, ", still above tol ", limit);
    const at::Tensor before = by_column;
    by_row = 1 / (rows * ((before * weight).sum(1) + least));
    by_column = 1 / (columns * ((by_row.unsqueeze(1) * weight).sum(0) + least));
    error = (before - by_column).abs().mean().item<double>();
  }
  put(p, by_row.defined() ? by_column * weight * by_row.unsqueeze(1) : weight);
}
