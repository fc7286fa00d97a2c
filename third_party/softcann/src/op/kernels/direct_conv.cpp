

#include "op/kernels/direct_conv.h"
#include <ATen/Parallel.h>
#include <algorithm>
#include <cstring>
#include <vector>

// Note [Direct convolution]
// Libraries arrange channels in blocks of eight or sixteen before they compute. With one or six input channels, as in
// the first layers of small networks, that multiplies the data several times and most lanes carry zeros. Here a lane is
// a pixel: a vector holds eight neighbours of a row, taps and channels are loops, and everything an image needs stays in
// the nearest cache. Rows whose width is no multiple of eight, or that need padding, are staged with zeros around them.
#if defined(__x86_64__) && defined(__GNUC__)
#define SOFTCANN_DIRECT_CONVOLUTION 1
#endif

namespace softcann::op {

#ifndef SOFTCANN_DIRECT_CONVOLUTION

bool suits_direct_convolution(const DirectShape&) { return false; }
void direct_convolution(const DirectShape&, const float*, const float*, const float*, float*) {}
void direct_weight_gradient(const DirectShape&, const float*, const float*, float*, float*) {}
void direct_input_gradient(const DirectShape&, const float*, const float*, float*) {}

#else

bool suits_direct_convolution(const DirectShape& s) {
  static const bool capable = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return capable && s.in_channels <= 8 && s.out_channels <= 32 && s.kernel >= 2 && s.kernel <= 7 &&
         s.pad < s.kernel && s.out_w >= 8 && s.out_h >= 1 && s.images >= 8 &&
         s.in_channels * s.in_h * s.in_w <= 1 << 15;
}

#pragma GCC push_options
#pragma GCC target("avx2,fma")

namespace {

typedef float Lanes __attribute__((vector_size(32)));
typedef float LooseLanes __attribute__((vector_size(32), aligned(4), may_alias));

inline Lanes load(const float* p) { return *reinterpret_cast<const LooseLanes*>(p); }
inline void store(float* p, Lanes v) { *reinterpret_cast<LooseLanes*>(p) = v; }
inline Lanes all(float v) { return Lanes{v, v, v, v, v, v, v, v}; }
inline float sum(Lanes v) { return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7])); }

int64_t up_to_eight(int64_t n) { return (n + 7) / 8 * 8; }

// A tensor's image seen as planes of rows, with `width` readable columns.
struct Planes {
  const float* data;
  int64_t plane, width;
};

// Copies an image into planes of height x width with zeros around.
Planes staged(std::vector<float>& buffer, const float* image, int64_t channels, int64_t h, int64_t w, int64_t pad,
              int64_t height, int64_t width) {
  buffer.assign(static_cast<size_t>(channels * height * width), 0.0f);
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t y = 0; y < h; ++y) {
      std::memcpy(&buffer[static_cast<size_t>((c * height + y + pad) * width + pad)], image + (c * h + y) * w,
                  static_cast<size_t>(w) * sizeof(float));
    }
  }
  return {buffer.data(), height * width, width};
}

// The input of one image with its padding, wide enough for vectors over `columns` output columns.
Planes input_planes(const DirectShape& s, const float* image, int64_t columns, std::vector<float>& buffer) {
  const int64_t height = s.out_h + s.kernel - 1, width = columns + s.kernel - 1;
  if (s.pad == 0 && width == s.in_w) return {image, s.in_h * s.in_w, s.in_w};
  return staged(buffer, image, s.in_channels, s.in_h, s.in_w, s.pad, std::max(height, s.in_h + 2 * s.pad),
                std::max(width, s.in_w + 2 * s.pad));
}
Planes gradient_planes(const DirectShape& s, const float* image, std::vector<float>& buffer) {
  if (s.out_w % 8 == 0) return {image, s.out_h * s.out_w, s.out_w};
  return staged(buffer, image, s.out_channels, s.out_h, s.out_w, 0, s.out_h, up_to_eight(s.out_w));
}

