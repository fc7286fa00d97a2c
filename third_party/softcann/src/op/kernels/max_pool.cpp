#include "op/kernels/max_pool.h"

#include <ATen/Parallel.h>
#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "op/simd/clones.h"
#include "op/simd/processor.h"
#include "op/simd/thresholds.h"
#include "rt/base/streaming_copy.h"

// Note [Pooling by taps]
// A window's elements one after the other, as ATen takes them, leaves a vector's lanes empty. Here a lane is an output
// pixel: for each element of the window (a tap) a vector of a row of outputs is compared with the pixels of the input that
// this tap sees. The last vector of a row may be longer than the row: its results go to memory that the next row's overwrite,
// and what it reads is either the next row or a copy of the row with -inf around it, which also serves for padding: it never
// wins. Results pass through memory of a thread's own, from which they are copied, past the cache where there are many.
namespace softcann::op {
namespace {

constexpr int64_t ahead = 1024;     // floats that are fetched in advance, for processors stop at the end of a page
constexpr int64_t buffered = 4096;  // outputs
constexpr int64_t buffered_gradients = 1 << 16;
constexpr float lowest = -std::numeric_limits<float>::infinity();

// The smallest i from 0 on with start + i * step >= 0.
int64_t steps_to_zero(int64_t start, int64_t step) { return start >= 0 ? 0 : (-start + step - 1) / step; }

struct Plane {
  int64_t height, width, out_height, out_width;
};

// The rows of the input that a row of outputs sees, each from where the first output's first tap would be.
struct WindowRow {
  const float* data;
  int32_t place;
};
// The place that an output has until something is larger.
struct FirstPlaces {
  int32_t row;
  const int32_t* columns;
};
using PoolRow = void (*)(const WindowRow* rows, int64_t row_count, const PoolWindow& w, const FirstPlaces& first, int64_t count,
                         float* out, int32_t* places);

namespace portable {
constexpr int lanes = 4;
#include "op/kernels/max_pool_lanes.inl"
}  // namespace portable

// Everything the kernels use is declared above: what a header defines must not be compiled for one instruction set.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define SOFTCANN_POOL_X86 1
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4")
namespace avx512 {
constexpr int lanes = 16;
#include "op/kernels/max_pool_lanes.inl"
}  // namespace avx512
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
namespace avx2 {
constexpr int lanes = 8;
#include "op/kernels/max_pool_lanes.inl"
}  // namespace avx2
#pragma GCC pop_options
#endif

struct Pooling {
  PoolRow row;
  int lanes;
};
Pooling pooling_of(int64_t stride, int64_t width) {
#ifdef SOFTCANN_POOL_X86
  if (processor().avx512) return {avx512::pool_row_of(stride, width), avx512::lanes};
  if (processor().avx2) return {avx2::pool_row_of(stride, width), avx2::lanes};
#endif
  return {portable::pool_row_of(stride, width), portable::lanes};
}

SOFTCANN_CLONES void widen(const int32_t* from, int64_t count, int64_t* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i];
}
void widen(const int32_t* from, int64_t count, int32_t* to) { std::copy(from, from + count, to); }

void deliver(void* to, const void* from, int64_t bytes, bool past_cache) {
  past_cache ? stream_bytes(to, from, static_cast<size_t>(bytes))
             : static_cast<void>(std::memcpy(to, from, static_cast<size_t>(bytes)));
}

// Rows of outputs [begin, end), counted through all planes.
template <class Index>
class RowPooling {
 public:
  RowPooling(const Plane& p, const PoolWindow& w, const at::Tensor& input, const at::Tensor& out, const at::Tensor& indices)
      : p_(p),
        w_(w),
        pooling_(pooling_of(w.stride_w, w.kernel_w)),
        input_(input.const_data_ptr<float>()),
        input_end_(input_ + input.numel()),
        out_(out.mutable_data_ptr<float>()),
        indices_(indices.mutable_data_ptr<Index>()),
        past_cache_(out.nbytes() >= kBulkBytes) {
    const int64_t lanes = pooling_.lanes, columns = (p.out_width + lanes - 1) / lanes * lanes;
    reach_ = columns * w.stride_w + (w.kernel_w - 1) * w.dilation_w + lanes;
    inside_ = w.pad_w == 0 && (p.out_width - 1) * w.stride_w + (w.kernel_w - 1) * w.dilation_w < p.width;
    for (int64_t i = 0; i < columns; ++i) {
      const int64_t start = i * w.stride_w - w.pad_w;
      first_.push_back(static_cast<int32_t>(start + steps_to_zero(start, w.dilation_w) * w.dilation_w));
    }
  }

