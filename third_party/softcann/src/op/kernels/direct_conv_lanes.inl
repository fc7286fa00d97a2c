// The kernels of direct_conv.cpp for one instruction set: it gives `lanes` and `registers`.

namespace {

typedef float Lanes __attribute__((vector_size(4 * lanes), may_alias));
typedef float LooseLanes __attribute__((vector_size(4 * lanes), aligned(4), may_alias));
typedef int Places __attribute__((vector_size(4 * lanes)));
typedef std::make_integer_sequence<int, lanes> Numbers;

[[gnu::always_inline]] inline Lanes load(const float* p) { return *reinterpret_cast<const Lanes*>(p); }
[[gnu::always_inline]] inline void store(float* p, Lanes v) { *reinterpret_cast<Lanes*>(p) = v; }
[[gnu::always_inline]] inline Lanes all(float v) { return v - Lanes{}; }

// ---- transposition ----------------------------------------------------------------------------------------------

// Exchanges squares of `side` lanes beside the diagonal.
template <int side, int... n>
[[gnu::always_inline]] inline void exchange(Lanes (&rows)[lanes], std::integer_sequence<int, n...>) {
  const Places low{((n & side) == 0 ? n : lanes + n - side)...}, high{((n & side) == 0 ? n + side : lanes + n)...};
#pragma GCC unroll 16
  for (int i = 0; i < lanes; ++i) {
    if (i & side) continue;
    const Lanes a = rows[i], b = rows[i + side];
    rows[i] = __builtin_shuffle(a, b, low);
    rows[i + side] = __builtin_shuffle(a, b, high);
  }
}
[[gnu::always_inline]] inline void transpose(Lanes (&rows)[lanes]) {
  exchange<1>(rows, Numbers());
  exchange<2>(rows, Numbers());
  exchange<4>(rows, Numbers());
  if constexpr (lanes == 16) exchange<8>(rows, Numbers());
}

// A group's tensor: pixel (channel, row, column) of all its images is the vector at data + offset(...). The columns have
// `margin` zeros before and after them.
struct Group {
  Group(int64_t channels, int64_t height, int64_t width, int64_t margin)
      : elements(channels * height * width), row((width + 2 * margin) * lanes), plane(height * row), memory(channels * plane) {
    for (int64_t y = 0; y < channels * height; ++y) {
      for (int64_t x = 0; x < width; ++x) places.push_back(static_cast<int32_t>(y * row + (x + margin) * lanes));
    }
  }

  int64_t elements, row, plane;
  Buffer memory;
  std::vector<int32_t> places;  // of an image's elements
};

// Takes `count` images over; lanes without an image get zeros.
void gather(const float* images, int64_t count, Group& group) {
  float* const to = group.memory.data();
  int64_t e = 0;
  for (; group.elements >= lanes && e < group.elements; e += lanes) {
    const int64_t start = std::min(e, group.elements - lanes);
    Lanes rows[lanes];
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) {
      rows[i] = i < count ? Lanes(*reinterpret_cast<const LooseLanes*>(images + i * group.elements + start)) : Lanes{};
    }
    transpose(rows);
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) store(to + group.places[static_cast<size_t>(start + i)], rows[i]);
  }
  for (; e < group.elements; ++e) {
    float* vector = to + group.places[static_cast<size_t>(e)];
    for (int64_t i = 0; i < lanes; ++i) vector[i] = i < count ? images[i * group.elements + e] : 0.0f;
  }
}