std::vector<int64_t> tap_offsets(const DirectShape& s, int64_t channels, const Planes& x) {
  std::vector<int64_t> offsets;
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t ky = 0; ky < s.kernel; ++ky) {
      for (int64_t kx = 0; kx < s.kernel; ++kx) offsets.push_back(c * x.plane + ky * x.width + kx);
    }
  }
  return offsets;
}

// ---- forward ----------------------------------------------------------------------------------------------------

constexpr int64_t channel_block = 6, position_block = 2;  // 12 sums, 2 pixels and a weight fill 15 of 16 registers

template <int Channels, int Positions>
void forward_block(const float* const* in, float* const* out, int64_t out_plane, const float* weights,
                   const int64_t* offsets, int64_t taps, const float* bias) {
  Lanes sums[Channels][Positions];
#pragma GCC unroll 8
  for (int c = 0; c < Channels; ++c) {
#pragma GCC unroll 8
    for (int p = 0; p < Positions; ++p) sums[c][p] = all(bias[c]);
  }
  for (int64_t t = 0; t < taps; ++t, weights += Channels) {
    Lanes pixels[Positions];
#pragma GCC unroll 8
    for (int p = 0; p < Positions; ++p) pixels[p] = load(in[p] + offsets[t]);
#pragma GCC unroll 8
    for (int c = 0; c < Channels; ++c) {
      const Lanes weight = all(weights[c]);
#pragma GCC unroll 8
      for (int p = 0; p < Positions; ++p) sums[c][p] += weight * pixels[p];
    }
  }
#pragma GCC unroll 8
  for (int c = 0; c < Channels; ++c) {
#pragma GCC unroll 8
    for (int p = 0; p < Positions; ++p) store(out[p] + c * out_plane, sums[c][p]);
  }
}

using ForwardBlock = void (*)(const float* const*, float* const*, int64_t, const float*, const int64_t*, int64_t,
                              const float*);
template <int Positions>
ForwardBlock forward_for(int64_t channels) {
  constexpr ForwardBlock table[] = {nullptr, &forward_block<1, Positions>, &forward_block<2, Positions>,
                                    &forward_block<3, Positions>, &forward_block<4, Positions>,
                                    &forward_block<5, Positions>, &forward_block<6, Positions>};
  return table[channels];
}

struct ForwardWeights {
  std::vector<float> packed, bias;  // block by block: taps x channels of the block
};
ForwardWeights pack_forward(const DirectShape& s, const float* w, const float* bias) {
  const int64_t taps = s.in_channels * s.kernel * s.kernel;
  ForwardWeights result;
  for (int64_t first = 0; first < s.out_channels; first += channel_block) {
    const int64_t count = std::min(channel_block, s.out_channels - first);
    for (int64_t t = 0; t < taps; ++t) {
      for (int64_t c = 0; c < count; ++c) result.packed.push_back(w[(first + c) * taps + t]);
    }
  }
  for (int64_t c = 0; c < s.out_channels; ++c) result.bias.push_back(bias ? bias[c] : 0.0f);
  return result;
}

void forward_image(const DirectShape& s, const Planes& x, const ForwardWeights& weights,
                   const std::vector<int64_t>& offsets, float* y) {
  const auto taps = static_cast<int64_t>(offsets.size());
  const int64_t vectors = (s.out_w + 7) / 8, positions = s.out_h * vectors, plane = s.out_h * s.out_w;
  // The last vector of a row overlaps its neighbour where the width is no multiple of eight.
  const auto column = [&](int64_t v) { return std::min(v * 8, s.out_w - 8); };
  for (int64_t first = 0; first < s.out_channels; first += channel_block) {
    const int64_t count = std::min(channel_block, s.out_channels - first);
    const float* packed = weights.packed.data() + first * taps;
    for (int64_t p = 0; p < positions; p += position_block) {
      const float* in[position_block];
      float* out[position_block];
      const int64_t several = std::min(position_block, positions - p);
      for (int64_t i = 0; i < several; ++i) {
        const int64_t row = (p + i) / vectors, start = column((p + i) % vectors);
        in[i] = x.data + row * x.width + start;
        out[i] = y + first * plane + row * s.out_w + start;
      }
      (several == 2 ? forward_for<2>(count) : forward_for<1>(count))(in, out, plane, packed, offsets.data(), taps,
                                                                    weights.bias.data() + first);
    }
  }
}

}  // namespace

