#include "op/kernels/channels_last_conv.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <algorithm>
#include <utility>

#include "op/kernels/panel_attention.h"
#include "op/kernels/softmax.h"
#include "op/simd/processor.h"

// Note [Channels beside each other]
// A call of oneDNN through torch costs 35 us besides its loop: descriptions, attributes and a look into its cache are made anew,
// and the first one brings 12 MB of code along and compiles more. Networks for small devices are made of convolutions that take
// as long. Here they are loops that need nothing but addresses. A vector holds output channels, a tile as many sums as there are
// registers. The weights of a dense convolution lie in panels of up to three vectors in the order in which a tile reads them; a
// panel passes over a block of pixels, which stays in the second cache. What a pixel reads of a row lies side by side, so that a
// kernel of 3x3 is three runs; zeros around the picture are copied into place before.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define SOFTCANN_CHANNELS_LAST 1
#include <immintrin.h>
#endif

namespace softcann::op {

Taps ConvShape::taps(int axis, int64_t place) const {
  const int64_t before = padding[axis] - place * stride[axis], step = dilation[axis], size = axis == 0 ? in_h : in_w;
  const int64_t first = before > 0 ? (before + step - 1) / step : 0;
  return {first, std::max(first, std::min(kernel[axis], (size + before + step - 1) / step))};
}

int64_t ConvShape::last_whole_column() const {
  const int64_t room = in_w + padding[1] - dilation[1] * (kernel[1] - 1) - 1;
  return room < 0 ? 0 : std::min(out_w, room / stride[1] + 1);
}

#ifdef SOFTCANN_CHANNELS_LAST

namespace {

constexpr int panel_vectors = 3;
constexpr int64_t block_floats = 1 << 16;
constexpr int64_t least_work = 1 << 17;  // multiplications of a thread
constexpr int64_t least_copy = 1 << 15;  // floats of one

// Vectors of output channels, in panels of nearly the same width. The last vector overlaps the one before it, which is in its
// panel: a panel of one vector is the only one, or whole.
struct Panels {
  int64_t channels, lanes, vectors, count;
  Panels(int64_t all, int64_t width)
      : channels(all), lanes(width), vectors((all + width - 1) / width), count((vectors + panel_vectors - 1) / panel_vectors) {}
  int64_t start(int64_t panel) const { return vectors * panel / count; }
  int64_t column(int64_t vector) const { return std::min(vector * lanes, channels - lanes); }
};

// [panel][tap][in channel][vector of the panel][lane]
template <class Weight>
std::vector<Weight> packed(const Panels& panels, const at::Tensor& plain) {
  std::vector<Weight> made;
  const int64_t in_channels = plain.size(1), weights = plain.numel() / plain.size(0), taps = weights / in_channels;
  const Weight* const weight = plain.const_data_ptr<Weight>();
  made.reserve(static_cast<size_t>(panels.vectors * panels.lanes * weights));
  for (int64_t panel = 0; panel < panels.count; ++panel) {
    for (int64_t k = 0; k < weights; ++k) {
      for (int64_t v = panels.start(panel); v < panels.start(panel + 1); ++v) {
        const Weight* from = weight + panels.column(v) * weights + k % in_channels * taps + k / in_channels;
        for (int64_t i = 0; i < panels.lanes; ++i) made.push_back(from[i * weights]);
      }
    }
  }
  return made;
}

template <class Weight>
struct DenseCall {
  const float *x, *bias;
  const Weight* weight;
  float* y;
  int64_t out_channels;
  Finish finish;
};

// One head's rows of `size` numbers, and what it needs to compute them.
struct HeadCall {
  const float *query, *key, *value, *mask;  // mask: null where there is none
  float* out;
  int64_t rows, keys, size, value_size;
  int64_t query_row, key_row, value_row, mask_row, out_row;  // from a row to the next; of the mask 0 where all rows have the same
  float scale;
};
struct HeadMemory {
  std::vector<float> keys, values, scores, zeros;
};

// [panel][k][vector of the panel][lane] of number (k, column) at from + k * deep + column * across.
void pack(const Panels& panels, int64_t depth, const float* from, int64_t deep, int64_t across, float factor,
          std::vector<float>& made) {
  made.resize(static_cast<size_t>(panels.vectors * panels.lanes * depth));
  for (int64_t panel = 0; panel < panels.count; ++panel) {
    const int64_t vector = panels.start(panel), width = (panels.start(panel + 1) - vector) * panels.lanes;
    for (int64_t v = 0; v * panels.lanes < width; ++v) {
      const float* at = from + panels.column(vector + v) * across;
      float* const to = made.data() + vector * panels.lanes * depth + v * panels.lanes;
      // Numbers that lie side by side are read one after the other.
      if (across == 1) {
        for (int64_t k = 0; k < depth; ++k) {
          for (int64_t i = 0; i < panels.lanes; ++i) to[k * width + i] = at[k * deep + i] * factor;
        }
      } else {
        for (int64_t i = 0; i < panels.lanes; ++i) {
          for (int64_t k = 0; k < depth; ++k) to[k * width + i] = at[k * deep + i * across] * factor;
        }
      }
    }
  }
}

// Softmax in place; of a row that sees nothing, 0.
void normalize(float* row, int64_t columns) {
  constexpr float nothing = -std::numeric_limits<float>::infinity();
  if (std::all_of(row, row + columns, [](float score) { return score == nothing; })) {
    std::fill_n(row, columns, 0.0F);
  } else {
    softmax_rows(row, row, 1, columns);
  }
}

struct DepthwiseRow {
  const ConvShape* shape;
  const float *x, *weight, *bias;  // x: of the first tap, in the row's image, without the padding of columns
  float* y;
  Taps rows;
  Finish finish;
};

}  // namespace

// Everything the kernels use is declared above: what a header defines must not be compiled for one instruction set.
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4")
namespace avx512 {
constexpr int lanes = 16, tile_rows = 8;
[[gnu::always_inline]] inline __m512 widened(const c10::Half* from) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
[[gnu::always_inline]] inline void store_narrowed(c10::Half* to, __m512 v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
#include "op/kernels/channels_last_lanes.inl"
}  // namespace avx512
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
namespace avx2 {
constexpr int lanes = 8, tile_rows = 4;
[[gnu::always_inline]] inline __m256 widened(const c10::Half* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
[[gnu::always_inline]] inline void store_narrowed(c10::Half* to, __m256 v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
#include "op/kernels/channels_last_lanes.inl"
}  // namespace avx2
#pragma GCC pop_options

namespace {

int64_t lanes() { return processor().avx512 ? avx512::lanes : avx2::lanes; }

void copy(const float* from, float* to, int64_t count) { std::copy_n(from, count, to); }
void copy(const c10::Half* from, float* to, int64_t count) {
  (processor().avx512 ? avx512::widen : avx2::widen)(from, to, count);
}
void copy(const float* from, c10::Half* to, int64_t count) {
  (processor().avx512 ? avx512::narrow : avx2::narrow)(from, to, count);
}

template <class From, class To>
void copy_in_parallel(const From* from, To* to, int64_t count) {
  at::parallel_for(0, count, least_copy, [&](int64_t begin, int64_t end) { copy(from + begin, to + begin, end - begin); });
}

at::Tensor numbers(int64_t count) { return at::empty({count}, at::TensorOptions().dtype(at::kFloat)); }

// Rows [first, first + rows) of the pictures with zeros around them, one picture below the other, in float32.
template <class Number>
at::Tensor padded(const ConvShape& s, const Number* x, int64_t first, int64_t rows) {
  const int64_t height = s.in_h + 2 * s.padding[0], row = s.in_w * s.channels, margin = s.padding[1] * s.channels;
  const int64_t wide = row + 2 * margin;
  at::Tensor made = numbers(rows * wide);
  float* const to = made.mutable_data_ptr<float>();
  at::parallel_for(first, first + rows, std::max<int64_t>(1, least_copy / wide), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float* const line = to + (i - first) * wide;
      const int64_t y = i % height - s.padding[0];
      if (y < 0 || y >= s.in_h) {
        std::fill_n(line, wide, 0.0F);
        continue;
      }
      std::fill_n(line, margin, 0.0F);
      copy(x + (i / height * s.in_h + y) * row, line + margin, row);
      std::fill_n(line + margin + row, margin, 0.0F);
    }
  });
  return made;
}

// Large pictures are padded and widened strip by strip, so that no second picture is in memory beside what was planned.
// each(shape of the strip, which has no padding, its picture, where its result starts). `result`: channels of a result that is
// held beside the strip; 0, none is.
template <class Number, class Each>
void for_strips(const ConvShape& shape, const Number* x, int64_t out_channels, int64_t result, const Each& each) {
  constexpr int64_t most_numbers = 1 << 18;
  ConvShape s = shape;
  s.in_h += 2 * std::exchange(s.padding[0], 0);
  s.in_w += 2 * std::exchange(s.padding[1], 0);
  const int64_t height = s.in_h, most_rows = most_numbers / (s.in_w * s.channels);
  const int64_t most_made = result == 0 ? INT64_MAX : std::max<int64_t>(1, most_numbers / (s.out_w * result));
  if (s.images * height <= most_rows && s.images * s.out_h <= most_made) {
    const at::Tensor whole = padded(shape, x, 0, s.images * height);
    return each(s, whole.const_data_ptr<float>(), 0);
  }
  const int64_t reach = (s.kernel[0] - 1) * s.dilation[0] + 1;
  const int64_t most = std::clamp<int64_t>((most_rows - reach) / s.stride[0] + 1, 1, most_made);
  const int64_t step = (shape.out_h + (shape.out_h + most - 1) / most - 1) / ((shape.out_h + most - 1) / most);
  s.images = 1;
  for (int64_t image = 0; image < shape.images; ++image) {
    for (int64_t row = 0; row < shape.out_h; row += step) {
      s.out_h = std::min(step, shape.out_h - row);
      s.in_h = (s.out_h - 1) * s.stride[0] + reach;
      const at::Tensor strip = padded(shape, x, image * height + row * s.stride[0], s.in_h);
      each(s, strip.const_data_ptr<float>(), (image * shape.out_h + row) * s.out_w * out_channels);
    }
  }
}

template <class Conv>
void run_half(const Conv& conv, const ConvShape& shape, int64_t out_channels, const HalfCall& call) {
  for_strips(shape, call.x, out_channels, out_channels, [&](const ConvShape& s, const float* x, int64_t place) {
    const int64_t count = s.images * s.out_h * s.out_w * out_channels;
    Finish finish{nullptr, call.low, call.high};
    at::Tensor made = numbers(count), other;
    if (call.other != nullptr) {
      other = numbers(count);
      copy_in_parallel(call.other + place, other.mutable_data_ptr<float>(), count);
      finish.other = other.const_data_ptr<float>();
    }
    conv.run(s, x, finish, made.mutable_data_ptr<float>());
    if (call.activate) call.activate(made);
    copy_in_parallel(made.const_data_ptr<float>(), call.y + place, count);
  });
}

std::vector<float> biases(int64_t channels, const at::Tensor& bias) {
  if (!bias.defined()) return std::vector<float>(static_cast<size_t>(channels));
  const float* from = bias.const_data_ptr<float>();
  return std::vector<float>(from, from + channels);
}

}  // namespace

bool has_lanes(int64_t channels) { return processor().avx2 && channels >= lanes(); }

DenseConv::DenseConv(const at::Tensor& weight, const at::Tensor& bias)
    : out_channels_(weight.size(0)), bias_(biases(weight.size(0), bias)) {
  const Panels panels(out_channels_, lanes());
  if (weight.scalar_type() == at::kHalf) {
    half_ = packed<c10::Half>(panels, weight);
  } else {
    weight_ = packed<float>(panels, weight);
  }
}

template <class Weight>
void DenseConv::compute(const ConvShape& shape, const float* x, const std::vector<Weight>& weight, const Finish& finish,
                        float* y) const {
  const auto run = processor().avx512 ? avx512::dense<Weight> : avx2::dense<Weight>;
  run(shape, {x, bias_.data(), weight.data(), y, out_channels_, finish});
}

void DenseConv::run(const ConvShape& shape, const float* x, const Finish& finish, float* y) const {
  if (shape.padding[0] != 0 || shape.padding[1] != 0) {
    return for_strips(shape, x, out_channels_, 0, [&](const ConvShape& s, const float* strip, int64_t place) {
      Finish part = finish;
      if (part.other != nullptr) part.other += place;
      run(s, strip, part, y + place);
    });
  }
  ConvShape s = shape;
  if (s.kernel[0] * s.kernel[1] * s.stride[0] * s.stride[1] == 1) {
    s.in_w = s.out_w = s.images * s.in_h * s.in_w;  // all pixels are one line
    s.images = s.in_h = s.out_h = 1;
  }
  if (half_.empty()) return compute(s, x, weight_, finish, y);
  compute(s, x, half_, finish, y);
}

void DenseConv::run(const ConvShape& shape, const HalfCall& call) const { run_half(*this, shape, out_channels_, call); }

std::optional<at::Tensor> attend_in_panels(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                           const at::Tensor& mask, double scale) {
  constexpr int64_t most_numbers = 1 << 17;  // of a head's scores, and of its keys
  for (const at::Tensor* one : {&query, &key, &value}) {
    if (one->dim() != 4 || one->scalar_type() != at::kFloat || one->numel() == 0 || one->stride(-1) != 1) return std::nullopt;
    if (one->sizes().slice(0, 2) != query.sizes().slice(0, 2)) return std::nullopt;
  }
  const int64_t batch = query.size(0), heads = query.size(1), rows = query.size(2), keys = key.size(2), size = query.size(3);
  const int64_t value_size = value.size(3);
  if (key.size(3) != size || value.size(2) != keys || !has_lanes(std::min(keys, value_size))) return std::nullopt;
  if (keys * std::max({rows, size, value_size}) > most_numbers) return std::nullopt;
  at::Tensor added;
  if (mask.defined()) {
    if (mask.scalar_type() != at::kFloat || mask.stride(-1) != 1 || mask.size(-1) != keys) return std::nullopt;
    added = mask.expand({batch, heads, rows, keys});
    if (added.stride(2) != 0 && added.stride(2) != keys) return std::nullopt;
  }
  at::Tensor made = at::empty({batch, rows, heads, value_size}, query.options()).transpose(1, 2);
  at::parallel_for(0, batch * heads, 1, [&](int64_t begin, int64_t end) {
    HeadMemory memory;
    for (int64_t i = begin; i < end; ++i) {
      const auto part = [&](const at::Tensor& of) { return i / heads * of.stride(0) + i % heads * of.stride(1); };
      const HeadCall call{query.const_data_ptr<float>() + part(query),
                          key.const_data_ptr<float>() + part(key),
                          value.const_data_ptr<float>() + part(value),
                          added.defined() ? added.const_data_ptr<float>() + part(added) : nullptr,
                          made.mutable_data_ptr<float>() + part(made),
                          rows,
                          keys,
                          size,
                          value_size,
                          query.stride(2),
                          key.stride(2),
                          value.stride(2),
                          added.defined() ? added.stride(2) : 0,
                          made.stride(2),
                          static_cast<float>(scale)};
      (processor().avx512 ? avx512::attend : avx2::attend)(call, memory);
    }
  });
  return made;
}

DepthwiseConv::DepthwiseConv(const at::Tensor& weight, const at::Tensor& bias)
    : weight_(static_cast<size_t>(weight.numel())), bias_(biases(weight.size(0), bias)) {
  const at::Tensor wide = weight.to(at::kFloat);
  const float* from = wide.const_data_ptr<float>();
  const int64_t channels = weight.size(0), taps = weight.numel() / channels;
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t t = 0; t < taps; ++t) weight_[static_cast<size_t>(t * channels + c)] = from[c * taps + t];
  }
}

void DepthwiseConv::run(const ConvShape& shape, const float* x, const Finish& finish, float* y) const {
  (processor().avx512 ? avx512::depthwise : avx2::depthwise)(shape, x, weight_.data(), bias_.data(), finish, y);
}

void DepthwiseConv::run(const ConvShape& shape, const HalfCall& call) const { run_half(*this, shape, shape.channels, call); }

#else

bool has_lanes(int64_t) { return false; }
DenseConv::DenseConv(const at::Tensor& weight, const at::Tensor&) : out_channels_(weight.size(0)) {}
void DenseConv::run(const ConvShape&, const float*, const Finish&, float*) const {}
void DenseConv::run(const ConvShape&, const HalfCall&) const {}
DepthwiseConv::DepthwiseConv(const at::Tensor&, const at::Tensor&) {}
void DepthwiseConv::run(const ConvShape&, const float*, const Finish&, float*) const {}
void DepthwiseConv::run(const ConvShape&, const HalfCall&) const {}
std::optional<at::Tensor> attend_in_panels(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, double) {
  return std::nullopt;
}

#endif

}  // namespace softcann::op
