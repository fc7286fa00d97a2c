#include "op/kernels/max_pool.h"

#include <ATen/Parallel.h>
#include <algorithm>
#include <array>
#include <limits>

#include "op/clones.h"

// Note [Pooling by taps]
// A window's elements one after the other, as ATen takes them, leaves a vector's lanes empty. Here a lane is an output
// pixel: for each element of the window (a tap) a stretch of a row of outputs is compared with the stretch of the input that
// this tap sees. Outputs whose tap lies in the padding are left out of the stretch.
namespace softcann::op {
namespace {

constexpr int64_t stretch = 256;  // outputs computed together; they stay in the nearest cache
constexpr int64_t fewest_lanes = 8;
constexpr int64_t most_taps = 32;  // in a row of the window
constexpr int64_t work_of_a_thread = 1 << 15;  // comparisons
using Best = std::array<float, stretch>;
using Place = std::array<int32_t, stretch>;

// One tap for outputs [first, last) of a stretch. `row` and `place_of_row` belong to output 0 of the stretch.
template <int Stride>
[[gnu::always_inline]] inline void compare(const float* row, int32_t place_of_row, int64_t stride, int64_t first, int64_t last, Best& best,
                                           Place& place) {
  const int64_t step = Stride ? Stride : stride;
#pragma GCC ivdep
  for (int64_t i = first; i < last; ++i) {
    const float value = row[i * step];
    const bool wins = (value > best[i]) | (value != value);
    best[i] = wins ? value : best[i];
    place[i] = wins ? place_of_row + static_cast<int32_t>(i * step) : place[i];
  }
}
// The smallest i from 0 on with start + i * step >= 0.
int64_t steps_to_zero(int64_t start, int64_t step) { return start >= 0 ? 0 : (-start + step - 1) / step; }

struct Plane {
  int64_t height, width, out_height, out_width;
};

// What is the same for all rows of outputs: for each tap the outputs that it does not meet the padding for, and for each
// output the first column that its window has.
struct Columns {
  std::array<int64_t, most_taps> first, last;
  Place begin;
};

template <int Stride, class Index>
[[gnu::always_inline]] inline void pool_stretch(const float* input, const Plane& p, const PoolWindow& w, int64_t x, float* out, Index* indices) {
  const int64_t count = std::min(stretch, p.out_width - x), left = x * w.stride_w - w.pad_w;
  Columns columns;
  for (int64_t kx = 0; kx < w.kernel_w; ++kx) {
    const int64_t start = left + kx * w.dilation_w;
    columns.first[kx] = steps_to_zero(start, w.stride_w);
    columns.last[kx] = std::min(count, steps_to_zero(start - p.width, w.stride_w));
  }
  for (int64_t i = 0; i < count; ++i) {
    const int64_t start = left + i * w.stride_w;
    columns.begin[i] = static_cast<int32_t>(start + steps_to_zero(start, w.dilation_w) * w.dilation_w);
  }
  Best best;
  Place place;
  for (int64_t y = 0; y < p.out_height; ++y) {
    const int64_t top = y * w.stride_h - w.pad_h, first_row = steps_to_zero(top, w.dilation_h);
    const auto first_place = static_cast<int32_t>((top + first_row * w.dilation_h) * p.width);
    for (int64_t i = 0; i < count; ++i) best[i] = -std::numeric_limits<float>::infinity();
    for (int64_t i = 0; i < count; ++i) place[i] = first_place + columns.begin[i];
    for (int64_t ky = first_row; ky < w.kernel_h && top + ky * w.dilation_h < p.height; ++ky) {
      const int64_t row = (top + ky * w.dilation_h) * p.width + left;
      for (int64_t kx = 0; kx < w.kernel_w; ++kx) {
        const int64_t start = row + kx * w.dilation_w;
        compare<Stride>(input + start, static_cast<int32_t>(start), w.stride_w, columns.first[kx], columns.last[kx], best, place);
      }
    }
    float* to = out + y * p.out_width + x;
    Index* places = indices + y * p.out_width + x;
    for (int64_t i = 0; i < count; ++i) to[i] = best[i];
    for (int64_t i = 0; i < count; ++i) places[i] = place[i];
  }
}

template <int Stride, class Index>
[[gnu::always_inline]] inline void pool_rows(const float* input, const Plane& p, const PoolWindow& w, float* out, Index* indices) {
  for (int64_t x = 0; x < p.out_width; x += stretch) pool_stretch<Stride>(input, p, w, x, out, indices);
}

template <class Index>
[[gnu::always_inline]] inline void pool_any(const float* input, const Plane& p, const PoolWindow& w, float* out, Index* indices) {
  switch (w.stride_w) {
    case 1: return pool_rows<1>(input, p, w, out, indices);
    case 2: return pool_rows<2>(input, p, w, out, indices);
    default: return pool_rows<0>(input, p, w, out, indices);
  }
}
SOFTCANN_CLONES void pool_plane(const float* input, const Plane& p, const PoolWindow& w, float* out, int64_t* indices) {
  pool_any(input, p, w, out, indices);
}
SOFTCANN_CLONES void pool_plane(const float* input, const Plane& p, const PoolWindow& w, float* out, int32_t* indices) {
  pool_any(input, p, w, out, indices);
}

template <class Index>
void pool_planes(const at::Tensor& input, const Plane& p, const PoolWindow& w, const at::Tensor& out, const at::Tensor& indices) {
  const int64_t area = p.height * p.width, out_area = p.out_height * p.out_width, taps = w.kernel_h * w.kernel_w;
  const float* from = input.const_data_ptr<float>();
  float* to = out.mutable_data_ptr<float>();
  auto* places = indices.mutable_data_ptr<Index>();
  const int64_t grain = std::max<int64_t>(1, work_of_a_thread / (out_area * taps));
  at::parallel_for(0, out.numel() / out_area, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) pool_plane(from + i * area, p, w, to + i * out_area, places + i * out_area);
  });
}

}  // namespace

bool max_pool(const at::Tensor& input, const PoolWindow& window, const at::Tensor& out, const at::Tensor& indices) {
  if (input.scalar_type() != at::kFloat || out.scalar_type() != at::kFloat || input.dim() != out.dim() || out.numel() == 0) return false;
  if (!input.is_contiguous() || !out.is_contiguous() || !indices.is_contiguous() || indices.sizes() != out.sizes()) return false;
  const Plane plane{input.size(-2), input.size(-1), out.size(-2), out.size(-1)};
  // Narrower outputs leave lanes empty, and the preparations of a row are for few.
  if (plane.out_width < fewest_lanes || window.kernel_w > most_taps || plane.height * plane.width > std::numeric_limits<int32_t>::max()) return false;
  if (indices.scalar_type() == at::kLong) {
    pool_planes<int64_t>(input, plane, window, out, indices);
  } else if (indices.scalar_type() == at::kInt) {
    pool_planes<int32_t>(input, plane, window, out, indices);
  } else {
    return false;
  }
  return true;
}

}  // namespace softcann::op
