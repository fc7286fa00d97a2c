// Convolutions of tensors whose channels lie beside each other: of all channels together, or of each alone.
#pragma once

#include <cstdint>
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
  // `weight` is torch's, [out][in][tap]; `bias` may be null. Both are copied.
  DenseConv(int64_t out_channels, int64_t in_channels, int64_t taps, const float* weight, const float* bias);
  // Columns beside each other only: dilation[1] is 1.
  void run(const ConvShape& shape, const float* x, const Finish& finish, float* y) const;

 private:
  int64_t out_channels_;
  std::vector<float> weight_, bias_;
};

// A channel of the result from the same channel of the input.
class SOFTCANN_API DepthwiseConv {
 public:
  // As DenseConv's, with one input channel.
  DepthwiseConv(int64_t channels, int64_t in_channels, int64_t taps, const float* weight, const float* bias);
  void run(const ConvShape& shape, const float* x, const Finish& finish, float* y) const;

 private:
  std::vector<float> weight_, bias_;
};

}  // namespace softcann::op
