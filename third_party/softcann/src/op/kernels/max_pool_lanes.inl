// The kernel of max_pool.cpp for one instruction set: it gives `lanes`.

typedef float Lanes __attribute__((vector_size(4 * lanes)));
typedef int32_t Places __attribute__((vector_size(4 * lanes)));
typedef float LooseLanes __attribute__((vector_size(4 * lanes), aligned(4), may_alias));
typedef int32_t LoosePlaces __attribute__((vector_size(4 * lanes), aligned(4), may_alias));

[[gnu::always_inline]] inline Lanes load(const float* p) { return *reinterpret_cast<const LooseLanes*>(p); }

// The pixels that a tap of neighbouring outputs sees.
template <int stride>
[[gnu::always_inline]] inline Lanes seen(const float* row, int64_t step) {
  if constexpr (stride == 1) return load(row);
#ifndef __clang__
  if constexpr (stride == 2) {
    Places even;
    for (int i = 0; i < lanes; ++i) even[i] = 2 * i;
    return __builtin_shuffle(load(row), load(row + lanes), even);
  }
#endif
  Lanes values;
  for (int i = 0; i < lanes; ++i) values[i] = row[i * (stride ? stride : step)];
  return values;
}

template <int stride, int width>
void pool_row(const WindowRow* rows, int64_t row_count, const PoolWindow& w, const FirstPlaces& first, int64_t count, float* out,
              int32_t* places) {
  Places steps;
  for (int i = 0; i < lanes; ++i) steps[i] = i * static_cast<int32_t>(w.stride_w);
  const int64_t step = stride ? stride : w.stride_w, taps = width ? width : w.kernel_w;
  for (int64_t x = 0; x < count; x += lanes) {
    Lanes best = lowest - Lanes{};
    Places place = *reinterpret_cast<const LoosePlaces*>(first.columns + x) + first.row;
    for (int64_t r = 0; r < row_count; ++r) {
      int64_t column = x * step;
      __builtin_prefetch(rows[r].data + column + ahead);
      __builtin_prefetch(rows[r].data + column + ahead + 16);
#pragma GCC unroll 4
      for (int64_t kx = 0; kx < taps; ++kx, column += w.dilation_w) {
        const Lanes value = seen<stride>(rows[r].data + column, step);
        const Places here = steps + (rows[r].place + static_cast<int32_t>(column));
        const Places wins = (value > best) | (value != value);
        best = wins ? value : best;
        place = wins ? here : place;
      }
    }
    *reinterpret_cast<LooseLanes*>(out + x) = best;
    *reinterpret_cast<LoosePlaces*>(places + x) = place;
  }
}

PoolRow pool_row_of(int64_t stride, int64_t width) {
  switch (stride) {
    case 1:
      return pool_row<1, 0>;
    case 2:
      return width == 2 ? pool_row<2, 2> : width == 3 ? pool_row<2, 3> : pool_row<2, 0>;
    default:
      return pool_row<0, 0>;
  }
}
