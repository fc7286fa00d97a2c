// A number of IEEE 754's binary16 for programs on the host; it computes in float.
#ifndef ACLNN_OPDEV_FP16_T_H_
#define ACLNN_OPDEV_FP16_T_H_

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace op {

struct fp16_t {
  uint16_t val = 0;

  fp16_t() = default;
  template <class T, class = std::enable_if_t<std::is_arithmetic<T>::value>>
  fp16_t(T number) : val(rounded(static_cast<float>(number))) {}
  operator float() const { return widened(val); }

 private:
  static float of_bits(uint32_t bits) {
    float number;
    std::memcpy(&number, &bits, sizeof number);
    return number;
  }
  // To the nearest, ties to even. Adding a power of two whose last bit is the one to keep makes the processor round.
  static uint16_t rounded(float number) {
    uint32_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
    const uint32_t size = bits & 0x7FFFFFFF;
    if (size > 0x7F800000) return sign | 0x7E00;   // not a number
    if (size >= 0x477FF000) return sign | 0x7C00;  // 65520 and more
    if (size < 0x38800000) {                       // below 2^-14: in steps of 2^-24
      const float sum = of_bits(size) + 0.5F;
      std::memcpy(&bits, &sum, sizeof bits);
      return static_cast<uint16_t>(sign | (bits - 0x3F000000));
    }
    const uint32_t odd = size >> 13 & 1;
    return static_cast<uint16_t>(sign | ((size - 0x38000000 + 0xFFF + odd) >> 13));
  }
  static float widened(uint16_t half) {
    const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16, size = half & 0x7FFF;
    if (size >= 0x7C00) return of_bits(sign | 0x7F800000 | ((size & 0x3FF) << 13));
    if (size < 0x400) {
      const float number = static_cast<float>(size) / 16777216.0F;
      return sign ? -number : number;
    }
    return of_bits(sign | ((size << 13) + 0x38000000));
  }
};

}  // namespace op

#endif  // ACLNN_OPDEV_FP16_T_H_
