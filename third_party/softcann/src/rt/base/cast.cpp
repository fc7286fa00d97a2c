#include "rt/base/cast.h"

#include <type_traits>

#include "rt/base/small_floats.h"

namespace softcann {
namespace {

template <class T>
constexpr bool is_small_float = std::is_same_v<T, Half> || std::is_same_v<T, BFloat>;

template <class To, class From>
To convert_one(From value) {
  if constexpr (is_small_float<From>) {
    return convert_one<To>(static_cast<float>(value));
  } else if constexpr (is_small_float<To>) {
    return To::of(static_cast<float>(value));
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

// What f(T()) makes of the C++ type of `type`; null where there is none.
template <class F>
Conversion for_type(aclDataType type, F&& f) {
  switch (type) {
    case ACL_FLOAT:
      return f(float());
    case ACL_DOUBLE:
      return f(double());
    case ACL_FLOAT16:
      return f(Half());
    case ACL_BF16:
      return f(BFloat());
    case ACL_INT8:
      return f(int8_t());
    case ACL_UINT8:
      return f(uint8_t());
    case ACL_INT16:
      return f(int16_t());
    case ACL_INT32:
      return f(int32_t());
    case ACL_INT64:
      return f(int64_t());
    case ACL_BOOL:
      return f(bool());
    default:
      return nullptr;
  }
}

}  // namespace

Conversion find_conversion(aclDataType to, aclDataType from) {
  return for_type(from, [to](auto source) {
    return for_type(to, [](auto target) -> Conversion { return convert_all<decltype(target), decltype(source)>; });
  });
}

}  // namespace softcann
