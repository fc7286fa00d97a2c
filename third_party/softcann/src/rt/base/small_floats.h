// float16 and bfloat16 as types.
#pragma once

#include "rt/base/half.h"

namespace softcann {

// 16 bits of a floating type, which become a float and come back.
struct Half {
  uint16_t bits;
  operator float() const { return half_to_float(bits); }
  static Half of(float value) { return {float_to_half(value)}; }
};
struct BFloat {
  uint16_t bits;
  operator float() const { return bfloat_to_float(bits); }
  static BFloat of(float value) { return {float_to_bfloat(value)}; }
};

}  // namespace softcann
