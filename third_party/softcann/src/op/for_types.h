// Code for the C++ type of a dtype.
#pragma once

#include <c10/core/ScalarType.h>

namespace softcann::op {

// Calls body(T()) for the one of these types that the dtype has; false where none of them is it.
template <class... T, class Body>
[[gnu::always_inline]] inline bool for_types(at::ScalarType type, Body&& body) {
  return ((type == c10::CppTypeToScalarType<T>::value && (body(T()), true)) || ...);
}

// Calls body(T()) for the whole number that has an element's size; false where there is none.
template <class Body>
bool for_size(size_t size, Body&& body) {
  const auto call = [&](auto bits) { return size == sizeof(bits) && (body(bits), true); };
  return call(uint8_t()) || call(uint16_t()) || call(uint32_t()) || call(uint64_t());
}

}  // namespace softcann::op