  void run(int64_t begin, int64_t end) const {
    const int64_t width = p_.out_width, several = std::clamp<int64_t>(buffered / width, 1, end - begin),
                  room = several * width + pooling_.lanes;
    std::vector<float> values(static_cast<size_t>(room)), staged(static_cast<size_t>(w_.kernel_h * reach_), lowest);
    std::vector<int32_t> places(static_cast<size_t>(room));
    std::vector<Index> wide(static_cast<size_t>(room));
    std::vector<WindowRow> rows(static_cast<size_t>(w_.kernel_h));
    int64_t y = begin % p_.out_height;
    const float* plane = input_ + begin / p_.out_height * p_.height * p_.width;
    for (int64_t row = begin, last; row < end; row = last) {
      last = std::min(row + several, end);
      for (int64_t i = row; i < last; ++i) {
        const int64_t top = y * w_.stride_h - w_.pad_h, first_row = steps_to_zero(top, w_.dilation_h);
        const int64_t count = collect(plane, top, first_row, staged, rows);
        const FirstPlaces first{static_cast<int32_t>((top + first_row * w_.dilation_h) * p_.width), first_.data()};
        pooling_.row(rows.data(), count, w_, first, width, values.data() + (i - row) * width, places.data() + (i - row) * width);
        if (++y == p_.out_height) {
          y = 0;
          plane += p_.height * p_.width;
        }
      }
      const int64_t count = (last - row) * width;
      widen(places.data(), count, wide.data());
      deliver(out_ + row * width, values.data(), count * static_cast<int64_t>(sizeof(float)), past_cache_);
      deliver(indices_ + row * width, wide.data(), count * static_cast<int64_t>(sizeof(Index)), past_cache_);
    }
  }

 private:
  // Rows first_row and on of the window whose first row is `top`; their number.
  int64_t collect(const float* plane, int64_t top, int64_t first_row, std::vector<float>& staged,
                  std::vector<WindowRow>& rows) const {
    int64_t count = 0;
    for (int64_t ky = first_row; ky < w_.kernel_h && top + ky * w_.dilation_h < p_.height; ++ky, ++count) {
      const int64_t y = top + ky * w_.dilation_h;
      const float* data = plane + y * p_.width;
      if (!inside_ || input_end_ - data < reach_) {
        float* copy = staged.data() + count * reach_;
        const int64_t columns = std::min(p_.width, reach_ - w_.pad_w);
        std::copy(data, data + columns, copy + w_.pad_w);
        data = copy;
      }
      rows[static_cast<size_t>(count)] = {data, static_cast<int32_t>(y * p_.width - w_.pad_w)};
    }
    return count;
  }