void direct_convolution(const DirectShape& s, const float* x, const float* w, const float* bias, float* y) {
  const ForwardWeights weights = pack_forward(s, w, bias);
  at::parallel_for(0, s.images, 16, [&](int64_t begin, int64_t end) {
    std::vector<float> buffer;
    std::vector<int64_t> offsets;
    for (int64_t n = begin; n < end; ++n) {
      const Planes planes = input_planes(s, x + n * s.in_channels * s.in_h * s.in_w, s.out_w, buffer);
      if (offsets.empty()) offsets = tap_offsets(s, s.in_channels, planes);
      forward_image(s, planes, weights, offsets, y + n * s.out_channels * s.out_h * s.out_w);
    }
  });
}

// ---- gradient of the weights ------------------------------------------------------------------------------------

namespace {

constexpr int64_t weight_channels = 3, weight_taps = 4, image_group = 4;

struct ImagePair {
  Planes x, dy;
};

template <int Channels, int Taps>
void weight_block(const ImagePair* images, int64_t count, int64_t rows, int64_t vectors, int64_t first_channel,
                  const int64_t* offsets, float* sums, int64_t stride) {
  Lanes local[Channels][Taps];
#pragma GCC unroll 8
  for (int c = 0; c < Channels; ++c) {
#pragma GCC unroll 8
    for (int t = 0; t < Taps; ++t) local[c][t] = load(sums + 8 * (c * stride + t));
  }
  for (int64_t n = 0; n < count; ++n) {
    const Planes &x = images[n].x, &dy = images[n].dy;
    const float* gradient = dy.data + first_channel * dy.plane;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t v = 0; v < vectors; ++v) {
        const float* g = gradient + row * dy.width + 8 * v;
        const float* p = x.data + row * x.width + 8 * v;
        Lanes pixels[Taps];
#pragma GCC unroll 8
        for (int t = 0; t < Taps; ++t) pixels[t] = load(p + offsets[t]);
#pragma GCC unroll 8
        for (int c = 0; c < Channels; ++c) {
          const Lanes value = load(g + c * dy.plane);
#pragma GCC unroll 8
          for (int t = 0; t < Taps; ++t) local[c][t] += value * pixels[t];
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int c = 0; c < Channels; ++c) {
#pragma GCC unroll 8
    for (int t = 0; t < Taps; ++t) store(sums + 8 * (c * stride + t), local[c][t]);
  }
}

using WeightBlock = void (*)(const ImagePair*, int64_t, int64_t, int64_t, int64_t, const int64_t*, float*, int64_t);
template <int Channels>
constexpr WeightBlock weight_table[] = {nullptr, &weight_block<Channels, 1>, &weight_block<Channels, 2>,
                                        &weight_block<Channels, 3>, &weight_block<Channels, 4>};
WeightBlock weight_for(int64_t channels, int64_t taps) {
  return channels == 3 ? weight_table<3>[taps] : channels == 2 ? weight_table<2>[taps] : weight_table<1>[taps];
}

// What one thread adds up: eight sums for each weight and each channel's bias. Plain floats: std::allocator does not
// see the alignment of a vector type (GCC drops it from template arguments).
struct WeightSums {
  std::vector<float> weights, bias;
};

void add_images(const DirectShape& s, const ImagePair* images, int64_t count, const std::vector<int64_t>& offsets,
                WeightSums& sums) {
  const auto taps = static_cast<int64_t>(offsets.size());
  const int64_t vectors = up_to_eight(s.out_w) / 8;
  for (int64_t c = 0; c < s.out_channels; c += weight_channels) {
    const int64_t channels = std::min(weight_channels, s.out_channels - c);
    for (int64_t t = 0; t < taps; t += weight_taps) {
      weight_for(channels, std::min(weight_taps, taps - t))(images, count, s.out_h, vectors, c, offsets.data() + t,
                                                            sums.weights.data() + 8 * (c * taps + t), taps);
    }
  }
  for (int64_t n = 0; n < count; ++n) {
    for (int64_t c = 0; c < s.out_channels; ++c) {
      const Planes& dy = images[n].dy;
      Lanes total = all(0);
      for (int64_t row = 0; row < s.out_h; ++row) {
        for (int64_t v = 0; v < vectors; ++v) total += load(dy.data + c * dy.plane + row * dy.width + 8 * v);
      }
      float* bias = sums.bias.data() + 8 * c;
      store(bias, load(bias) + total);
    }
  }
}

void sum_images(const DirectShape& s, const float* x, const float* dy, int64_t begin, int64_t end, WeightSums& sums) {
  std::vector<float> x_buffers[image_group], dy_buffers[image_group];
  std::vector<int64_t> offsets;
  for (int64_t n = begin; n < end; n += image_group) {
    const int64_t count = std::min(image_group, end - n);
    ImagePair images[image_group];
    for (int64_t i = 0; i < count; ++i) {
      images[i].x = input_planes(s, x + (n + i) * s.in_channels * s.in_h * s.in_w, up_to_eight(s.out_w), x_buffers[i]);
      images[i].dy = gradient_planes(s, dy + (n + i) * s.out_channels * s.out_h * s.out_w, dy_buffers[i]);
    }
    if (offsets.empty()) offsets = tap_offsets(s, s.in_channels, images[0].x);
    add_images(s, images, count, offsets, sums);
  }
}

}  // namespace

void direct_weight_gradient(const DirectShape& s, const float* x, const float* dy, float* dw, float* db) {
  const int64_t weights = s.out_channels * s.in_channels * s.kernel * s.kernel;
  const int64_t parts = std::clamp<int64_t>(at::get_num_threads(), 1, std::max<int64_t>(s.images / 8, 1));
  std::vector<WeightSums> sums(static_cast<size_t>(parts));
  at::parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      WeightSums& own = sums[static_cast<size_t>(part)];
      own.weights.assign(static_cast<size_t>(8 * weights), 0.0f);
      own.bias.assign(static_cast<size_t>(8 * s.out_channels), 0.0f);
      sum_images(s, x, dy, s.images * part / parts, s.images * (part + 1) / parts, own);
    }
  });
  const auto collect = [&](float* out, int64_t count, std::vector<float> WeightSums::*member) {
    for (int64_t i = 0; i < count; ++i) {
      Lanes total = all(0);
      for (const WeightSums& part : sums) total += load((part.*member).data() + 8 * i);
      out[i] = sum(total);
    }
  };
  collect(dw, weights, &WeightSums::weights);
  if (db) collect(db, s.out_channels, &WeightSums::bias);
}