// Gives `elements` vectors, one after the other, to `count` images that lie `stride` floats apart.
void scatter_to(const float* from, int64_t elements, float* images, int64_t stride, int64_t count) {
  int64_t e = 0;
  for (; elements >= lanes && e < elements; e += lanes) {
    const int64_t start = std::min(e, elements - lanes);
    Lanes rows[lanes];
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) rows[i] = load(from + (start + i) * lanes);
    transpose(rows);
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) {
      if (i < count) *reinterpret_cast<LooseLanes*>(images + i * stride + start) = rows[i];
    }
  }
  for (; e < elements; ++e) {
    for (int64_t i = 0; i < count; ++i) images[i * stride + e] = from[e * lanes + i];
  }
}
// The same past the cache, of whole lines: each is written at once, for a part of one costs as much.
void stream_to(const float* from, int64_t elements, float* images, int64_t stride, int64_t count) {
  constexpr int vectors = line / lanes;
  for (int64_t e = 0; e < elements; e += line) {
    Lanes rows[vectors][lanes];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) rows[v][i] = load(from + (e + v * lanes + i) * lanes);
      transpose(rows[v]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) {
      if (i >= count) break;
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) stream(images + i * stride + e + v * lanes, rows[v][i]);
    }
  }
}
void scatter(const float* from, int64_t elements, float* images, int64_t stride, int64_t count, bool past_cache) {
  const bool whole =
      reinterpret_cast<uintptr_t>(images) % (line * sizeof(float)) == 0 && stride % line == 0 && elements % line == 0;
  (past_cache && whole ? stream_to : scatter_to)(from, elements, images, stride, count);
}

// ---- correlation ------------------------------------------------------------------------------------------------

// A result's tile has `channels` x `pixels` sums in registers.
constexpr int channel_block = registers == 32 ? 6 : 4;
constexpr int most_pixels(int64_t channels) { return registers == 32 ? (channels > 4 ? 4 : 6) : 3; }

struct TileInput {
  const float* data;
  int64_t plane, row, channels, kernel;
  Taps rows, columns;
};

