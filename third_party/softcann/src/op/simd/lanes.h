// Functions of sixteen numbers at once; the compiler makes of a Lanes what the processor has.
#pragma once

#include <cstdint>
#include <cstring>

namespace softcann::op {

constexpr int64_t lane_count = 16;
using Lanes [[gnu::vector_size(lane_count * sizeof(float))]] = float;
using IntLanes [[gnu::vector_size(lane_count * sizeof(int32_t))]] = int32_t;

// By reference: what a function that was compiled for a wider processor gives back has another place.
[[gnu::always_inline]] inline void load(const float* from, Lanes& lanes) { std::memcpy(&lanes, from, sizeof(lanes)); }
[[gnu::always_inline]] inline void store(const Lanes& lanes, float* to) { std::memcpy(to, &lanes, sizeof(lanes)); }
// The first `count` lanes; the others are `rest`.
[[gnu::always_inline]] inline void load(const float* from, int64_t count, float rest, Lanes& lanes) {
  if (count >= lane_count) return load(from, lanes);
  // A loop of constant length, which becomes one masked instruction; a memcpy of `count` bytes would be a call.
  alignas(Lanes) float part[lane_count];
  for (int64_t i = 0; i < lane_count; ++i) part[i] = i < count ? from[i] : rest;
  std::memcpy(&lanes, part, sizeof(lanes));
}
[[gnu::always_inline]] inline void store(const Lanes& lanes, int64_t count, float* to) {
  if (count >= lane_count) return store(lanes, to);
  for (int64_t i = 0; i < lane_count; ++i) {
    if (i < count) to[i] = lanes[i];
  }
}
// One number of all lanes: halves are combined, in registers, until one lane is left.
template <class Combine>
[[gnu::always_inline]] inline float reduced(Lanes lanes, const Combine& combine) {
  combine(lanes, __builtin_shufflevector(lanes, lanes, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  combine(lanes, __builtin_shufflevector(lanes, lanes, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
  combine(lanes, __builtin_shufflevector(lanes, lanes, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
  combine(lanes, __builtin_shufflevector(lanes, lanes, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
  return lanes[0];
}
[[gnu::always_inline]] inline float sum_of(const Lanes& lanes) {
  return reduced(lanes, [](Lanes& all, const Lanes& other) __attribute__((always_inline)) { all += other; });
}
// Of lanes that are NaN some are passed over.
[[gnu::always_inline]] inline float largest_of(const Lanes& lanes) {
  return reduced(lanes, [](Lanes& all, const Lanes& other) __attribute__((always_inline)) { all = other > all ? other : all; });
}

// x = e to the power of x, for x up to 88. The error is below 2 units in the last place; results below the smallest normal
// number are 0. x = n ln 2 + r with |r| <= ln 2 / 2; e^r is its Taylor polynomial, whose rest is below 2^-27 there.
[[gnu::always_inline]] inline void exponentiate(Lanes& x) {
  constexpr float log2_e = 0x1.715476p+0F, ln2_high = 0x1.62e4p-1F, ln2_low = 0x1.7f7d1cp-20F;
  constexpr float least = -87.3365F;      // 126 ln 2: 2^-126 is the smallest normal number
  constexpr float to_whole = 0x1.8p+23F;  // what is added to this loses its fraction
  const IntLanes tiny = x < least;
  const Lanes within = tiny ? Lanes{} + least : x;  // a NaN stays
  const Lanes shifted = within * log2_e + to_whole, n = shifted - to_whole;
  const Lanes r = (within - n * ln2_high) - n * ln2_low;
  Lanes sum = r * (1.0F / 5040) + 1.0F / 720;
  sum = sum * r + 1.0F / 120;
  sum = sum * r + 1.0F / 24;
  sum = sum * r + 1.0F / 6;
  sum = sum * r + 0.5F;
  sum = sum * r + 1.0F;
  sum = sum * r + 1.0F;
  const IntLanes power = (reinterpret_cast<IntLanes>(shifted) + 127) << 23;  // the lowest bits of `shifted` are n
  x = tiny ? Lanes{} : sum * reinterpret_cast<Lanes>(power);
}

// x = the natural logarithm of x, for normal numbers above 0. The error is below 2 units in the last place. x = 2^n m with m
// between the roots of 1/2 and of 2, and ln m = 2 artanh s with s = (m - 1) / (m + 1); the rest of its series is below 2^-28
// there.
[[gnu::always_inline]] inline void take_logarithm(Lanes& x) {
  constexpr float ln2_high = 0x1.62e4p-1F, ln2_low = 0x1.7f7d1cp-20F;
  constexpr int32_t root_of_half = 0x3F3504F3;  // as float32
  const IntLanes bits = reinterpret_cast<IntLanes>(x), n = (bits - root_of_half) >> 23;
  const IntLanes mantissa = bits - (n << 23);
  const Lanes m = reinterpret_cast<Lanes>(mantissa), s = (m - 1.0F) / (m + 1.0F), square = s * s;
  Lanes sum = square * (1.0F / 9) + 1.0F / 7;
  sum = sum * square + 1.0F / 5;
  sum = sum * square + 1.0F / 3;
  sum = sum * square * s + s;
  const Lanes power = __builtin_convertvector(n, Lanes);
  x = power * ln2_high + (power * ln2_low + 2.0F * sum);
}

// Cosine and sine of an angle in turns, from 0 to 1. The error is below 2^-23. What is left of the nearest quarter is exact; of
// it, Taylor's polynomials, whose rests are below 2^-28.
[[gnu::always_inline]] inline void cosine_and_sine(const Lanes& turns, Lanes& cosine, Lanes& sine) {
  constexpr float to_whole = 0x1.8p+23F;  // what is added to this loses its fraction
  const Lanes shifted = turns * 4.0F + to_whole;
  const IntLanes quarter = reinterpret_cast<IntLanes>(shifted);  // in its two lowest bits
  const Lanes angle = (turns - (shifted - to_whole) * 0.25F) * 0x1.921fb6p+2F, square = angle * angle;
  Lanes even = square * (-1.0F / 3628800) + 1.0F / 40320;
  even = even * square - 1.0F / 720;
  even = even * square + 1.0F / 24;
  even = even * square - 0.5F;
  even = even * square + 1.0F;
  Lanes odd = square * (1.0F / 362880) - 1.0F / 5040;
  odd = odd * square + 1.0F / 120;
  odd = odd * square - 1.0F / 6;
  odd = odd * square * angle + angle;
  const IntLanes swapped = (quarter & 1) != 0, sine_negative = (quarter & 2) << 30, cosine_negative = ((quarter + 1) & 2) << 30;
  const Lanes c = swapped ? odd : even, s = swapped ? even : odd;
  const IntLanes signed_c = reinterpret_cast<IntLanes>(c) ^ cosine_negative;
  const IntLanes signed_s = reinterpret_cast<IntLanes>(s) ^ sine_negative;
  cosine = reinterpret_cast<Lanes>(signed_c);
  sine = reinterpret_cast<Lanes>(signed_s);
}

}  // namespace softcann::op
