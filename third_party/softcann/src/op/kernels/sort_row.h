// The order of one row's keys, for kernels that are compiled for several processors.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

namespace softcann::op {

// Note [Order of a row]
// Two ways, both stable. Few keys: an element's place is the count of those before it, and counting is a comparison of
// vectors; that is quadratic, yet faster than anything with branches. More keys: by the digits of their distance from the
// least, the lowest digit first; so numbers of a small range take few passes.

template <class Key>
constexpr int64_t few_keys = sizeof(Key) <= 4 ? 128 : 64;
constexpr int64_t key_pad = 64;  // room behind the last key that may be overwritten: in bytes the widest vector

// Bytes for n keys with that room, a multiple of it.
template <class Key>
constexpr int64_t padded_bytes(int64_t n) {
  return (n * static_cast<int64_t>(sizeof(Key)) + 2 * key_pad - 1) / key_pad * key_pad;
}

// ranks[i] = how many keys are less than keys[i]. Both have room for a multiple of a vector.
template <class Key>
[[gnu::always_inline]] inline void count_before(Key* keys, int64_t n, Key* ranks) {
  constexpr int64_t lanes = key_pad / sizeof(Key);
  const int64_t padded = (n + lanes - 1) / lanes * lanes;
  for (int64_t j = n; j < padded; ++j) keys[j] = std::numeric_limits<Key>::max();  // before none
  for (int64_t j = 0; j < padded; ++j) ranks[j] = 0;
  for (int64_t i = 0; i < n; i += 4) {
    const Key a = keys[i], b = keys[i + 1], c = keys[i + 2], d = keys[i + 3];
#pragma GCC ivdep
    for (int64_t j = 0; j < padded; ++j) {
      const Key key = keys[j];
      const Key before = (a < key ? 1 : 0) + (b < key ? 1 : 0) + (c < key ? 1 : 0) + (d < key ? 1 : 0);
      ranks[j] += before;
    }
  }
}

// ranks[i] = how many keys come before keys[i] in order, equals in the order of their places. n <= few_keys.
template <class Key>
[[gnu::always_inline]] inline void rank_few(Key* keys, int64_t n, Key* ranks) {
  count_before(keys, n, ranks);
  constexpr int64_t lanes = key_pad / sizeof(Key);
  const int64_t padded = (n + lanes - 1) / lanes * lanes;
  int32_t sum = 0;
  for (int64_t j = 0; j < n; ++j) sum += static_cast<int32_t>(ranks[j]);
  if (sum == n * (n - 1) / 2) return;  // each pair counted: no two are equal
  for (int64_t i = 0; i < n; i += 4) {
    const Key a = keys[i], b = keys[i + 1], c = keys[i + 2], d = keys[i + 3];
    const auto first = static_cast<Key>(i);
#pragma GCC ivdep
    for (int64_t j = i / lanes * lanes; j < padded; ++j) {
      const Key key = keys[j];
      const auto after = static_cast<Key>(static_cast<Key>(j) - first);
      const Key equal = ((a == key) & (after > 0) ? 1 : 0) + ((b == key) & (after > 1) ? 1 : 0) +
                        ((c == key) & (after > 2) ? 1 : 0) + ((d == key) & (after > 3) ? 1 : 0);
      ranks[j] += equal;
    }
  }
}

// A key's distance from the least key, with the key's place: in one word where the distance fits.
struct ShortItem {
  uint64_t both;
  [[gnu::always_inline]] ShortItem() = default;
  [[gnu::always_inline]] ShortItem(uint64_t distance, int64_t place) : both(distance << 32 | static_cast<uint64_t>(place)) {}
  [[gnu::always_inline]] uint64_t distance() const { return both >> 32; }
  [[gnu::always_inline]] int64_t place() const { return static_cast<uint32_t>(both); }
};
struct LongItem {
  uint64_t from_least, index;
  [[gnu::always_inline]] LongItem() = default;
  [[gnu::always_inline]] LongItem(uint64_t distance, int64_t place) : from_least(distance), index(static_cast<uint64_t>(place)) {}
  [[gnu::always_inline]] uint64_t distance() const { return from_least; }
  [[gnu::always_inline]] int64_t place() const { return static_cast<int64_t>(index); }
};

constexpr int digit_bits = 8, most_digits = 8;
constexpr int64_t digit_values = int64_t(1) << digit_bits;
constexpr int64_t most_keys = int64_t(1) << 31;  // of order_by_digits: places and counts are of 32 bits
using DigitCounts = std::array<std::array<uint32_t, digit_values>, most_digits>;

// What order_by_digits() works in; for rows of up to n keys.
template <class Key>
struct DigitScratch {
  using Item = std::conditional_t<sizeof(Key) <= 4, ShortItem, LongItem>;
  DigitScratch(char* memory, int64_t n) : a(reinterpret_cast<Item*>(memory)), b(a + n) {}
  static int64_t bytes(int64_t n) { return 2 * n * static_cast<int64_t>(sizeof(Item)); }
  Item *a, *b;
  DigitCounts counts;
};

// Items with the keys' distances from the least, without their lowest `shift` bits, and how often each digit occurs.
template <int Digits, class Item, class Key>
[[gnu::always_inline]] inline void count_digits(const Key* keys, int64_t n, Key least, int shift, Item* items,
                                                DigitCounts& counts) {
  using Unsigned = std::make_unsigned_t<Key>;
  for (int d = 0; d < Digits; ++d) counts[d].fill(0);
  for (int64_t i = 0; i < n; ++i) {
    const auto distance =
        static_cast<uint64_t>(static_cast<Unsigned>(static_cast<Unsigned>(keys[i]) - static_cast<Unsigned>(least))) >> shift;
    items[i] = Item(distance, i);
#pragma GCC unroll 8
    for (int d = 0; d < Digits; ++d) ++counts[d][distance >> (d * digit_bits) & (digit_values - 1)];
  }
}

// The items in order of these distances: in `a` or in `b`.
template <int Digits, class Item, class Key>
[[gnu::always_inline]] inline Item* order_by(const Key* keys, int64_t n, Key least, int low_bits, Item* a, Item* b,
                                             DigitCounts& counts) {
  count_digits<Digits>(keys, n, least, low_bits, a, counts);
  for (int d = 0; d < Digits; ++d) {
    uint32_t* begin = counts[d].data();
    const int shift = d * digit_bits;
    // Floats of one magnitude and numbers with common factors share digits.
    if (begin[a[0].distance() >> shift & (digit_values - 1)] == n) continue;
    uint32_t total = 0;
    for (int64_t v = 0; v < digit_values; ++v) {
      const uint32_t count = begin[v];
      begin[v] = total;
      total += count;
    }
    for (int64_t i = 0; i < n; ++i) {
      const Item item = a[i];
      b[begin[item.distance() >> shift & (digit_values - 1)]++] = item;
    }
    std::swap(a, b);
  }
  return a;
}

// Orders neighbours of one distance by their keys. False where more than a few are of one distance: it would be slow.
template <class Key>
[[gnu::always_inline]] inline bool settle(ShortItem* items, int64_t n, const Key* keys) {
  constexpr int64_t few = 16;
  int64_t begin = 0;
  for (int64_t i = 1; i < n; ++i) {
    if (items[i].distance() != items[i - 1].distance()) {
      begin = i;
      continue;
    }
    if (i - begin >= few) return false;
    const ShortItem item = items[i];
    int64_t to = i;
    for (; to > begin && keys[items[to - 1].place()] > keys[item.place()]; --to) items[to] = items[to - 1];
    items[to] = item;
  }
  return true;
}

// Calls emit(rank, place) for ranks 0 to k - 1. n <= most_keys.
template <class Key, class Emit>
[[gnu::always_inline]] inline void order_by_digits(const Key* keys, int64_t n, int64_t k, DigitScratch<Key>& scratch,
                                                   Emit&& emit) {
  Key least = keys[0], greatest = keys[0];
  for (int64_t i = 0; i < n; ++i) {
    least = keys[i] < least ? keys[i] : least;
    greatest = keys[i] > greatest ? keys[i] : greatest;
  }
  using Unsigned = std::make_unsigned_t<Key>;
  const auto range = static_cast<Unsigned>(static_cast<Unsigned>(greatest) - static_cast<Unsigned>(least));
  const int bits = std::bit_width(range), digits = (bits + digit_bits - 1) / digit_bits;
  auto* a = reinterpret_cast<ShortItem*>(scratch.a);
  auto* b = reinterpret_cast<ShortItem*>(scratch.b);
  const auto emit_all = [&](const auto* items) __attribute__((always_inline)) {
    // Not in the last round: what emit() writes, it writes in order.
    for (int64_t i = 0; i < k; ++i) emit(i, items[i].place());
  };
  if (digits == 0) {
    for (int64_t i = 0; i < k; ++i) emit(i, i);
  } else if (digits == 1) {
    emit_all(order_by<1>(keys, n, least, 0, a, b, scratch.counts));
  } else if (digits == 2) {
    emit_all(order_by<2>(keys, n, least, 0, a, b, scratch.counts));
  } else if constexpr (sizeof(Key) >= 4) {
    if (digits == 3) return emit_all(order_by<3>(keys, n, least, 0, a, b, scratch.counts));
    // The upper 32 bits tell most of the longer keys apart.
    const int low_bits = bits > 32 ? bits - 32 : 0;
    ShortItem* items = order_by<4>(keys, n, least, low_bits, a, b, scratch.counts);
    if (low_bits == 0 || settle(items, n, keys)) return emit_all(items);
    if constexpr (sizeof(Key) == 8) emit_all(order_by<8>(keys, n, least, 0, scratch.a, scratch.b, scratch.counts));
  }
}

}  // namespace softcann::op
