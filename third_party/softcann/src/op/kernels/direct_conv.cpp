#include "op/kernels/direct_conv.h"

#include <ATen/Parallel.h>
#include <algorithm>
#include <utility>
#include <vector>

#include "op/simd/processor.h"
#include "rt/base/streaming_copy.h"

// Note [Direct convolution]
// Libraries arrange channels in blocks of eight or sixteen before they compute. With one or six input channels, as in the
// first layers of small networks, that multiplies the data several times and most lanes carry zeros. Here a lane is an
// image: as many images as a vector has lanes are transposed, so that a pixel is a vector, and then taps, channels and
// pixels are plain loops. No lane is idle, whatever the width. What a group of images needs stays in the second cache.
//
// Columns have zeros around them; rows outside the image are left out of the loops, and so are taps that only see the
// zeros. The gradient of the input is the same correlation, of the transposed weights with the result's gradient.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define SOFTCANN_DIRECT_CONVOLUTION 1
#include <immintrin.h>
#endif

namespace softcann::op {

#ifndef SOFTCANN_DIRECT_CONVOLUTION

bool suits_direct_convolution(const DirectShape&) { return false; }
void direct_convolution(const DirectShape&, const float*, const float*, const float*, float*) {}
void direct_gradients(const DirectShape&, const float*, const float*, const float*, float*, float*, float*) {}

#else

namespace {

constexpr int64_t line = 16;  // floats of the cache
constexpr int64_t largest_kernel = 7, largest_image = 1 << 14;
constexpr int64_t band_vectors = 8192;   // results of a group that wait for their transposition
constexpr int64_t least_work = 1 << 18;  // multiplications, in vectors
constexpr int64_t most_parts = 32;       // that a weight's gradient is summed in; the same for any number of threads

// Memory whose start is that of a cache line, with zeros in it.
class Buffer {
 public:
  explicit Buffer(int64_t floats) : memory_(static_cast<size_t>(floats + line)) {
    const auto past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(memory_.data()) / sizeof(float)) % line;
    data_ = memory_.data() + (line - past) % line;
  }
  float* data() { return data_; }

 private:
  std::vector<float> memory_;
  float* data_;
};

// How a row of `count` is cut into pieces of nearly the same size, at most `most`.
int64_t piece(int64_t left, int64_t most) {
  const int64_t pieces = (left + most - 1) / most;
  return (left + pieces - 1) / pieces;
}

// The shape whose convolution is the gradient of the input.
DirectShape reversed(const DirectShape& s) {
  return {s.images, s.out_channels, s.out_h, s.out_w, s.in_channels, s.kernel, s.kernel - 1 - s.pad, s.in_h, s.in_w};
}

// In [first, last): the taps at which positions [from, to) of a result meet one of `size` pixels.
struct Taps {
  int64_t first, last;
};
Taps taps_of(int64_t from, int64_t to, int64_t size, int64_t pad, int64_t kernel) {
  return {std::max<int64_t>(0, pad - (to - 1)), std::min(kernel, size + pad - from)};
}

// [block of out channels][in channel][tap][channel of the block]
std::vector<float> packed(const DirectShape& s, int64_t block, const float* w) {
  const int64_t taps = s.in_channels * s.kernel * s.kernel;
  std::vector<float> result;
  for (int64_t first = 0, count; first < s.out_channels; first += count) {
    count = piece(s.out_channels - first, block);
    for (int64_t t = 0; t < taps; ++t) {
      for (int64_t c = 0; c < count; ++c) result.push_back(w[(first + c) * taps + t]);
    }
  }
  return result;
}
// The weights [out, in, taps] as [in, out, taps backwards].
std::vector<float> reversed(const DirectShape& s, const float* w) {
  const int64_t taps = s.kernel * s.kernel;
  std::vector<float> result;
  for (int64_t c = 0; c < s.in_channels; ++c) {
    for (int64_t o = 0; o < s.out_channels; ++o) {
      for (int64_t t = taps; t-- > 0;) result.push_back(w[(o * s.in_channels + c) * taps + t]);
    }
  }
  return result;
}

}  // namespace

// Everything the kernels use is declared above: what a header defines must not be compiled for one instruction set.
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4")
namespace avx512 {
constexpr int lanes = 16, registers = 32;
[[gnu::always_inline]] inline void stream(float* to, __m512 v) { _mm512_stream_ps(to, v); }
#include "op/kernels/direct_conv_lanes.inl"
}  // namespace avx512
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
namespace avx2 {
constexpr int lanes = 8, registers = 16;
[[gnu::always_inline]] inline void stream(float* to, __m256 v) { _mm256_stream_ps(to, v); }
#include "op/kernels/direct_conv_lanes.inl"
}  // namespace avx2
#pragma GCC pop_options

bool suits_direct_convolution(const DirectShape& s) {
  return processor().avx2 && s.in_channels <= 8 && s.out_channels <= 32 && s.kernel >= 2 && s.kernel <= largest_kernel &&
         s.pad < s.kernel && s.out_w >= 8 && s.out_h >= 1 && s.images >= 8 && s.in_channels * s.in_h * s.in_w <= largest_image;
}
void direct_convolution(const DirectShape& s, const float* x, const float* w, const float* bias, float* y) {
  (processor().avx512 ? avx512::convolution : avx2::convolution)(s, x, w, bias, y);
}
void direct_gradients(const DirectShape& s, const float* x, const float* w, const float* dy, float* dx, float* dw, float* db) {
  (processor().avx512 ? avx512::gradients : avx2::gradients)(s, x, w, dy, dx, dw, db);
}

#endif

}  // namespace softcann::op
