// Operators that clients name: reductions, sums along a dimension and orders.
#include <algorithm>

#include "op/kernels/common.h"
#include "op/named.h"

using namespace softcann::op;

namespace {

// None, or an input that is left out: all.
Integers axes_of(const Named& call) { return call.in(1).defined() ? call.integers(1) : Integers(); }

}  // namespace

// x and the axes, of which none means all.
NAMED(ReduceSum) { put(call.out(0), widened(call.in(0)).sum(axes_of(call), call.attribute("keep_dims", false))); }
NAMED(ReduceMean) { put(call.out(0), widened(call.in(0)).mean(axes_of(call), call.attribute("keep_dims", false))); }
NAMED(ReduceMax) { put(call.out(0), at::amax(call.in(0), axes_of(call), call.attribute("keep_dims", false))); }
NAMED(ReduceMin) { put(call.out(0), at::amin(call.in(0), axes_of(call), call.attribute("keep_dims", false))); }
NAMED(ReduceAll) {
  put(call.out(0), call.in(0).to(at::kBool).all(at::OptionalIntArrayRef(axes_of(call)), call.attribute("keep_dims", false)));
}
NAMED(ReduceAny) {
  put(call.out(0), call.in(0).to(at::kBool).any(at::OptionalIntArrayRef(axes_of(call)), call.attribute("keep_dims", false)));
}
NAMED(ReduceProd) {
  at::Tensor made = call.in(0);
  Integers axes = call.integers(1);
  for (int64_t& axis : axes) axis = axis < 0 ? axis + made.dim() : axis;
  if (axes.empty()) {
    for (int64_t axis = 0; axis < made.dim(); ++axis) axes.push_back(axis);
  }
  std::sort(axes.rbegin(), axes.rend());  // the last first: the numbers of those before stay
  for (const int64_t axis : axes) made = made.prod(axis, call.attribute("keep_dims", false));
  put(call.out(0), made);
}
NAMED(ReduceMeanD) {
  put(call.out(0), widened(call.in(0)).mean(call.attribute<Integers>("axes", {}), call.attribute("keep_dims", false)));
}
NAMED(ReduceLogSumExp) {
  put(call.out(0), at::logsumexp(widened(call.in(0)), call.integers(1), call.attribute("keep_dims", false)));
}
namespace {

// x and its mean.
at::Tensor variance_about_mean(const Named& call) {
  const at::Tensor x = widened(call.in(0)), square = (x - widened(call.in(1))).square();
  const auto dims = call.attribute<Integers>("dim", {});
  int64_t count = dims.empty() ? x.numel() : 1;
  for (const int64_t dim : dims) count *= x.size(dim);
  const auto less = call.attribute<int64_t>("correction", call.attribute("unbiased", true) ? 1 : 0);
  return square.sum(dims, call.attribute("keepdim", false)) / (count - less);
}

}  // namespace

// x and its mean: the deviation, or with `invert` one over it.
NAMED(ReduceStdWithMean) {
  const at::Tensor variance = variance_about_mean(call);
  put(call.out(0), call.attribute("invert", false) ? (variance + call.attribute("epsilon", 0.001F)).rsqrt() : variance.sqrt());
}
// x and its mean, expanded: the variance, or with if_std the deviation.
NAMED(ReduceStdV2Update) {
  const at::Tensor variance = variance_about_mean(call);
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

NAMED(ArgMaxWithValue) {
  const auto [value, index] = at::max(call.in(0), call.attribute<int64_t>("dimension", 0), call.attribute("keep_dims", false));
  put(call.out(0), index);
  put(call.out(1), value);
}
NAMED(ArgMinWithValue) {
  const auto [value, index] = at::min(call.in(0), call.attribute<int64_t>("dimension", 0), call.attribute("keep_dims", false));
  put(call.out(0), index);
  put(call.out(1), value);
}

// The sum of powers, and then its root: of the p that clients do not give to aclnnNorm.
NAMED(LpNormReduceV2) {
  const double p = call.attribute("p", 2.0F);
  const auto axes = call.attribute<Integers>("axes", {});
  const at::Tensor sizes = widened(call.in(0)).abs();
  const at::Tensor sum = axes.empty() ? sizes.pow(p).sum() : sizes.pow(p).sum(axes, call.attribute("keepdim", false));
  put(call.out(0), sum);
}
NAMED(LpNormUpdateV2) { put(call.out(0), widened(call.in(0)).pow(1.0 / call.attribute("p", 2.0F))); }
