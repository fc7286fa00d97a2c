// GELU in its approximation by a hyperbolic tangent.
#pragma once

#include <ATen/core/Tensor.h>

namespace softcann::op {

// For float32 without gaps; false, with nothing done, for other tensors. `out` and `result` may be an operand.
bool tanh_gelu(const at::Tensor& self, const at::Tensor& out);
bool tanh_gelu_gradient(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& result);

}  // namespace softcann::op
