// Convolution as one matrix product, float32, NCHW. See Note [Unfolded convolution].
#pragma once

#include <ATen/core/Tensor.h>

namespace softcann::op {

// One group. The parameters are [vertical, horizontal].
struct UnfoldedShape {
  int64_t images, in_channels, in_h, in_w, out_channels, kernel_h, kernel_w, out_h, out_w;
  int64_t stride[2], pad[2], dilation[2];

  int64_t pixels() const { return images * out_h * out_w; }
  int64_t taps() const { return in_channels * kernel_h * kernel_w; }
};

// Which of the three products are faster so than in the libraries' blocked layouts.
struct UnfoldedGain {
  bool result = false, input_gradient = false, weight_gradient = false;
};
UnfoldedGain gain_of_unfolding(const UnfoldedShape& shape);

// All tensors contiguous float32; y, dx, dw and db are overwritten; bias and db may be undefined.
void unfolded_convolution(const UnfoldedShape& shape, const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias,
                          at::Tensor& y);
void unfolded_input_gradient(const UnfoldedShape& shape, const at::Tensor& w, const at::Tensor& dy, at::Tensor& dx);
void unfolded_weight_gradient(const UnfoldedShape& shape, const at::Tensor& x, const at::Tensor& dy, at::Tensor& dw,
                              at::Tensor& db);

}  // namespace softcann::op