// ---- gradient of the input --------------------------------------------------------------------------------------

namespace {

constexpr int64_t input_taps = 5;

// Adds to dx, at Taps places each, what Positions vectors of all output channels contribute.
template <int Taps, int Positions>
void input_block(const float* dy, int64_t dy_plane, int64_t channels, const float* weights, const int64_t* offsets,
                 float* dx) {
  Lanes sums[Taps][Positions];
#pragma GCC unroll 8
  for (int t = 0; t < Taps; ++t) {
#pragma GCC unroll 8
    for (int p = 0; p < Positions; ++p) sums[t][p] = all(0);
  }
  for (int64_t c = 0; c < channels; ++c, weights += Taps) {
    Lanes values[Positions];
#pragma GCC unroll 8
    for (int p = 0; p < Positions; ++p) values[p] = load(dy + c * dy_plane + 8 * p);
#pragma GCC unroll 8
    for (int t = 0; t < Taps; ++t) {
      const Lanes weight = all(weights[t]);
#pragma GCC unroll 8
      for (int p = 0; p < Positions; ++p) sums[t][p] += weight * values[p];
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < Taps; ++t) {
#pragma GCC unroll 8
    for (int p = 0; p < Positions; ++p) {
      float* target = dx + offsets[t] + 8 * p;
      store(target, load(target) + sums[t][p]);
    }
  }
}
using InputBlock = void (*)(const float*, int64_t, int64_t, const float*, const int64_t*, float*);
template <int Positions>
constexpr InputBlock input_table[] = {nullptr, &input_block<1, Positions>, &input_block<2, Positions>,
                                      &input_block<3, Positions>, &input_block<4, Positions>,
                                      &input_block<5, Positions>};

// Channel by channel of the input, block by block of taps: output channels x taps of the block.
std::vector<float> pack_input(const DirectShape& s, const float* w) {
  const int64_t taps = s.kernel * s.kernel;
  std::vector<float> packed;
  for (int64_t c = 0; c < s.in_channels; ++c) {
    for (int64_t first = 0; first < taps; first += input_taps) {
      for (int64_t o = 0; o < s.out_channels; ++o) {
        for (int64_t t = first; t < std::min(first + input_taps, taps); ++t) {
          packed.push_back(w[(o * s.in_channels + c) * taps + t]);
        }
      }
    }
  }
  return packed;
}

void input_image(const DirectShape& s, const Planes& dy, const std::vector<float>& packed,
                 const std::vector<int64_t>& offsets, float* target, int64_t plane, int64_t width) {
  const int64_t taps = s.kernel * s.kernel, vectors = up_to_eight(s.out_w) / 8;
  const float* weights = packed.data();
  for (int64_t c = 0; c < s.in_channels; ++c) {
    for (int64_t first = 0; first < taps; first += input_taps) {
      const int64_t count = std::min(input_taps, taps - first);
      for (int64_t row = 0; row < s.out_h; ++row) {
        for (int64_t v = 0; v < vectors; v += 2) {
          (v + 1 < vectors ? input_table<2> : input_table<1>)[count](
              dy.data + row * dy.width + 8 * v, dy.plane, s.out_channels, weights, offsets.data() + first,
              target + c * plane + row * width + 8 * v);
        }
      }
      weights += s.out_channels * count;
    }
  }
}

}  // namespace

void direct_input_gradient(const DirectShape& s, const float* w, const float* dy, float* dx) {
  const std::vector<float> packed = pack_input(s, w);
  const int64_t height = std::max(s.out_h + s.kernel - 1, s.in_h + 2 * s.pad);
  const int64_t width = std::max(up_to_eight(s.out_w) + s.kernel - 1, s.in_w + 2 * s.pad);
  const std::vector<int64_t> offsets = tap_offsets(s, 1, {nullptr, 0, width});
  at::parallel_for(0, s.images, 16, [&](int64_t begin, int64_t end) {
    std::vector<float> dy_buffer, sums;
    for (int64_t n = begin; n < end; ++n) {
      const Planes gradient = gradient_planes(s, dy + n * s.out_channels * s.out_h * s.out_w, dy_buffer);
      sums.assign(static_cast<size_t>(s.in_channels * height * width), 0.0f);
      input_image(s, gradient, packed, offsets, sums.data(), height * width, width);
      float* image = dx + n * s.in_channels * s.in_h * s.in_w;
      for (int64_t c = 0; c < s.in_channels; ++c) {
        for (int64_t y = 0; y < s.in_h; ++y) {
          std::memcpy(image + (c * s.in_h + y) * s.in_w,
                      &sums[static_cast<size_t>((c * height + y + s.pad) * width + s.pad)],
                      static_cast<size_t>(s.in_w) * sizeof(float));
        }
      }
    }
  });
}

#pragma GCC pop_options

#endif

}  // namespace softcann::op
