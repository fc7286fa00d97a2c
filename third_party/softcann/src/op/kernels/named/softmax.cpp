// Operators that clients name: softmax and its gradient.
#include <ATen/ATen.h>

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

NAMED(ScaledMaskedSoftmax) {
  TORCH_CHECK(!call.attribute("fixed_triu_mask", false), "fixed_triu_mask is not supported");
  constexpr double hidden = -10000;
  at::Tensor value = widened(call.in(0)) * call.attribute("scale", 1.0F);
  if (call.in(1).defined()) value = value.masked_fill(call.in(1).to(at::kBool), hidden);
  put(call.out(0), at::softmax(value, -1));
}
NAMED(ScaledMaskedSoftmaxGrad) {
  TORCH_CHECK(!call.attribute("fixed_triu_mask", false), "fixed_triu_mask is not supported");
  const at::Tensor by = widened(call.in(0)), y = widened(call.in(1));
  at::Tensor value = (by - (by * y).sum({-1}, true)) * y * call.attribute("scale", 1.0F);
  if (call.in(2).defined()) value = value.masked_fill(call.in(2).to(at::kBool), 0);
  put(call.out(0), value);
}
