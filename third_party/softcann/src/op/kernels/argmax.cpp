#include "op/kernels/argmax.h"

#include <ATen/Parallel.h>
#include <algorithm>

#include "op/simd/clones.h"
#include "op/kernels/sort_keys.h"
#include "op/kernels/rows.h"
#include "op/simd/thresholds.h"

// Note [Extremes by keys]
// A maximum that remembers its index needs a comparison, two choices and a chain through all elements. Of ordered keys the
// maximum alone is one instruction for a vector, and its index is looked for afterwards, in the one stretch that it came from.
// Where rows lie side by side (`dim` is not the last), a lane is a row and both are kept.
namespace softcann::op {
namespace {

constexpr int64_t row_stretch = 256;     // elements; an index in it fits any key
constexpr int64_t column_stretch = 256;  // rows side by side; their state stays in the nearest cache
constexpr double work_of_comparing = 0.5;

// A key that is the greater, the more the number is what is looked for; NaN is the greatest either way.
template <class Format, bool Greatest>
[[gnu::always_inline]] inline typename Format::Key wanted_key(typename Format::Bits bits) {
  using Key = typename Format::Key;
  const Key key = Format::key(bits);
  if constexpr (Greatest) return key;
  if constexpr (Format::has_nan) {
    return key == Format::nan_key ? key : static_cast<Key>(~key);
  } else {
    return static_cast<Key>(~key);
  }
}

template <class Format, bool Greatest>
[[gnu::always_inline]] inline void wanted_keys(const typename Format::Bits* from, int64_t n, typename Format::Key* keys) {
  for (int64_t i = 0; i < n; ++i) keys[i] = wanted_key<Format, Greatest>(from[i]);
}

// Keys go through a buffer: where a choice and a maximum meet in one loop, compilers see branches and give up.
template <class Format, bool Greatest>
[[gnu::always_inline]] inline int64_t find_extreme(const typename Format::Bits* row, int64_t n) {
  using Key = typename Format::Key;
  alignas(64) Key keys[row_stretch];
  Key best = std::numeric_limits<Key>::min();
  int64_t at = 0;
  for (int64_t begin = 0; begin < n; begin += row_stretch) {
    const int64_t count = std::min(n - begin, row_stretch);
    wanted_keys<Format, Greatest>(row + begin, count, keys);
    Key here = best;
    for (int64_t i = 0; i < count; ++i) here = std::max(here, keys[i]);
    at = here > best ? begin : at;
    best = here;
  }
  const int64_t count = std::min(n - at, row_stretch);
  if (n > row_stretch) wanted_keys<Format, Greatest>(row + at, count, keys);
  Key index = row_stretch;
  for (Key i = 0; i < static_cast<Key>(count); ++i) {
    const Key candidate = keys[i] == best ? i : static_cast<Key>(row_stretch);
    index = candidate < index ? candidate : index;
  }
  return at + index;
}

template <class Bits>
struct Extremes {
  const Bits* from;
  int64_t length, inner;  // rows' elements are `inner` apart, and as many rows lie side by side
  Bits* values;           // or null
  int64_t* indices;
};

template <class Format, bool Greatest>
[[gnu::always_inline]] inline void extremes_of_rows(const Extremes<typename Format::Bits>& e, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const auto* row = e.from + r * e.length;
    const int64_t index = find_extreme<Format, Greatest>(row, e.length);
    e.indices[r] = index;
    if (e.values) e.values[r] = row[index];
  }
}

// `begin` and `end` count stretches of rows side by side.
template <class Format, bool Greatest>
[[gnu::always_inline]] inline void extremes_of_columns(const Extremes<typename Format::Bits>& e, int64_t begin, int64_t end) {
  using Key = typename Format::Key;
  using Index = std::conditional_t<sizeof(Key) == 8, int64_t, int32_t>;
  const int64_t stretches = (e.inner + column_stretch - 1) / column_stretch;
  Key best[column_stretch];
  Index index[column_stretch];
  for (int64_t s = begin; s < end; ++s) {
    const int64_t outer = s / stretches, first = s % stretches * column_stretch,
                  count = std::min(column_stretch, e.inner - first);
    const auto* from = e.from + outer * e.length * e.inner + first;
    for (int64_t j = 0; j < count; ++j) best[j] = wanted_key<Format, Greatest>(from[j]);
    for (int64_t j = 0; j < count; ++j) index[j] = 0;
    for (int64_t i = 1; i < e.length; ++i) {
      const auto* row = from + i * e.inner;
      const auto here = static_cast<Index>(i);
#pragma GCC ivdep
      for (int64_t j = 0; j < count; ++j) {
        const Key key = wanted_key<Format, Greatest>(row[j]);
        index[j] = key > best[j] ? here : index[j];
        best[j] = key > best[j] ? key : best[j];
      }
    }
    const int64_t to = outer * e.inner + first;
    for (int64_t j = 0; j < count; ++j) e.indices[to + j] = index[j];
    if (!e.values) continue;
    for (int64_t j = 0; j < count; ++j) e.values[to + j] = from[index[j] * e.inner + j];
  }
}

template <class Format, bool Greatest>
[[gnu::always_inline]] inline void extremes_any(const Extremes<typename Format::Bits>& e, int64_t begin, int64_t end) {
  if (e.inner == 1) {
    extremes_of_rows<Format, Greatest>(e, begin, end);
  } else {
    extremes_of_columns<Format, Greatest>(e, begin, end);
  }
}

#define EXTREMES(FORMAT)                                                                                  \
  SOFTCANN_CLONES void greatest_of(FORMAT, const Extremes<FORMAT::Bits>& e, int64_t begin, int64_t end) { \
    extremes_any<FORMAT, true>(e, begin, end);                                                            \
  }                                                                                                       \
  SOFTCANN_CLONES void least_of(FORMAT, const Extremes<FORMAT::Bits>& e, int64_t begin, int64_t end) {    \
    extremes_any<FORMAT, false>(e, begin, end);                                                           \
  }
SOFTCANN_ORDERED_TYPES(EXTREMES)
#undef EXTREMES

}  // namespace

bool argmax_along(const at::Tensor& self, int64_t dim, bool greatest, const at::Tensor& values, const at::Tensor& indices) {
  if (self.dim() == 0 || self.numel() == 0 || !self.is_contiguous() || dim < -self.dim() || dim >= self.dim()) return false;
  const int64_t n = self.size(dim), inner = inner_of(self, dim), results = self.numel() / n;
  const auto fits = [&](const at::Tensor& out, at::ScalarType type) {
    return out.scalar_type() == type && out.is_contiguous() && out.numel() == results && !overlap(out, self);
  };
  if (!fits(indices, at::kLong) || (values.defined() && !fits(values, self.scalar_type()))) return false;
  if ((inner > 1 && inner < threshold::lane_columns) || n > std::numeric_limits<int32_t>::max()) return false;
  return with_ordered(self.scalar_type(), [&](auto format) {
    using Bits = typename decltype(format)::Bits;
    const Extremes<Bits> e{static_cast<const Bits*>(self.const_data_ptr()), n, inner,
                           values.defined() ? static_cast<Bits*>(values.mutable_data_ptr()) : nullptr,
                           indices.mutable_data_ptr<int64_t>()};
    const int64_t columns = std::min(inner, column_stretch), stretches = (inner + column_stretch - 1) / column_stretch;
    at::parallel_for(0, results / inner * stretches, row_grain(n * columns, work_of_comparing), [&](int64_t begin, int64_t end) {
      greatest ? greatest_of(format, e, begin, end) : least_of(format, e, begin, end);
    });
  });
}

}  // namespace softcann::op
