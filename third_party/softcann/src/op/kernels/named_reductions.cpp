// Operators that clients name: reductions, sums along a dimension, orders and losses. Inputs, outputs and attributes are those of
// CANN's operators of these names.
#include <ATen/ATen.h>

#include "op/kernels/common.h"
#include "op/named.h"

using namespace softcann::op;

namespace {

using Integers = std::vector<int64_t>;

at::Tensor reduced(const Named& call, const at::Tensor& value) {
  const auto how = call.attribute<std::string>("reduction", "mean");
  TORCH_CHECK(how == "none" || how == "sum" || how == "mean", "reduction ", how, " is not known");
  return how == "none" ? value : how == "sum" ? value.sum() : value.mean();
}

}  // namespace

// x and the axes, of which none means all.
NAMED(ReduceSum) { put(call.out(0), widened(call.in(0)).sum(call.integers(1), call.attribute("keep_dims", false))); }
NAMED(ReduceMean) { put(call.out(0), widened(call.in(0)).mean(call.integers(1), call.attribute("keep_dims", false))); }
NAMED(ReduceMax) { put(call.out(0), at::amax(call.in(0), call.integers(1), call.attribute("keep_dims", false))); }
NAMED(ReduceMin) { put(call.out(0), at::amin(call.in(0), call.integers(1), call.attribute("keep_dims", false))); }
NAMED(ReduceAll) {
  put(call.out(0), call.in(0).to(at::kBool).all(at::OptionalIntArrayRef(call.integers(1)), call.attribute("keep_dims", false)));
}
NAMED(ReduceAny) {
  put(call.out(0), call.in(0).to(at::kBool).any(at::OptionalIntArrayRef(call.integers(1)), call.attribute("keep_dims", false)));
}
NAMED(ReduceProd) {
  at::Tensor made = call.in(0);
  Integers axes = call.integers(1);
  for (int64_t& axis : axes) axis = axis < 0 ? axis + made.dim() : axis;
  for (const int64_t axis : axes) made = made.prod(axis, true);
  put(call.out(0), made);  // the shape is the output's
}
NAMED(ReduceMeanD) {
  put(call.out(0), widened(call.in(0)).mean(call.attribute<Integers>("axes", {}), call.attribute("keep_dims", false)));
}
NAMED(ReduceLogSumExp) {
  put(call.out(0), at::logsumexp(widened(call.in(0)), call.integers(1), call.attribute("keep_dims", false)));
}
// x and its mean: the deviation, or with `invert` one over it.
NAMED(ReduceStdWithMean) {
  const at::Tensor x = widened(call.in(0)), square = (x - widened(call.in(1))).square();
  const auto dims = call.attribute<Integers>("dim", {});
  int64_t count = dims.empty() ? x.numel() : 1;
  for (const int64_t dim : dims) count *= x.size(dim);
  const auto less = call.attribute<int64_t>("correction", call.attribute("unbiased", true) ? 1 : 0);
  const at::Tensor variance = square.sum(dims, call.attribute("keepdim", false)) / (count - less);
  put(call.out(0), call.attribute("invert", false) ? (variance + call.attribute("epsilon", 0.001F)).rsqrt() : variance.sqrt());
}
// x and its mean, expanded: the variance, or with if_std the deviation.
NAMED(ReduceStdV2Update) {
  const at::Tensor x = widened(call.in(0)), square = (x - widened(call.in(1))).square();
  const auto dims = call.attribute<Integers>("dim", {});
  int64_t count = dims.empty() ? x.numel() : 1;
  for (const int64_t dim : dims) count *= x.size(dim);
  const auto less = call.attribute<int64_t>("correction", call.attribute("unbiased", true) ? 1 : 0);
  const at::Tensor variance = square.sum(dims, call.attribute("keepdim", false)) / (count - less);
  put(call.out(0), call.attribute("if_std", false) ? variance.sqrt() : variance);
}
NAMED(ArgMaxV2) { put(call.out(0), at::argmax(call.in(0), call.integers(1)[0])); }
NAMED(ArgMin) { put(call.out(0), at::argmin(call.in(0), call.integers(1)[0])); }
NAMED(Cumsum) { put(call.out(0), at::cumsum(call.in(0), call.integers(1)[0])); }
NAMED(Cumprod) { put(call.out(0), at::cumprod(call.in(0), call.integers(1)[0])); }
NAMED(Cummax) {
  const auto [values, indices] = at::cummax(call.in(0), call.attribute<int64_t>("dim", 0));
  put(call.out(0), values);
  put(call.out(1), indices);
}
NAMED(Cummin) {
  const auto [values, indices] = at::cummin(call.in(0), call.attribute<int64_t>("axis", 0));
  put(call.out(0), values);
  put(call.out(1), indices);
}
NAMED(Sort) {
  const auto [values, indices] = call.in(0).sort(true, call.attribute<int64_t>("axis", -1), call.attribute("descending", false));
  put(call.out(0), values);
  put(call.out(1), indices);
}
NAMED(SortV2) {
  put(call.out(0), std::get<0>(call.in(0).sort(true, call.attribute<int64_t>("axis", -1), call.attribute("descending", false))));
}
NAMED(TopKV2) {
  const auto [values, indices] = at::topk(call.in(0), call.integers(1)[0], call.attribute<int64_t>("dim", -1),
                                          call.attribute("largest", true), call.attribute("sorted", true));
  put(call.out(0), values);
  put(call.out(1), indices);
}
// Values, how many, weights.
NAMED(Bincount) {
  const at::Tensor& weight = call.in(2);
  const bool weighed = weight.defined() && weight.numel() > 0;
  put(call.out(0), at::bincount(call.in(0).to(at::kLong).flatten(), weighed ? std::optional(widened(weight)) : std::nullopt,
                                call.out(0).numel()));
}
// The values, sorted; where each element's is; how often each is there.
NAMED(UniqueWithCountsAndSorting) {
  const auto [values, places, counts] = at::_unique2(call.in(0), true, true, true);
  call.give(0, values);
  if (call.attribute("return_inverse", false)) put(call.out(1), places);
  if (call.attribute("return_counts", false)) call.give(2, counts);
}
NAMED(Dot) { put(call.out(0), (widened(call.in(0)) * widened(call.in(1))).sum()); }
NAMED(Trace) { put(call.out(0), call.in(0).trace()); }

