// Conversions of 16-bit floating point, round to nearest even.
#pragma once

#include <bit>
#include <cstdint>

namespace softcann {

inline float half_to_float(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000U} << 16, magnitude = half & 0x7fffU;
  if (magnitude >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000U | (magnitude & 0x3ffU) << 13);
  if (magnitude >= 0x0400) return std::bit_cast<float>(sign | ((magnitude << 13) + ((127 - 15) << 23)));
  const float value = static_cast<float>(magnitude) * 0x1p-24F;  // subnormal or zero
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}

inline uint16_t float_to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffffU;
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000U);
  if (magnitude > 0x7f800000U) return sign | 0x7e00U;   // nan
  if (magnitude >= 0x477ff000U) return sign | 0x7c00U;  // rounds to infinity
  if (magnitude < 0x38800000U) {
    // Adding 0.5 puts the bits of a subnormal half where float rounds, at the end of its significand.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(shifted) - 0x3f000000U);
  }
  const uint32_t rounded = magnitude + 0xfffU + (magnitude >> 13 & 1);
  return sign | static_cast<uint16_t>((rounded - ((127 - 15) << 23)) >> 13);
}

inline float bfloat_to_float(uint16_t value) { return std::bit_cast<float>(uint32_t{value} << 16); }

inline uint16_t float_to_bfloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>(bits >> 16 | 0x40U);
  return static_cast<uint16_t>((bits + 0x7fffU + (bits >> 16 & 1)) >> 16);
}

}  // namespace softcann
