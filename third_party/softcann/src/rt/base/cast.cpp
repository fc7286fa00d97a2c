#include "rt/base/cast.h"

#include <type_traits>

#include "rt/base/half.h"

namespace softcann {
namespace {

struct Half {
  uint16_t bits;
  explicit operator float() const { return half_to_float(bits); }
  static Half from(float value) { return Half{float_to_half(value)}; }
};

struct BFloat {
  uint16_t bits;
  explicit operator float() const { return bfloat_to_float(bits); }
  static BFloat from(float value) { return BFloat{float_to_bfloat(value)}; }
};

template <class T>
constexpr bool is_small_float = std::is_same_v<T, Half> || std::is_same_v<T, BFloat>;

template <class To, class From>
To convert_one(From value) {
  if constexpr (is_small_float<From>) {
    return convert_one<To>(static_cast<float>(value));
  } else if constexpr (is_small_float<To>) {
    return To::from(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From{0};
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    // Out-of-range conversions are undefined in C++; by way of int64 they wrap, as PyTorch's do.
    return static_cast<To>(value >= static_cast<From>(-0x1p63) && value < static_cast<From>(0x1p63) ? static_cast<int64_t>(value)
                                                                                                    : INT64_MIN);
  } else {
    return static_cast<To>(value);
  }
}

template <class To, class From>
void convert_all(void* dst, const void* src, int64_t count) {
  auto* to = static_cast<To*>(dst);
  const auto* from = static_cast<const From*>(src);
  for (int64_t i = 0; i < count; ++i) to[i] = convert_one<To>(from[i]);
}

template <class From>
Conversion conversion_from(aclDataType to) {
  switch (to) {
    case ACL_FLOAT:
      return convert_all<float, From>;
    case ACL_DOUBLE:
      return convert_all<double, From>;
    case ACL_FLOAT16:
      return convert_all<Half, From>;
    case ACL_BF16:
      return convert_all<BFloat, From>;
    case ACL_INT8:
      return convert_all<int8_t, From>;
    case ACL_UINT8:
      return convert_all<uint8_t, From>;
    case ACL_INT16:
      return convert_all<int16_t, From>;
    case ACL_INT32:
      return convert_all<int32_t, From>;
    case ACL_INT64:
      return convert_all<int64_t, From>;
    case ACL_BOOL:
      return convert_all<bool, From>;
    default:
      return nullptr;
  }
}

}  // namespace

Conversion find_conversion(aclDataType to, aclDataType from) {
  switch (from) {
    case ACL_FLOAT:
      return conversion_from<float>(to);
    case ACL_DOUBLE:
      return conversion_from<double>(to);
    case ACL_FLOAT16:
      return conversion_from<Half>(to);
    case ACL_BF16:
      return conversion_from<BFloat>(to);
    case ACL_INT8:
      return conversion_from<int8_t>(to);
    case ACL_UINT8:
      return conversion_from<uint8_t>(to);
    case ACL_INT16:
      return conversion_from<int16_t>(to);
    case ACL_INT32:
      return conversion_from<int32_t>(to);
    case ACL_INT64:
      return conversion_from<int64_t>(to);
    case ACL_BOOL:
      return conversion_from<bool>(to);
    default:
      return nullptr;
  }
}

}  // namespace softcann