// Losses: a value and its target; the sum, the mean or all of them.
NAMED(MseLoss) { put(call.out(0), reduced(call, (widened(call.in(0)) - widened(call.in(1))).square())); }
NAMED(LpLoss) {
  TORCH_CHECK(call.attribute<int64_t>("p", 1) == 1, "p other than 1 is not supported");
  put(call.out(0), reduced(call, (widened(call.in(0)) - widened(call.in(1))).abs()));
}
NAMED(SmoothL1LossV2) {
  put(call.out(0), reduced(call, at::smooth_l1_loss(widened(call.in(0)), widened(call.in(1)), at::Reduction::None,
                                                    call.attribute("sigma", 1.0F))));
}
// By logarithms of probabilities; batchmean divides by the first size.
NAMED(KLDiv) {
  const at::Tensor x = widened(call.in(0)),
                   each = at::kl_div(x, widened(call.in(1)), at::Reduction::None, call.attribute("log_target", false));
  put(call.out(0),
      call.attribute<std::string>("reduction", "mean") == "batchmean" ? each.sum() / x.size(0) : reduced(call, each));
}
NAMED(BinaryCrossEntropy) {
  const std::optional<at::Tensor> weight = call.in(2).defined() ? std::optional(widened(call.in(2))) : std::nullopt;
  put(call.out(0),
      reduced(call, at::binary_cross_entropy(widened(call.in(0)), widened(call.in(1)), weight, at::Reduction::None)));
}
NAMED(SigmoidCrossEntropyWithLogitsV2) {
  const auto maybe = [&](size_t i) { return call.in(i).defined() ? std::optional(widened(call.in(i))) : std::nullopt; };
  put(call.out(0), reduced(call, at::binary_cross_entropy_with_logits(widened(call.in(0)), widened(call.in(1)), maybe(2),
                                                                      maybe(3), at::Reduction::None)));
}
// Logarithms of probabilities [N, C], classes [N], weights [C]: the loss, and the sum of the weights that counted.
NAMED(NLLLoss) {
  const auto how = call.attribute<std::string>("reduction", "mean");
  const int64_t kind = how == "none" ? at::Reduction::None : how == "sum" ? at::Reduction::Sum : at::Reduction::Mean;
  const auto [loss, total] = at::nll_loss_forward(widened(call.in(0)), call.in(1).to(at::kLong), widened(call.in(2)), kind,
                                                  call.attribute<int64_t>("ignore_index", -100));
  put(call.out(0), loss);
  put(call.out(1), total);
}
