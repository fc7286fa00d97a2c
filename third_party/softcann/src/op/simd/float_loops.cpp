#include "op/simd/float_loops.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "op/simd/clones.h"

namespace softcann::op::loops {
namespace {

template <class Each>
[[gnu::always_inline]] inline void for_each(int64_t count, const Each& each) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) each(i);
}

}  // namespace

SOFTCANN_CLONES void sums(float* out, const float* a, const float* b, float factor, int64_t count) {
  for_each(count, [=](int64_t i) __attribute__((always_inline)) { out[i] = a[i] + factor * b[i]; });
}
SOFTCANN_CLONES void products(float* out, const float* a, const float* b, int64_t count) {
  for_each(count, [=](int64_t i) __attribute__((always_inline)) { out[i] = a[i] * b[i]; });
}
SOFTCANN_CLONES void quotients(float* out, const float* a, const float* b, int64_t count) {
  for_each(count, [=](int64_t i) __attribute__((always_inline)) { out[i] = a[i] / b[i]; });
}
SOFTCANN_CLONES void plus(float* out, const float* a, float number, int64_t count) {
  for_each(count, [=](int64_t i) __attribute__((always_inline)) { out[i] = a[i] + number; });
}
SOFTCANN_CLONES void times(float* out, const float* a, float number, int64_t count) {
  for_each(count, [=](int64_t i) __attribute__((always_inline)) { out[i] = a[i] * number; });
}
SOFTCANN_CLONES void over(float* out, const float* a, float number, int64_t count) {
  for_each(count, [=](int64_t i) __attribute__((always_inline)) { out[i] = a[i] / number; });
}
SOFTCANN_CLONES void add_products(float* out, const float* self, const float* a, const float* b, float factor, int64_t count) {
  for_each(count, [=](int64_t i) __attribute__((always_inline)) { out[i] = self[i] + factor * a[i] * b[i]; });
}
SOFTCANN_CLONES void add_quotients(float* out, const float* self, const float* a, const float* b, float factor, int64_t count) {
  for_each(count, [=](int64_t i) __attribute__((always_inline)) { out[i] = self[i] + factor * a[i] / b[i]; });
}
SOFTCANN_CLONES void mix(float* out, const float* from, const float* to, float weight, int64_t count) {
  if (std::abs(weight) < 0.5F) {
    for_each(count, [=](int64_t i) __attribute__((always_inline)) { out[i] = from[i] + weight * (to[i] - from[i]); });
  } else {
    for_each(count, [=](int64_t i) __attribute__((always_inline)) { out[i] = to[i] - (to[i] - from[i]) * (1 - weight); });
  }
}
SOFTCANN_CLONES void column_sums(float* __restrict out, const float* rows, int64_t count, int64_t columns) {
  constexpr int64_t width = 64, group = 16;
  for (int64_t first = 0; first < columns; first += width) {
    const int64_t here = std::min(width, columns - first);
    float sums[width] = {};
    for (int64_t i = 0; i < count; i += group) {
      float part[width] = {};
      const int64_t last = std::min(i + group, count);
      for (int64_t row = i; row < last; ++row) {
        const float* values = rows + row * columns + first;
        if (here == width) {
          for (int64_t j = 0; j < width; ++j) part[j] += values[j];
        } else {
          for (int64_t j = 0; j < here; ++j) part[j] += values[j];
        }
      }
      for (int64_t j = 0; j < width; ++j) sums[j] += part[j];
    }
    std::memcpy(out + first, sums, static_cast<size_t>(here) * sizeof(float));
  }
}

}  // namespace softcann::op::loops
