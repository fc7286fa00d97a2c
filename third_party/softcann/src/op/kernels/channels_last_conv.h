// Convolutions of tensors whose channels lie beside each other: of all channels together, or of each alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "rt/runtime.h"

namespace softcann::op {

// Whether this processor has the loops, for as many channels as results.
SOFTCANN_API bool has_lanes(int64_t channels);

// What is done with a sum before it is stored: `other`, of the result's layout, is added, then it is held in [low, high]; a NaN
// stays.
struct Finish {
  const float* other = nullptr;
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
};

// In [first, last): taps of a kernel.
struct Taps {
  int64_t first, last;
};

// Of float16: what Finish says, and `activate`, if there is one, are done in float32 with each strip of the result, which is then
// rounded.
struct HalfCall {
  const c10::Half *x, *other;  // other: null where nothing is added
  float low, high;
  std::function<void(at::Tensor&)> activate;
  c10::Half* y;
};

struct ConvShape {
  int64_t images, channels, in_h, in_w, out_h, out_w;
  int64_t kernel[2], stride[2], padding[2], dilation[2];

  // Those of a result's row (axis 0) or column (axis 1) that lie within the image.
  Taps taps(int axis, int64_t place) const;
  // Columns [first, last) of the result have all taps within the image.
  int64_t first_whole_column() const { return (padding[1] + stride[1] - 1) / stride[1]; }
  int64_t last_whole_column() const;
};

// y[pixel][out] = bias[out] + sum of weight[out][in][tap] * x[pixel at the tap][in]; of one pixel, a linear layer.
class SOFTCANN_API DenseConv {
 public:
  // `weight` is torch's, [out, in, taps...], dense, in float32 or float16, and is kept in this type; `bias` in float32, or
  // undefined.
  DenseConv(const at::Tensor& weight, const at::Tensor& bias);
  // Columns beside each other only: dilation[1] is 1.
  void run(const ConvShape& shape, const float* x, const Finish& finish, float* y) const;
  void run(const ConvShape& shape, const HalfCall& call) const;

 private:
  template <class Weight>
  void compute(const ConvShape& shape, const float* x, const std::vector<Weight>& weight, const Finish& finish, float* y) const;

  int64_t out_channels_;
  std::vector<float> weight_, bias_;
  std::vector<c10::Half> half_;  // instead of weight_
};

// A channel of the result from the same channel of the input.
class SOFTCANN_API DepthwiseConv {
 public:
  // As DenseConv's, with one input channel.
  DepthwiseConv(const at::Tensor& weight, const at::Tensor& bias);
  void run(const ConvShape& shape, const float* x, const Finish& finish, float* y) const;
  void run(const ConvShape& shape, const HalfCall& call) const;

 private:
  std::vector<float> weight_, bias_;
};

}  // namespace softcann::op
