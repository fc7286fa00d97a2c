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
  lanes = Lanes{} + rest;
  std::memcpy(&lanes, from, static_cast<size_t>(count) * sizeof(float));
}
[[gnu::always_inline]] inline float sum_of(const Lanes& lanes) {
  float sums[lane_count];
  store(lanes, sums);
  for (int64_t half = lane_count / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
  return sums[0];
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

}  // namespace softcann::op
