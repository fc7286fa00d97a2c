#include "op/kernels/sort_dim.h"

#include <ATen/DimVector.h>
#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>
#include <algorithm>
#include <bit>

#include "op/simd/clones.h"
#include "op/kernels/sort_row.h"
#include "op/kernels/sort_keys.h"
#include "op/kernels/rows.h"

namespace softcann::op {
namespace {

constexpr double work_of_sorting = 8;  // of an element, in additions

// Rows for a thread: `from` and both results begin at its first one. `length` is one row's, k of it are written.
struct Part {
  int64_t rows, length, k;
  bool descending;
};

template <class Format>
[[gnu::always_inline]] inline void keys_of(const typename Format::Bits* row, int64_t n, bool descending,
                                           typename Format::Key* keys) {
  const typename Format::Key flip = descending ? -1 : 0;
  for (int64_t i = 0; i < n; ++i) keys[i] = static_cast<typename Format::Key>(Format::key(row[i]) ^ flip);
}

template <class Format>
[[gnu::always_inline]] inline void sort_few(const typename Format::Bits* from, const Part& part, typename Format::Bits* values,
                                            int64_t* indices) {
  using Key = typename Format::Key;
  alignas(64) Key keys[few_keys<Key> + key_pad], ranks[few_keys<Key> + key_pad];
  const int64_t n = part.length;
  for (int64_t r = 0; r < part.rows; ++r, from += n, values += part.k, indices += part.k) {
    keys_of<Format>(from, n, part.descending, keys);
    rank_few(keys, n, ranks);
    for (int64_t i = 0; i < n; ++i) {
      if (ranks[i] >= part.k) continue;
      values[ranks[i]] = from[i];
      indices[ranks[i]] = i;
    }
  }
}

template <class Format>
[[gnu::always_inline]] inline void sort_by_digits(const typename Format::Bits* from, const Part& part,
                                                  typename Format::Bits* values, int64_t* indices) {
  using Key = typename Format::Key;
  const int64_t n = part.length, key_bytes = padded_bytes<Key>(n);
  const RowScratch memory(key_bytes + DigitScratch<Key>::bytes(n));
  auto* keys = reinterpret_cast<Key*>(memory.data());
  DigitScratch<Key> scratch(memory.data() + key_bytes, n);
  for (int64_t r = 0; r < part.rows; ++r, from += n, values += part.k, indices += part.k) {
    keys_of<Format>(from, n, part.descending, keys);
    order_by_digits(keys, n, part.k, scratch, [&](int64_t rank, int64_t index) __attribute__((always_inline)) {
      values[rank] = from[index];
      indices[rank] = index;
    });
  }
}

// Note [The first k]
// A row is dealt out to as many groups as a few times k, and each group's least key is found, which are minima of whole vectors.
// The k-th of those minima bounds the k-th key of the row: k keys are not greater. For a small k groups are joined until about k
// are left, and the greatest of their minima does. For numbers in no order, few more than k keys are within the bound; these are
// sorted. Where many are, sorting them costs what sorting the row would.

constexpr int64_t fewest_groups = 64;

inline int64_t groups_for(int64_t k) {
  int64_t groups = fewest_groups;
  while (groups < 4 * k) groups *= 2;
  return groups;
}

template <class Key>
[[gnu::always_inline]] inline Key bound_of(const Key* keys, int64_t n, int64_t k, int64_t groups, Key* least) {
  for (int64_t g = 0; g < groups; ++g) least[g] = keys[g];
  int64_t i = groups;
  for (; i + groups <= n; i += groups) {
#pragma GCC ivdep
    for (int64_t g = 0; g < groups; ++g) least[g] = keys[i + g] < least[g] ? keys[i + g] : least[g];
  }
#pragma GCC ivdep
  for (int64_t g = 0; g < n - i; ++g) least[g] = keys[i + g] < least[g] ? keys[i + g] : least[g];
  if (k > fewest_groups / 4) {
    std::nth_element(least, least + k - 1, least + groups);
    return least[k - 1];
  }
  for (; groups / 2 >= k; groups /= 2) {
#pragma GCC ivdep
    for (int64_t g = 0; g < groups / 2; ++g) least[g] = least[g + groups / 2] < least[g] ? least[g + groups / 2] : least[g];
  }
  Key bound = least[0];
  for (int64_t g = 0; g < groups; ++g) bound = least[g] > bound ? least[g] : bound;
  return bound;
}

// Indices of keys within the bound, in order, among which the first k are; `found` has room for n.
template <class Key>
[[gnu::always_inline]] inline int64_t indices_within(const Key* keys, int64_t n, int64_t k, Key bound, int32_t* found) {
  using Mask = std::make_unsigned_t<Key>;
  constexpr int64_t stretch = sizeof(Key) == 2 ? 16 : 32;  // a bit for each
  int64_t count = 0, i = 0;
  bool strict = false;
  for (; i + stretch <= n; i += stretch) {
    Mask within = 0;
    for (int64_t j = 0; j < stretch; ++j) within |= keys[i + j] <= bound ? static_cast<Mask>(Mask(1) << j) : Mask(0);
    for (; within; within &= static_cast<Mask>(within - 1)) found[count++] = static_cast<int32_t>(i + std::countr_zero(within));
    if (count < k || strict) continue;
    if (bound == std::numeric_limits<Key>::min()) return count;
    strict = true;  // keys that equal the bound come after k that are found
    --bound;
  }
  for (; i < n; ++i) {
    found[count] = static_cast<int32_t>(i);
    count += keys[i] <= bound;
  }
  return count;
}

template <class Format>
[[gnu::always_inline]] inline void first_k(const typename Format::Bits* from, const Part& part, typename Format::Bits* values,
                                           int64_t* indices) {
  using Key = typename Format::Key;
  const int64_t n = part.length, k = part.k, key_bytes = padded_bytes<Key>(n), groups = groups_for(k);
  const RowScratch memory(2 * key_bytes + padded_bytes<int32_t>(n) + DigitScratch<Key>::bytes(n));
  auto* keys = reinterpret_cast<Key*>(memory.data());
  auto* found = reinterpret_cast<Key*>(memory.data() + key_bytes);  // first the groups' minima, then the keys within the bound
  auto* candidates = reinterpret_cast<int32_t*>(memory.data() + 2 * key_bytes);
  DigitScratch<Key> scratch(memory.data() + 2 * key_bytes + padded_bytes<int32_t>(n), n);
  Key ranks[few_keys<Key> + key_pad];
  for (int64_t r = 0; r < part.rows; ++r, from += n, values += k, indices += k) {
    keys_of<Format>(from, n, part.descending, keys);
    const int64_t count = indices_within(keys, n, k, bound_of(keys, n, k, groups, found), candidates);
    for (int64_t i = 0; i < count; ++i) found[i] = keys[candidates[i]];
    const auto emit = [&](int64_t rank, int64_t i) __attribute__((always_inline)) {
      values[rank] = from[candidates[i]];
      indices[rank] = candidates[i];
    };
    if (count <= few_keys<Key>) {
      rank_few(found, count, ranks);
      for (int64_t i = 0; i < count; ++i) {
        if (ranks[i] < k) emit(ranks[i], i);
      }
    } else {
      order_by_digits(found, count, k, scratch, emit);
    }
  }
}

template <class Format>
[[gnu::always_inline]] inline void order_part(const typename Format::Bits* from, const Part& part, typename Format::Bits* values,
                                              int64_t* indices) {
  if (part.length <= few_keys<typename Format::Key>) {
    sort_few<Format>(from, part, values, indices);
  } else if (groups_for(part.k) <= part.length) {
    first_k<Format>(from, part, values, indices);
  } else {
    sort_by_digits<Format>(from, part, values, indices);
  }
}

#define ORDER_PART(FORMAT)                                                                                                 \
  SOFTCANN_CLONES void order(FORMAT, const FORMAT::Bits* from, const Part& part, FORMAT::Bits* values, int64_t* indices) { \
    order_part<FORMAT>(from, part, values, indices);                                                                       \
  }
SOFTCANN_ORDERED_TYPES(ORDER_PART)
#undef ORDER_PART

bool order_rows(const at::Tensor& self, int64_t k, int64_t dim, bool descending, const at::Tensor& values,
                const at::Tensor& indices) {
  const int64_t n = self.size(dim);
  return with_ordered(self.scalar_type(), [&](auto format) {
    using Bits = typename decltype(format)::Bits;
    at::Tensor rows = as_rows(self, dim);
    if (overlap(rows, values) || overlap(rows, indices)) rows = rows.clone();
    const RowsResult ordered(values, dim, values.scalar_type()), ordered_indices(indices, dim, at::kLong);
    const auto* from = static_cast<const Bits*>(rows.const_data_ptr());
    auto* to = static_cast<Bits*>(ordered.rows().mutable_data_ptr());
    auto* at = static_cast<int64_t*>(ordered_indices.rows().mutable_data_ptr());
    at::parallel_for(0, rows.numel() / n, row_grain(n, work_of_sorting), [&](int64_t begin, int64_t end) {
      order(format, from + begin * n, Part{end - begin, n, k, descending}, to + begin * k, at + begin * k);
    });
    ordered.finish();
    ordered_indices.finish();
  });
}

}  // namespace

bool sort_rows(const at::Tensor& self, int64_t dim, bool descending, const at::Tensor& values, const at::Tensor& indices) {
  if (self.dim() == 0 || self.numel() == 0 || self.size(dim) > most_keys || values.scalar_type() != self.scalar_type())
    return false;
  if (values.sizes() != self.sizes() || indices.sizes() != self.sizes()) return false;
  return order_rows(self, self.size(dim), dim, descending, values, indices);
}

bool topk_rows(const at::Tensor& self, int64_t k, int64_t dim, bool largest, const at::Tensor& values,
               const at::Tensor& indices) {
  if (self.dim() == 0 || self.numel() == 0 || self.size(dim) > most_keys || values.scalar_type() != self.scalar_type())
    return false;
  if (k < 1 || k > self.size(dim) || self.scalar_type() == at::kBool) return false;
  at::DimVector sizes(self.sizes());
  sizes[dim < 0 ? dim + self.dim() : dim] = k;
  if (values.sizes() != sizes || indices.sizes() != sizes) return false;
  return order_rows(self, k, dim, largest, values, indices);
}

}  // namespace softcann::op
