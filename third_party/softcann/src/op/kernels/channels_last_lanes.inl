// The kernels of channels_last_conv.cpp for one instruction set: it gives `lanes`, `tile_rows`, `widened` and `store_narrowed`.

namespace {

typedef float Lanes __attribute__((vector_size(4 * lanes), aligned(4), may_alias));

[[gnu::always_inline]] inline Lanes load(const float* p) { return *reinterpret_cast<const Lanes*>(p); }
[[gnu::always_inline]] inline Lanes load(const c10::Half* p) { return widened(p); }
[[gnu::always_inline]] inline void store(float* p, Lanes v) { *reinterpret_cast<Lanes*>(p) = v; }
[[gnu::always_inline]] inline Lanes all(float v) { return v - Lanes{}; }
[[gnu::always_inline]] inline void finish_to(float* to, Lanes sum, const float* other, Lanes low, Lanes high) {
  if (other != nullptr) sum += load(other);
  sum = sum < low ? low : sum;
  store(to, sum > high ? high : sum);
}

// Numbers that lie side by side, from float16 and, rounded to the nearest, to it.
void widen(const c10::Half* from, float* to, int64_t count) {
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) store(to + i, load(from + i));
  for (; i < count; ++i) to[i] = _cvtsh_ss(from[i].x);
}

void narrow(const float* from, c10::Half* to, int64_t count) {
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) store_narrowed(to + i, load(from + i));
  for (; i < count; ++i) to[i].x = _cvtss_sh(from[i], _MM_FROUND_TO_NEAREST_INT);
}

// ---- of all channels --------------------------------------------------------------------------------------------

template <class Weight>
struct Tile {
  const float *x, *bias;
  const Weight* weight;
  float* y;
  int64_t step;              // from the input of a pixel to that of the next
  int64_t runs, run, apart;  // what a pixel reads: `runs` times `run` numbers, `apart` from each other
  int64_t out_channels;
  int64_t columns[panel_vectors];  // where the vectors start
  Finish finish;                   // `other` as far as y
};

template <class Weight, int rows, int vectors>
void multiply(const Tile<Weight>& t) {
  Lanes sums[rows][vectors];
#pragma GCC unroll 8
  for (int v = 0; v < vectors; ++v) {
    const Lanes bias = load(t.bias + t.columns[v]);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) sums[r][v] = bias;
  }
  const Weight* weight = t.weight;
  for (int64_t i = 0; i < t.runs; ++i) {
    const float* from[rows];
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) from[r] = t.x + i * t.apart + r * t.step;
    for (int64_t k = 0; k < t.run; ++k, weight += vectors * lanes) {
      Lanes factors[vectors];
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) factors[v] = load(weight + v * lanes);
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r) {
        const Lanes value = all(from[r][k]);
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) sums[r][v] += value * factors[v];
      }
    }
  }
  const Lanes low = all(t.finish.low), high = all(t.finish.high);
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      const int64_t at = r * t.out_channels + t.columns[v];
      finish_to(t.y + at, sums[r][v], t.finish.other == nullptr ? nullptr : t.finish.other + at, low, high);
    }
  }
}

template <class Weight>
using Multiply = void (*)(const Tile<Weight>&);
template <class Weight, int vectors, int... n>
Multiply<Weight> multiply_of(int64_t rows, std::integer_sequence<int, n...>) {
  static constexpr Multiply<Weight> table[] = {&multiply<Weight, n + 1, vectors>...};
  return table[rows - 1];
}
template <class Weight>
Multiply<Weight> multiply_of(int64_t rows, int64_t vectors) {
  constexpr std::make_integer_sequence<int, tile_rows> all_rows;
  if (vectors == 1) return multiply_of<Weight, 1>(rows, all_rows);
  return vectors == 2 ? multiply_of<Weight, 2>(rows, all_rows) : multiply_of<Weight, panel_vectors>(rows, all_rows);
}

template <class Weight>
void dense(const ConvShape& s, const DenseCall<Weight>& c) {
  const Panels panels(c.out_channels, lanes);
  const int64_t step = s.stride[1] * s.channels, row = s.in_w * s.channels, run = s.kernel[1] * s.channels;
  const int64_t in_line = (s.out_w + tile_rows - 1) / tile_rows, tiles = s.images * s.out_h * in_line;
  const int64_t block = std::clamp<int64_t>(block_floats / (tile_rows * step), 1, tiles);
  const int64_t work = tile_rows * panel_vectors * lanes * run * s.kernel[0];
  at::parallel_for(0, tiles * panels.count, std::max<int64_t>(1, least_work / work), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i / (block * panels.count) * block, height = std::min(block, tiles - first);
      const int64_t rest = i - first * panels.count, panel = rest / height, tile = first + rest % height;
      const int64_t line = tile / in_line, part = tile % in_line, image = line / s.out_h;
      const int64_t column = s.out_w * part / in_line, rows = s.out_w * (part + 1) / in_line - column;
      const int64_t vector = panels.start(panel), width = panels.start(panel + 1) - vector;
      const int64_t to = (line * s.out_w + column) * c.out_channels;
      Tile<Weight> t{c.x + (image * s.in_h + line % s.out_h * s.stride[0]) * row + column * step,
             c.bias,
             c.weight + vector * lanes * run * s.kernel[0],
             c.y + to,
             step,
             s.kernel[0],
             run,
             s.dilation[0] * row,
             c.out_channels,
             {},
             c.finish};
      if (t.finish.other != nullptr) t.finish.other += to;
      for (int64_t v = 0; v < width; ++v) t.columns[v] = panels.column(vector + v);
      multiply_of<Weight>(rows, width)(t);
    }
  });
}