template <int channels, int pixels>
void tile(const TileInput& in, const float* weights, const float* bias, float* out, int64_t out_plane) {
  Lanes sums[channels][pixels];
#pragma GCC unroll 8
  for (int c = 0; c < channels; ++c) {
#pragma GCC unroll 8
    for (int p = 0; p < pixels; ++p) sums[c][p] = all(bias[c]);
  }
  for (int64_t channel = 0; channel < in.channels; ++channel) {
    for (int64_t ky = in.rows.first; ky < in.rows.last; ++ky) {
      const float* from = in.data + channel * in.plane + ky * in.row + in.columns.first * lanes;
      const float* weight = weights + ((channel * in.kernel + ky) * in.kernel + in.columns.first) * channels;
      for (int64_t kx = in.columns.first; kx < in.columns.last; ++kx, from += lanes, weight += channels) {
        Lanes values[pixels];
#pragma GCC unroll 8
        for (int p = 0; p < pixels; ++p) values[p] = load(from + p * lanes);
#pragma GCC unroll 8
        for (int c = 0; c < channels; ++c) {
          const Lanes factor = all(weight[c]);
#pragma GCC unroll 8
          for (int p = 0; p < pixels; ++p) sums[c][p] += factor * values[p];
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int c = 0; c < channels; ++c) {
#pragma GCC unroll 8
    for (int p = 0; p < pixels; ++p) store(out + c * out_plane + p * lanes, sums[c][p]);
  }
}

using Tile = void (*)(const TileInput&, const float*, const float*, float*, int64_t);
template <int channels, int... n>
Tile tile_of(int64_t pixels, std::integer_sequence<int, n...>) {
  static constexpr Tile table[] = {&tile<channels, n + 1>...};
  return table[pixels - 1];
}
template <int channels>
Tile tile_of(int64_t pixels) {
  return tile_of<channels>(pixels, std::make_integer_sequence<int, most_pixels(channels)>());
}
template <int... n>
Tile tile_of(int64_t channels, int64_t pixels, std::integer_sequence<int, n...>) {
  static constexpr Tile (*table[])(int64_t) = {&tile_of<n + 1>...};
  return table[channels - 1](pixels);
}
Tile tile_of(int64_t channels, int64_t pixels) {
  return tile_of(channels, pixels, std::make_integer_sequence<int, channel_block>());
}

// Rows [first, last) of the result, to out[channel][row - first][column].
void correlate(const DirectShape& s, Group& in, const float* weights, const float* bias, int64_t first, int64_t last,
               float* out) {
  const int64_t plane = (last - first) * s.out_w * lanes, taps = s.in_channels * s.kernel * s.kernel;
  for (int64_t y = first; y < last; ++y) {
    const Taps rows = taps_of(y, y + 1, s.in_h, s.pad, s.kernel);
    for (int64_t c = 0, channels; c < s.out_channels; c += channels) {
      channels = piece(s.out_channels - c, channel_block);
      for (int64_t x = 0, pixels; x < s.out_w; x += pixels) {
        pixels = piece(s.out_w - x, most_pixels(channels));
        const TileInput input{
            in.memory.data() + (y - s.pad) * in.row + x * lanes, in.plane, in.row, s.in_channels, s.kernel, rows,
            taps_of(x, x + pixels, s.in_w, s.pad, s.kernel)};
        tile_of(channels, pixels)(input, weights + c * taps, bias + c, out + c * plane + ((y - first) * s.out_w + x) * lanes,
                                  plane);
      }
    }
  }
}

// Convolution of one group after another.
class Correlation {
 public:
  Correlation(const DirectShape& s, const float* weights, const float* bias)
      : s_(s),
        weights_(packed(s, channel_block, weights)),
        bias_(static_cast<size_t>(s.out_channels)),
        band_(std::clamp<int64_t>(band_vectors / (s.out_channels * s.out_w), 1, s.out_h)),
        past_cache_(static_cast<size_t>(s.images * s.out_channels * s.out_h * s.out_w) * sizeof(float) >= kBulkBytes) {
    if (bias) std::copy(bias, bias + s.out_channels, bias_.begin());
  }

  Buffer result() const { return Buffer(s_.out_channels * band_ * s_.out_w * lanes); }

  void run(Group& in, int64_t count, Buffer& result, float* images) const {
    const int64_t plane = s_.out_h * s_.out_w, image = s_.out_channels * plane;
    for (int64_t y = 0; y < s_.out_h; y += band_) {
      const int64_t last = std::min(y + band_, s_.out_h), pixels = (last - y) * s_.out_w;
      correlate(s_, in, weights_.data(), bias_.data(), y, last, result.data());
      if (pixels == plane) {
        scatter(result.data(), image, images, image, count, past_cache_);
        continue;
      }
      for (int64_t c = 0; c < s_.out_channels; ++c) {
        scatter(result.data() + c * pixels * lanes, pixels, images + c * plane + y * s_.out_w, image, count, past_cache_);
      }
    }
  }

 private:
  DirectShape s_;
  std::vector<float> weights_, bias_;
  int64_t band_;
  bool past_cache_;
};

// ---- gradient of the weights ------------------------------------------------------------------------------------

struct TileRows {
  const float* data;
  int64_t plane, row;
};

// Adds to sums, for `channels` channels of dy and a row of `taps` taps.
template <int channels, int taps>
void weight_tile(const TileRows& dy, const TileRows& x, int64_t rows, int64_t columns, float* sums, int64_t stride) {
  Lanes local[channels][taps];
#pragma GCC unroll 8
  for (int c = 0; c < channels; ++c) {
#pragma GCC unroll 8
    for (int t = 0; t < taps; ++t) local[c][t] = load(sums + c * stride + t * lanes);
  }
  for (int64_t y = 0; y < rows; ++y) {
    const float *gradient = dy.data + y * dy.row, *pixel = x.data + y * x.row;
    for (int64_t column = 0; column < columns; ++column, gradient += lanes, pixel += lanes) {
      Lanes values[channels];
#pragma GCC unroll 8
      for (int c = 0; c < channels; ++c) values[c] = load(gradient + c * dy.plane);
#pragma GCC unroll 8
      for (int t = 0; t < taps; ++t) {
        const Lanes seen = load(pixel + t * lanes);
#pragma GCC unroll 8
        for (int c = 0; c < channels; ++c) local[c][t] += values[c] * seen;
      }
    }
  }
#pragma GCC unroll 8
  for (int c = 0; c < channels; ++c) {
#pragma GCC unroll 8
    for (int t = 0; t < taps; ++t) store(sums + c * stride + t * lanes, local[c][t]);
  }
}

constexpr int64_t weight_channels(int64_t taps) { return std::min<int64_t>(4, (registers - 1) / (taps + 1)); }

using WeightTile = void (*)(const TileRows&, const TileRows&, int64_t, int64_t, float*, int64_t);
template <int taps, int... n>
WeightTile weight_tile_of(int64_t channels, std::integer_sequence<int, n...>) {
  static constexpr WeightTile table[] = {&weight_tile<n + 1, taps>...};
  return table[channels - 1];
}
template <int taps>
WeightTile weight_tile_of(int64_t channels) {
  return weight_tile_of<taps>(channels, std::make_integer_sequence<int, weight_channels(taps)>());
}
template <int... n>
WeightTile weight_tile_of(int64_t channels, int64_t taps, std::integer_sequence<int, n...>) {
  static constexpr WeightTile (*table[])(int64_t) = {&weight_tile_of<n + 1>...};
  return table[taps - 1](channels);
}
WeightTile weight_tile_of(int64_t channels, int64_t taps) {
  return weight_tile_of(channels, taps, std::make_integer_sequence<int, largest_kernel>());
}

// A vector of sums for each weight and each channel's bias.
class WeightSums {
 public:
  explicit WeightSums(const DirectShape& s)
      : s_(s),
        taps_(s.in_channels * s.kernel * s.kernel),
        weights_(s.out_channels * taps_ * lanes),
        bias_(s.out_channels * lanes) {}

  void add(Group& x, Group& dy, int64_t dy_margin) {
    // So many rows as stay in the nearest cache for all taps.
    const int64_t band = std::max<int64_t>(1, 112 / s_.out_w), block = weight_channels(s_.kernel);
    const TileRows gradients{dy.memory.data() + dy_margin * lanes, dy.plane, dy.row}, pixels{x.memory.data(), x.plane, x.row};
    for (int64_t first = 0; first < s_.out_h; first += band) {
      const int64_t last = std::min(first + band, s_.out_h);
      for (int64_t o = 0, channels; o < s_.out_channels; o += channels) {
        channels = piece(s_.out_channels - o, block);
        for (int64_t c = 0; c < s_.in_channels; ++c) {
          for (int64_t ky = 0; ky < s_.kernel; ++ky) add_row(gradients, pixels, first, last, o, channels, c, ky);
        }
        add_bias(gradients, first, last, o, channels);
      }
    }
  }

  // What `out` holds for each weight, and after them for each bias.
  void collect(float* out) {
    const auto sum = [](const float* v) {
      float result = 0;
      for (int i = 0; i < lanes; ++i) result += v[i];
      return result;
    };
    for (int64_t i = 0; i < s_.out_channels * taps_; ++i) *out++ = sum(weights_.data() + i * lanes);
    for (int64_t i = 0; i < s_.out_channels; ++i) *out++ = sum(bias_.data() + i * lanes);
  }

 private:
  void add_row(const TileRows& dy, const TileRows& x, int64_t first, int64_t last, int64_t o, int64_t channels, int64_t c,
               int64_t ky) {
    const int64_t from = std::max(first, s_.pad - ky), to = std::min(last, s_.in_h + s_.pad - ky);
    if (from >= to) return;
    const TileRows gradient{dy.data + o * dy.plane + from * dy.row, dy.plane, dy.row};
    const TileRows pixel{x.data + c * x.plane + (from + ky - s_.pad) * x.row, x.plane, x.row};
    float* sums = weights_.data() + (o * taps_ + (c * s_.kernel + ky) * s_.kernel) * lanes;
    weight_tile_of(channels, s_.kernel)(gradient, pixel, to - from, s_.out_w, sums, taps_ * lanes);
  }
  void add_bias(const TileRows& dy, int64_t first, int64_t last, int64_t o, int64_t channels) {
    for (int64_t c = o; c < o + channels; ++c) {
      Lanes total[2] = {load(bias_.data() + c * lanes), Lanes{}};
      for (int64_t y = first; y < last; ++y) {
        const float* row = dy.data + c * dy.plane + y * dy.row;
        for (int64_t x = 0; x < s_.out_w; ++x) total[x & 1] += load(row + x * lanes);
      }
      store(bias_.data() + c * lanes, total[0] + total[1]);
    }
  }

  DirectShape s_;
  int64_t taps_;
  Buffer weights_, bias_;
};

}  // namespace

void convolution(const DirectShape& s, const float* x, const float* w, const float* bias, float* y) {
  const Correlation correlation(s, w, bias);
  const int64_t in = s.in_channels * s.in_h * s.in_w, out = s.out_channels * s.out_h * s.out_w;
  const int64_t grain = std::max<int64_t>(1, least_work / (out * s.in_channels * s.kernel * s.kernel));
  at::parallel_for(0, (s.images + lanes - 1) / lanes, grain, [&](int64_t begin, int64_t end) {
    Group pixels(s.in_channels, s.in_h, s.in_w, s.pad);
    Buffer result = correlation.result();
    for (int64_t n = begin * lanes; n < std::min(end * lanes, s.images); n += lanes) {
      const int64_t count = std::min<int64_t>(lanes, s.images - n);
      gather(x + n * in, count, pixels);
      correlation.run(pixels, count, result, y + n * out);
    }
    _mm_sfence();  // for the results past the cache
  });
}

void gradients(const DirectShape& s, const float* x, const float* w, const float* dy, float* dx, float* dw, float* db) {
  const DirectShape back = reversed(s);
  const Correlation correlation(back, reversed(s, w).data(), nullptr);
  const int64_t in = s.in_channels * s.in_h * s.in_w, out = s.out_channels * s.out_h * s.out_w;
  const int64_t weights = s.out_channels * s.in_channels * s.kernel * s.kernel, sums = weights + s.out_channels;
  const int64_t groups = (s.images + lanes - 1) / lanes, parts = std::min(groups, most_parts);
  std::vector<float> collected(static_cast<size_t>(dw ? parts * sums : 0));
  at::parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
    const int64_t margin = dx ? back.pad : 0;
    Group gradient(s.out_channels, s.out_h, s.out_w, margin), pixels(dw ? s.in_channels : 0, s.in_h, s.in_w, s.pad);
    Buffer result = dx ? correlation.result() : Buffer(0);
    for (int64_t part = begin; part < end; ++part) {
      WeightSums total(s);
      for (int64_t n = groups * part / parts * lanes; n < std::min(groups * (part + 1) / parts * lanes, s.images); n += lanes) {
        const int64_t count = std::min<int64_t>(lanes, s.images - n);
        gather(dy + n * out, count, gradient);
        if (dx) correlation.run(gradient, count, result, dx + n * in);
        if (!dw) continue;
        gather(x + n * in, count, pixels);
        total.add(pixels, gradient, margin);
      }
      if (dw) total.collect(collected.data() + part * sums);
    }
    _mm_sfence();  // for the results past the cache
  });
  for (int64_t i = 0; dw && i < (db ? sums : weights); ++i) {
    float total = 0;
    for (int64_t part = 0; part < parts; ++part) total += collected[static_cast<size_t>(part * sums + i)];
    (i < weights ? dw[i] : db[i - weights]) = total;
  }
}
