#include "op/kernels/row_scan.h"

#include <ATen/Parallel.h>
#include <algorithm>
#include <utility>

#include "op/simd/clones.h"
#include "op/kernels/rows.h"
#include "op/simd/thresholds.h"

// Note [Running sums]
// Each addition waits for the one before, and rounding does not let a sum be taken in parts. So several rows go side by side, a
// block of each at a time; widening and rounding, which are most of the work, are vectors over a block. Where rows lie side by
// side in memory (`dim` is not the last), a lane is a row.
namespace softcann::op {
namespace {

constexpr int64_t rows_at_once = 8;  // an addition's latency, twice over
constexpr int64_t row_block = 64;    // elements of a row; a block of rows stays in the nearest cache
constexpr int64_t column_stretch_of_scan = 256;
constexpr double work_of_scanning = 1;

template <class In_, class Acc_, class Out_>
struct Types {
  using In = In_;
  using Acc = Acc_;
  using Out = Out_;
};
// Sums of integers wrap around.
template <class In>
using ToLong = Types<In, uint64_t, int64_t>;

template <class Types>
struct Scan {
  const typename Types::In* from;
  typename Types::Out* to;
  int64_t length, inner;  // rows' elements are `inner` apart, and as many rows lie side by side
};

template <class Acc, bool Product>
[[gnu::always_inline]] inline Acc combined(Acc a, Acc b) {
  if constexpr (Product) return a * b;
  return a + b;
}

// As many rows as indices, which are constants so that the totals stay in registers.
template <class Types, bool Product, size_t... Row>
[[gnu::always_inline]] inline void scan_rows(const typename Types::In* from, typename Types::Out* to, int64_t n,
                                             std::index_sequence<Row...>) {
  using Acc = typename Types::Acc;
  constexpr int64_t rows = sizeof...(Row);
  alignas(64) Acc block[rows][row_block];
  Acc total[rows] = {(static_cast<void>(Row), static_cast<Acc>(Product ? 1 : 0))...};
  for (int64_t begin = 0; begin < n; begin += row_block) {
    const int64_t count = std::min(row_block, n - begin);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < count; ++i) block[r][i] = static_cast<Acc>(from[r * n + begin + i]);
    }
    for (int64_t i = 0; i < count; ++i) {
      ((block[Row][i] = total[Row] = combined<Acc, Product>(total[Row], block[Row][i])), ...);
    }
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < count; ++i) to[r * n + begin + i] = static_cast<typename Types::Out>(block[r][i]);
    }
  }
}

template <class Types, bool Product>
[[gnu::always_inline]] inline void scan_columns(const typename Types::In* from, typename Types::Out* to, int64_t n, int64_t inner,
                                                int64_t count) {
  using Acc = typename Types::Acc;
  Acc total[column_stretch_of_scan];
  for (int64_t j = 0; j < count; ++j) total[j] = Product ? 1 : 0;
  for (int64_t i = 0; i < n; ++i, from += inner, to += inner) {
#pragma GCC ivdep
    for (int64_t j = 0; j < count; ++j) {
      total[j] = combined<Acc, Product>(total[j], static_cast<Acc>(from[j]));
      to[j] = static_cast<typename Types::Out>(total[j]);
    }
  }
}

// One row, without the detour through a block.
template <class Types, bool Product>
[[gnu::always_inline]] inline void scan_row(const typename Types::In* from, typename Types::Out* to, int64_t n) {
  typename Types::Acc total = Product ? 1 : 0;
#pragma GCC unroll 8
  for (int64_t i = 0; i < n; ++i) {
    total = combined<typename Types::Acc, Product>(total, static_cast<typename Types::Acc>(from[i]));
    to[i] = static_cast<typename Types::Out>(total);
  }
}

