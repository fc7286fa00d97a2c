// A number of float4_e2m1 for programs on the host: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their opposites; it computes in float.
#ifndef ACLNN_OPDEV_FLOAT4_E2M1_H_
#define ACLNN_OPDEV_FLOAT4_E2M1_H_

#include <cmath>
#include <cstdint>

namespace op {

struct Float4E2M1 {
  struct FromBitsTag {};
  static constexpr FromBitsTag FromBits() { return {}; }

  uint8_t value = 0;  // in the four lowest bits

  Float4E2M1() = default;
  constexpr Float4E2M1(uint8_t bits, FromBitsTag) : value(bits & 15) {}
  // To the nearest, ties to the even code; what is larger becomes 6, and what is not a number 6.
  Float4E2M1(float number) : value(7) {
    if (std::isnan(number)) return;
    const float size = std::fabs(number);
    uint8_t code = 0;
    while (code < 7 && (size > middle(code) || (size == middle(code) && code % 2 == 1))) ++code;
    value = static_cast<uint8_t>(code | (std::signbit(number) ? 8 : 0));
  }
  operator float() const { return value & 8 ? -level(value & 7) : level(value & 7); }

 private:
  static float level(int code) {
    constexpr float levels[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
    return levels[code];
  }
  static float middle(int code) { return (level(code) + level(code + 1)) / 2; }
};

}  // namespace op

#endif  // ACLNN_OPDEV_FLOAT4_E2M1_H_