  Plane p_;
  PoolWindow w_;
  Pooling pooling_;
  const float *input_, *input_end_;
  float* out_;
  Index* indices_;
  bool past_cache_, inside_;
  int64_t reach_;  // floats of a row that are read
  std::vector<int32_t> first_;
};

template <class Index>
void pool_rows(const at::Tensor& input, const Plane& p, const PoolWindow& w, const at::Tensor& out, const at::Tensor& indices) {
  const RowPooling<Index> pooling(p, w, input, out, indices);
  const int64_t grain = std::max<int64_t>(1, threshold::grain / (p.out_width * w.kernel_h * w.kernel_w));
  at::parallel_for(0, out.numel() / p.out_width, grain, [&](int64_t begin, int64_t end) { pooling.run(begin, end); });
}

// One plane: gradient is all zeros before.
template <class Index>
bool add_at(const float* from, const Index* places, int64_t count, float* gradient, int64_t area) {
  bool sound = true;
  for (int64_t i = 0; i < count; ++i) {
    const auto place = static_cast<int64_t>(places[i]);
    if (static_cast<uint64_t>(place) < static_cast<uint64_t>(area)) {
      gradient[place] += from[i];
    } else {
      sound = false;
    }
  }
  return sound;
}

template <class Index>
void add_planes(const at::Tensor& grad_output, const at::Tensor& indices, const at::Tensor& grad_input) {
  const int64_t area = grad_input.size(-1) * grad_input.size(-2), count = grad_output.size(-1) * grad_output.size(-2);
  const float* from = grad_output.const_data_ptr<float>();
  const Index* places = indices.const_data_ptr<Index>();
  float* const to = grad_input.mutable_data_ptr<float>();
  const bool past_cache = grad_input.nbytes() >= kBulkBytes && area <= buffered_gradients;
  const int64_t several = std::max<int64_t>(1, buffered / area);
  at::parallel_for(
      0, grad_input.numel() / area, std::max<int64_t>(1, threshold::grain / (area + count)), [&](int64_t begin, int64_t end) {
        std::vector<float> own(static_cast<size_t>(past_cache ? several * area : 0));
        bool sound = true;
        for (int64_t plane = begin, last; plane < end; plane = last) {
          last = std::min(plane + several, end);
          float* target = past_cache ? own.data() : to + plane * area;
          std::fill(target, target + (last - plane) * area, 0.0f);
          for (int64_t i = plane; i < last; ++i) {
            sound &= add_at(from + i * count, places + i * count, count, target + (i - plane) * area, area);
          }
          if (past_cache) deliver(to + plane * area, target, (last - plane) * area * static_cast<int64_t>(sizeof(float)), true);
        }
        TORCH_CHECK(sound, "max_pool2d_with_indices_backward: an index lies outside its plane of ", area, " elements");
      });
}

bool plain_floats(const at::Tensor& tensor) { return tensor.scalar_type() == at::kFloat && tensor.is_contiguous(); }

// compute(Index()) for the type of the indices; false for one that is not taken.
template <class Compute>
bool with_index(const at::Tensor& indices, Compute&& compute) {
  switch (indices.scalar_type()) {
    case at::kLong:
      compute(int64_t());
      return true;
    case at::kInt:
      compute(int32_t());
      return true;
    default:
      return false;
  }
}

}  // namespace

bool max_pool(const at::Tensor& input, const PoolWindow& window, const at::Tensor& out, const at::Tensor& indices) {
  if (!plain_floats(input) || !plain_floats(out) || input.dim() != out.dim() || out.numel() == 0) return false;
  if (!indices.is_contiguous() || indices.sizes() != out.sizes()) return false;
  const Plane plane{input.size(-2), input.size(-1), out.size(-2), out.size(-1)};
  if (plane.out_width < threshold::pool_columns || plane.height * plane.width > std::numeric_limits<int32_t>::max()) return false;
  return with_index(indices, [&](auto index) { pool_rows<decltype(index)>(input, plane, window, out, indices); });
}

bool max_pool_gradient(const at::Tensor& grad_output, const at::Tensor& indices, const at::Tensor& grad_input) {
  if (!plain_floats(grad_output) || !plain_floats(grad_input) || !indices.is_contiguous() || grad_input.numel() == 0)
    return false;
  if (grad_output.dim() < 3 || grad_input.dim() != grad_output.dim() || indices.sizes() != grad_output.sizes() ||
      grad_input.sizes().slice(0, grad_input.dim() - 2) != grad_output.sizes().slice(0, grad_output.dim() - 2)) {
    return false;
  }
  return with_index(indices, [&](auto index) { add_planes<decltype(index)>(grad_output, indices, grad_input); });
}

}  // namespace softcann::op
