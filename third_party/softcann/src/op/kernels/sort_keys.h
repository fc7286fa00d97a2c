// Numbers as integers of the same order, for kernels that sort, select and compare.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace softcann::op {

// Note [Ordered keys]
// Integers compare alike on every processor, in one instruction, and a maximum of them may be taken in any order, so
// compilers make vectors of such loops. A float's bits are a sign and a magnitude: as an integer in two's complement they have
// the order of torch's sort. Both zeros give 0, so they are equal; each NaN gives the largest key, so NaNs are equal among
// themselves and greater than infinity. The complement of a key has the reverse order and never overflows.

// Memory is read as Bits. Key has the order of the numbers.
template <class Bits_, class Key_ = Bits_>
struct Integers {
  using Bits = Bits_;
  using Key = Key_;
  static constexpr bool has_nan = false;
  [[gnu::always_inline]] static Key key(Bits bits) { return static_cast<Key>(bits); }
};

template <class Bits_, Bits_ Infinity>
struct Floats {
  using Bits = Bits_;
  using Key = Bits_;
  static constexpr bool has_nan = true;
  static constexpr Key nan_key = std::numeric_limits<Key>::max();
  [[gnu::always_inline]] static Key key(Bits bits) {
    const Key magnitude = bits & nan_key;
    const Key sign = bits < 0 ? -1 : 0;
    const Key key = static_cast<Key>((magnitude ^ sign) - sign);
    return magnitude > Infinity ? nan_key : key;
  }
};

using Float64 = Floats<int64_t, 0x7ff0000000000000>;
using Float32 = Floats<int32_t, 0x7f800000>;
using Float16 = Floats<int16_t, 0x7c00>;
using BFloat16 = Floats<int16_t, 0x7f80>;
using Int64 = Integers<int64_t>;
using Int32 = Integers<int32_t>;
using Int16 = Integers<int16_t>;
using Int8 = Integers<int8_t, int16_t>;
using UInt8 = Integers<uint8_t, int16_t>;  // and bool

// For a function with an overload for each of these.
#define SOFTCANN_ORDERED_TYPES(X) X(Float64) X(Float32) X(Float16) X(BFloat16) X(Int64) X(Int32) X(Int16) X(Int8) X(UInt8)

// Calls f with the format of a dtype; false where it has none.
template <class F>
bool with_ordered(at::ScalarType type, F&& f) {
  switch (type) {
    case at::kDouble:
      f(Float64());
      return true;
    case at::kFloat:
      f(Float32());
      return true;
    case at::kHalf:
      f(Float16());
      return true;
    case at::kBFloat16:
      f(BFloat16());
      return true;
    case at::kLong:
      f(Int64());
      return true;
    case at::kInt:
      f(Int32());
      return true;
    case at::kShort:
      f(Int16());
      return true;
    case at::kChar:
      f(Int8());
      return true;
    case at::kByte:
    case at::kBool:
      f(UInt8());
      return true;
    default:
      return false;
  }
}

}  // namespace softcann::op
