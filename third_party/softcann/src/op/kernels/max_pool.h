// Maximum pooling of planes that lie one after the other.
#pragma once

#include <ATen/core/Tensor.h>

namespace softcann::op {

struct PoolWindow {
  int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
};

// out = the windows' maxima, indices = where in their plane they stood; NaN wins. `out` has its size. Touches nothing and
// returns false where type or layout are not what it is made for: float32 without gaps.
bool max_pool(const at::Tensor& input, const PoolWindow& window, const at::Tensor& out, const at::Tensor& indices);

// grad_input = the sums of grad_output at the places that `indices` names. Returns false under the same condition.
bool max_pool_gradient(const at::Tensor& grad_output, const at::Tensor& indices, const at::Tensor& grad_input);

}  // namespace softcann::op
