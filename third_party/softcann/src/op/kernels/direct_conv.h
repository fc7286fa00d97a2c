// Convolution of few channels, float32, NCHW. See Note [Direct convolution].
#pragma once

#include <cstdint>

namespace softcann::op {

// Stride and dilation 1, one group, a square kernel, the same padding on all sides.
struct DirectShape {
  int64_t images, in_channels, in_h, in_w, out_channels, kernel, pad, out_h, out_w;
};

// Whether this processor and these sizes are what the functions below are for.
bool suits_direct_convolution(const DirectShape& shape);

// All tensors contiguous; y, dw, db and dx are overwritten. bias, dx, dw and db may be null, db must be where dw is.
void direct_convolution(const DirectShape& shape, const float* x, const float* w, const float* bias, float* y);
void direct_gradients(const DirectShape& shape, const float* x, const float* w, const float* dy, float* dx, float* dw, float* db);

}  // namespace softcann::op
