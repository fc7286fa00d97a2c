// Operators that clients name: a bias and what follows it.
#include "op/kernels/common.h"
#include "op/named.h"

using namespace softcann::op;

// x, its bias in the same shape: leaky_relu(x + bias) * scale.
NAMED(FusedBiasLeakyRelu) {
  const at::Tensor sum = widened(call.in(0)) + widened(call.in(1));
  put(call.out(0), at::leaky_relu(sum, call.attribute("negative_slope", 0.2F)) * call.attribute("scale", 1.414213562373F));
}
// The result's gradient, and the result, whose sign is the sum's.
NAMED(FusedBiasLeakyReluGrad) {
  const at::Tensor gradient = widened(call.in(0)) * call.attribute("scale", 1.414213562373F);
  put(call.out(0), at::where(call.in(1).gt(0), gradient, gradient * call.attribute("negative_slope", 0.2F)));
}