// `begin` and `end` count rows, or stretches of rows side by side.
template <class Types, bool Product>
[[gnu::always_inline]] inline void scan_any(const Scan<Types>& s, int64_t begin, int64_t end) {
  if (s.inner == 1) {
    const auto row = [&](int64_t r)
                         __attribute__((always_inline)) { return std::make_pair(s.from + r * s.length, s.to + r * s.length); };
    // Blocks pay where numbers are widened and rounded; integers and float64 are added as they are.
    constexpr bool rounds =
        std::is_floating_point_v<typename Types::Acc> && !std::is_same_v<typename Types::In, typename Types::Acc>;
    constexpr bool halves = std::is_same_v<typename Types::Acc, float>;
    for (; rounds && begin + rows_at_once <= end; begin += rows_at_once) {
      scan_rows<Types, Product>(row(begin).first, row(begin).second, s.length, std::make_index_sequence<rows_at_once>());
    }
    for (; begin < end; ++begin) {
      if constexpr (halves) {
        scan_rows<Types, Product>(row(begin).first, row(begin).second, s.length, std::make_index_sequence<1>());
      } else {
        scan_row<Types, Product>(row(begin).first, row(begin).second, s.length);
      }
    }
    return;
  }
  const int64_t stretches = (s.inner + column_stretch_of_scan - 1) / column_stretch_of_scan;
  for (; begin < end; ++begin) {
    const int64_t first = begin % stretches * column_stretch_of_scan, start = begin / stretches * s.length * s.inner + first;
    scan_columns<Types, Product>(s.from + start, s.to + start, s.length, s.inner,
                                 std::min(column_stretch_of_scan, s.inner - first));
  }
}

#define SCAN(...)                                                                            \
  SOFTCANN_CLONES void sums_of(const Scan<__VA_ARGS__>& s, int64_t begin, int64_t end) {     \
    scan_any<__VA_ARGS__, false>(s, begin, end);                                             \
  }                                                                                          \
  SOFTCANN_CLONES void products_of(const Scan<__VA_ARGS__>& s, int64_t begin, int64_t end) { \
    scan_any<__VA_ARGS__, true>(s, begin, end);                                              \
  }
SCAN(Types<float, double, float>)
SCAN(Types<double, double, double>)
SCAN(Types<at::Half, float, at::Half>)
SCAN(Types<at::BFloat16, float, at::BFloat16>)
SCAN(ToLong<int64_t>)
SCAN(ToLong<int32_t>)
SCAN(ToLong<uint8_t>)  // and bool
#undef SCAN

template <class Types>
bool run(Types, const at::Tensor& self, int64_t dim, bool product, const at::Tensor& out) {
  const Scan<Types> s{static_cast<const typename Types::In*>(self.const_data_ptr()),
                      static_cast<typename Types::Out*>(out.mutable_data_ptr()), self.size(dim), inner_of(self, dim)};
  const int64_t stretches = (s.inner + column_stretch_of_scan - 1) / column_stretch_of_scan,
                columns = std::min(s.inner, column_stretch_of_scan);
  // Each thread's first rows go side by side, too.
  const int64_t grain = std::max(s.inner == 1 ? rows_at_once : 1, row_grain(s.length * columns, work_of_scanning));
  at::parallel_for(0, self.numel() / (s.length * s.inner) * stretches, grain,
                   [&](int64_t begin, int64_t end) { product ? products_of(s, begin, end) : sums_of(s, begin, end); });
  return true;
}

}  // namespace

bool scan_along(const at::Tensor& self, int64_t dim, bool product, const at::Tensor& out) {
  if (self.dim() == 0 || self.numel() == 0 || dim < -self.dim() || dim >= self.dim()) return false;
  if (!self.is_contiguous() || !out.is_contiguous() || self.sizes() != out.sizes()) return false;
  if (const int64_t inner = inner_of(self, dim); inner > 1 && inner < threshold::lane_columns) return false;
  // In place is well: each element is read before it is written.
  const bool in_place = self.const_data_ptr() == out.const_data_ptr() && self.scalar_type() == out.scalar_type();
  if (!in_place && overlap(self, out)) return false;
  const at::ScalarType from = self.scalar_type(), to = out.scalar_type();
  if (to == at::kLong) {
    switch (from) {
      case at::kLong:
        return run(ToLong<int64_t>(), self, dim, product, out);
      case at::kInt:
        return run(ToLong<int32_t>(), self, dim, product, out);
      case at::kByte:
      case at::kBool:
        return run(ToLong<uint8_t>(), self, dim, product, out);
      default:
        return false;
    }
  }
  if (from != to) return false;
  switch (to) {
    case at::kFloat:
      return run(Types<float, double, float>(), self, dim, product, out);
    case at::kDouble:
      return run(Types<double, double, double>(), self, dim, product, out);
    case at::kHalf:
      return run(Types<at::Half, float, at::Half>(), self, dim, product, out);
    case at::kBFloat16:
      return run(Types<at::BFloat16, float, at::BFloat16>(), self, dim, product, out);
    default:
      return false;
  }
}

}  // namespace softcann::op
