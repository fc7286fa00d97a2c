// ReLU and its gradient for more than the caches hold.
#pragma once

#include <ATen/core/Tensor.h>

namespace softcann::op {

// Each touches nothing and returns false for what it is not made for: it takes float32 tensors without gaps, in the same order,
// whose result is large and lies apart.
bool bulk_relu(const at::Tensor& self, const at::Tensor& out);
// out = self <= threshold ? 0 : grad
bool bulk_threshold_gradient(const at::Tensor& grad, const at::Tensor& self, double threshold, const at::Tensor& out);

}  // namespace softcann::op
