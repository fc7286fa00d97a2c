// Operators that clients name: softmax and its gradient.
#include "op/kernels/common.h"
#include "op/named.h"

using namespace softcann::op;

namespace {

int64_t one_axis(const Named& call, const char* name) {
  const auto axes = call.attribute<Integers>(name, {-1});
  TORCH_CHECK(axes.size() == 1, name, " has ", axes.size(), " numbers: one is supported");
  return axes[0];
}

}  // namespace

NAMED(SoftmaxV2) { put(call.out(0), at::softmax(widened(call.in(0)), one_axis(call, "axes"))); }
NAMED(LogSoftmaxV2) { put(call.out(0), at::log_softmax(widened(call.in(0)), one_axis(call, "axes"))); }
NAMED(SoftmaxGrad) {
  const int64_t axis = one_axis(call, "axes");
  const at::Tensor y = widened(call.in(0)), by = widened(call.in(1)) * y;
  put(call.out(0), by - y * by.sum(axis, true));
}
NAMED(LogSoftmaxGrad) {
  const at::Tensor by = widened(call.in(0));
  put(call.out(0), by - widened(call.in(1)).exp() * by.sum(one_axis(call, "axis"), true));
}

namespace {

// What is hidden: above the diagonal with fixed_triu_mask, else where the mask says so; undefined without.
at::Tensor hidden_scores(const Named& call, const at::Tensor& scores, const at::Tensor& mask) {
  if (!call.attribute("fixed_triu_mask", false)) return mask.defined() ? mask.to(at::kBool) : at::Tensor();
  return at::ones({scores.size(-2), scores.size(-1)}, at::kBool).triu(1);
}

}  // namespace

NAMED(ScaledMaskedSoftmax) {
  constexpr double instead = -10000;
  at::Tensor value = widened(call.in(0)) * call.attribute("scale", 1.0F);
  const at::Tensor hidden = hidden_scores(call, value, call.in(1));
  if (hidden.defined()) value = value.masked_fill(hidden, instead);
  put(call.out(0), at::softmax(value, -1));
}
NAMED(ScaledMaskedSoftmaxGrad) {
  const at::Tensor by = widened(call.in(0)), y = widened(call.in(1));
  at::Tensor value = (by - (by * y).sum({-1}, true)) * y * call.attribute("scale", 1.0F);
  const at::Tensor hidden = hidden_scores(call, value, call.in(2));
  if (hidden.defined()) value = value.masked_fill(hidden, 0);
  put(call.out(0), value);
}