// ---- attention --------------------------------------------------------------------------------------------------

// y[row][column] = start[column] + finish.other[row][column] + sum of x[row][k] * weight[k][column].
void product(const Panels& panels, const Tile<float>& whole, int64_t rows) {
  const int64_t tiles = (rows + tile_rows - 1) / tile_rows;
  for (int64_t panel = 0; panel < panels.count; ++panel) {
    const int64_t vector = panels.start(panel), width = panels.start(panel + 1) - vector;
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t row = rows * tile / tiles, to = row * whole.out_channels;
      Tile<float> t = whole;
      t.x += row * t.step;
      t.weight += vector * lanes * t.run;
      t.y += to;
      if (t.finish.other != nullptr) t.finish.other += to;
      for (int64_t v = 0; v < width; ++v) t.columns[v] = panels.column(vector + v);
      multiply_of<float>(rows * (tile + 1) / tiles - row, width)(t);
    }
  }
}

void attend(const HeadCall& h, HeadMemory& memory) {
  const Panels keys(h.keys, lanes), values(h.value_size, lanes);
  pack(keys, h.size, h.key, 1, h.key_row, h.scale, memory.keys);
  pack(values, h.keys, h.value, h.value_row, 1, 1, memory.values);
  memory.scores.resize(static_cast<size_t>(h.rows * h.keys));
  memory.zeros.resize(static_cast<size_t>(std::max(h.keys, h.value_size)));
  float* const scores = memory.scores.data();
  Finish finish;
  if (h.mask_row != 0) finish.other = h.mask;
  const float* start = h.mask != nullptr && h.mask_row == 0 ? h.mask : memory.zeros.data();
  product(keys, {h.query, start, memory.keys.data(), scores, h.query_row, 1, h.size, 0, h.keys, {}, finish}, h.rows);
  for (int64_t row = 0; row < h.rows; ++row) normalize(scores + row * h.keys, h.keys);
  product(values, {scores, memory.zeros.data(), memory.values.data(), h.out, h.keys, 1, h.keys, 0, h.out_row, {}, {}}, h.rows);
}

// ---- of one channel ---------------------------------------------------------------------------------------------

// `pixels` results beside each other; more than one only where all taps lie within the image.
template <int pixels>
void depthwise_tile(const DepthwiseRow& row, int64_t column, Taps columns) {
  const ConvShape& s = *row.shape;
  const int64_t channels = s.channels, step = s.stride[1] * channels;
  const float* x = row.x + (column * s.stride[1] - s.padding[1]) * channels;
  const Lanes low = all(row.finish.low), high = all(row.finish.high);
  for (int64_t block = 0; block < channels; block += lanes) {
    const int64_t c = std::min(block, channels - lanes);
    Lanes sums[pixels];
#pragma GCC unroll 8
    for (int p = 0; p < pixels; ++p) sums[p] = load(row.bias + c);
    for (int64_t ky = row.rows.first; ky < row.rows.last; ++ky) {
      const float* from = x + ky * s.dilation[0] * s.in_w * channels + c;
      const float* weight = row.weight + ky * s.kernel[1] * channels + c;
      for (int64_t kx = columns.first; kx < columns.last; ++kx) {
        const Lanes factor = load(weight + kx * channels);
#pragma GCC unroll 8
        for (int p = 0; p < pixels; ++p) sums[p] += factor * load(from + kx * s.dilation[1] * channels + p * step);
      }
    }
#pragma GCC unroll 8
    for (int p = 0; p < pixels; ++p) {
      const int64_t at = (column + p) * channels + c;
      finish_to(row.y + at, sums[p], row.finish.other == nullptr ? nullptr : row.finish.other + at, low, high);
    }
  }
}

using DepthwiseTile = void (*)(const DepthwiseRow&, int64_t, Taps);
template <int... n>
DepthwiseTile depthwise_of(int64_t pixels, std::integer_sequence<int, n...>) {
  static constexpr DepthwiseTile table[] = {&depthwise_tile<n + 1>...};
  return table[pixels - 1];
}

void depthwise_row(const DepthwiseRow& row) {
  constexpr int most = 6;
  const ConvShape& s = *row.shape;
  const int64_t begin = s.first_whole_column(), end = s.last_whole_column();
  for (int64_t column = 0, pixels; column < s.out_w; column += pixels) {
    const int64_t left = begin <= column && column < end ? end - column : 1, pieces = (left + most - 1) / most;
    pixels = (left + pieces - 1) / pieces;
    depthwise_of(pixels, std::make_integer_sequence<int, most>())(row, column, s.taps(1, column));
  }
}

void depthwise(const ConvShape& s, const float* x, const float* weight, const float* bias, const Finish& finish, float* y) {
  const int64_t in_image = s.in_h * s.in_w * s.channels, out_row = s.out_w * s.channels;
  const int64_t work = out_row * s.kernel[0] * s.kernel[1];
  at::parallel_for(0, s.images * s.out_h, std::max<int64_t>(1, least_work / work), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t line = i % s.out_h;
      DepthwiseRow row{&s,     x + i / s.out_h * in_image + (line * s.stride[0] - s.padding[0]) * s.in_w * s.channels,
                       weight, bias,
                       y + i * out_row, s.taps(0, line), finish};
      if (finish.other != nullptr) row.finish.other += i * out_row;
      depthwise_row(row);
    }
  });
}

}  // namespace
