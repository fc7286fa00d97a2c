#include "op/kernels/transpose.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/Parallel.h>
#include <algorithm>
#include <array>

#include "op/for_types.h"
#include "op/simd/clones.h"
#include "op/simd/thresholds.h"

// Note [Transposing]
// Elements one by one touch a cache line for each of them on one of the two sides. Here tiles of 16 by 16 elements are taken,
// a line of each row at four bytes, and within these blocks of 8 by 8 are turned in registers. A vector holds four elements
// each of rows i and i + 4, so that two rounds of interleaving within its halves, which processors do fastest, are enough.
namespace softcann::op {
namespace {

constexpr int64_t side = 8, tile = 16;

// Element (r, c) of the source is at r + c * column, that of the target at r * row + c: in elements.
struct Matrix {
  int64_t rows, columns, column, row;
};

template <class T>
[[gnu::always_inline]] inline void turn_block(const T* from, int64_t column, T* to, int64_t row) {
  typedef T Half __attribute__((vector_size(side / 2 * sizeof(T)), aligned(sizeof(T)), may_alias));
  typedef T Vector __attribute__((vector_size(side * sizeof(T)), aligned(sizeof(T)), may_alias));
  for (int64_t half = 0; half < side; half += side / 2, to += side / 2 * row) {
    Vector both[side / 2];
    for (int64_t i = 0; i < side / 2; ++i) {
      const T *low = from + half + i * column, *high = low + side / 2 * column;
      both[i] = __builtin_shufflevector(*reinterpret_cast<const Half*>(low), *reinterpret_cast<const Half*>(high), 0, 1, 2, 3, 4,
                                        5, 6, 7);
    }
    const Vector a = both[0], b = both[1], c = both[2], d = both[3];
    const Vector ab01 = __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13),
                 ab23 = __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
    const Vector cd01 = __builtin_shufflevector(c, d, 0, 8, 1, 9, 4, 12, 5, 13),
                 cd23 = __builtin_shufflevector(c, d, 2, 10, 3, 11, 6, 14, 7, 15);
    *reinterpret_cast<Vector*>(to) = __builtin_shufflevector(ab01, cd01, 0, 1, 8, 9, 4, 5, 12, 13);
    *reinterpret_cast<Vector*>(to + row) = __builtin_shufflevector(ab01, cd01, 2, 3, 10, 11, 6, 7, 14, 15);
    *reinterpret_cast<Vector*>(to + 2 * row) = __builtin_shufflevector(ab23, cd23, 0, 1, 8, 9, 4, 5, 12, 13);
    *reinterpret_cast<Vector*>(to + 3 * row) = __builtin_shufflevector(ab23, cd23, 2, 3, 10, 11, 6, 7, 14, 15);
  }
}
// Rows [begin, end).
template <class T>
[[gnu::always_inline]] inline void turn(const T* from, T* to, const Matrix& m, int64_t begin, int64_t end) {
  const int64_t rows = begin + (end - begin) / side * side, columns = m.columns / side * side;
  for (int64_t r0 = begin; r0 < rows; r0 += tile) {
    for (int64_t c0 = 0; c0 < columns; c0 += tile) {
      for (int64_t r = r0; r < std::min(r0 + tile, rows); r += side) {
        for (int64_t c = c0; c < std::min(c0 + tile, columns); c += side) {
          turn_block(from + r + c * m.column, m.column, to + r * m.row + c, m.row);
        }
      }
    }
  }
  for (int64_t r = begin; r < end; ++r) {
    for (int64_t c = r < rows ? columns : 0; c < m.columns; ++c) to[r * m.row + c] = from[r + c * m.column];
  }
}
#define TURN(T)                                                                                       \
  SOFTCANN_CLONES void turn_rows(const T* from, T* to, const Matrix& m, int64_t begin, int64_t end) { \
    turn(from, to, m, begin, end);                                                                    \
  }
TURN(uint8_t)
TURN(uint16_t)
TURN(uint32_t)
TURN(uint64_t)
#undef TURN

// The dimensions around the matrix.
struct Batch {
  std::array<int64_t, 64> size, from, to;  // strides in elements
  int64_t dims = 0, count = 1;
  void add(int64_t length, int64_t from_stride, int64_t to_stride) {
    size[static_cast<size_t>(dims)] = length;
    from[static_cast<size_t>(dims)] = from_stride;
    to[static_cast<size_t>(dims++)] = to_stride;
    count *= length;
  }
};

template <class T>
void run(const at::Tensor& target, const at::Tensor& source, const Matrix& m, const Batch& batch) {
  const T* const from = static_cast<const T*>(source.const_data_ptr());
  T* const to = static_cast<T*>(target.mutable_data_ptr());
  const int64_t bands = (m.rows + tile - 1) / tile,
                grain = std::max<int64_t>(1, threshold::grain / (m.columns * std::min(m.rows, tile)));
  at::parallel_for(0, batch.count * bands, grain, [&](int64_t begin, int64_t end) {
    while (begin < end) {  // the bands of one matrix after another
      int64_t index = begin / bands, from_offset = 0, to_offset = 0;
      const int64_t first = begin % bands, last = std::min(bands, first + end - begin);
      for (int64_t dim = batch.dims; dim-- > 0;) {
        const auto d = static_cast<size_t>(dim);
        from_offset += index % batch.size[d] * batch.from[d];
        to_offset += index % batch.size[d] * batch.to[d];
        index /= batch.size[d];
      }
      turn_rows(from + from_offset, to + to_offset, m, first * tile, std::min(m.rows, last * tile));
      begin += last - first;
    }
  });
}

}  // namespace

bool copy_transposed(const at::Tensor& target, const at::Tensor& source) {
  if (target.numel() < threshold::transpose_elements || target.scalar_type() != source.scalar_type() ||
      !target.sizes().equals(source.sizes()))
    return false;
  int64_t down = -1, across = -1;  // along which source and target have their elements side by side
  for (int64_t dim = 0; dim < target.dim(); ++dim) {
    if (target.size(dim) == 1) continue;
    if (source.stride(dim) == 1) down = dim;
    if (target.stride(dim) == 1) across = dim;
  }
  if (down < 0 || across < 0 || down == across || target.size(down) < side || target.size(across) < side) return false;
  if (source.is_conj() != target.is_conj() || source.is_neg() != target.is_neg()) return false;
  if (!target.is_non_overlapping_and_dense() || at::get_overlap_status(target, source) != at::MemOverlapStatus::No) return false;
  // A dimension around one of the matrix's that continues it on both sides is part of it: pixels of an image, say.
  Matrix matrix{target.size(down), target.size(across), source.stride(across), target.stride(down)};
  Batch batch;
  for (int64_t dim = target.dim(); dim-- > 0;) {
    const int64_t size = target.size(dim), from = source.stride(dim), to = target.stride(dim);
    if (dim == down || dim == across || size == 1) continue;
    if (from == matrix.rows && to == matrix.rows * matrix.row) {
      matrix.rows *= size;
    } else if (to == matrix.columns && from == matrix.columns * matrix.column) {
      matrix.columns *= size;
    } else {
      batch.add(size, from, to);
    }
  }
  return for_size(target.itemsize(), [&](auto bits) { run<decltype(bits)>(target, source, matrix, batch); });
}

}  // namespace softcann::op
