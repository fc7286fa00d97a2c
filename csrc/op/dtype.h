// Data types: PyTorch's and CANN's.
#pragma once

#include <array>

#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include "acl/acl.h"

namespace torch_npu::op {

namespace detail {

constexpr auto make_acl_types() {
  std::array<aclDataType, static_cast<size_t>(c10::ScalarType::NumOptions)> table{};
  for (auto& entry : table) entry = ACL_DT_UNDEFINED;
  auto set = [&](c10::ScalarType from, aclDataType to) { table[static_cast<size_t>(from)] = to; };
  set(c10::ScalarType::Byte, ACL_UINT8);
  set(c10::ScalarType::Char, ACL_INT8);
  set(c10::ScalarType::Short, ACL_INT16);
  set(c10::ScalarType::Int, ACL_INT32);
  set(c10::ScalarType::Long, ACL_INT64);
  set(c10::ScalarType::Half, ACL_FLOAT16);
  set(c10::ScalarType::Float, ACL_FLOAT);
  set(c10::ScalarType::Double, ACL_DOUBLE);
  set(c10::ScalarType::ComplexHalf, ACL_COMPLEX32);
  set(c10::ScalarType::ComplexFloat, ACL_COMPLEX64);
  set(c10::ScalarType::ComplexDouble, ACL_COMPLEX128);
  set(c10::ScalarType::Bool, ACL_BOOL);
  set(c10::ScalarType::BFloat16, ACL_BF16);
  set(c10::ScalarType::UInt16, ACL_UINT16);
  set(c10::ScalarType::UInt32, ACL_UINT32);
  set(c10::ScalarType::UInt64, ACL_UINT64);
  set(c10::ScalarType::Float8_e5m2, ACL_FLOAT8_E5M2);
  set(c10::ScalarType::Float8_e4m3fn, ACL_FLOAT8_E4M3FN);
  set(c10::ScalarType::Float8_e8m0fnu, ACL_FLOAT8_E8M0);
  // Quantised integers travel as the integers they are stored in.
  set(c10::ScalarType::QInt8, ACL_INT8);
  set(c10::ScalarType::QUInt8, ACL_UINT8);
  set(c10::ScalarType::QInt32, ACL_INT32);
  return table;
}

inline constexpr auto kAclTypes = make_acl_types();

[[noreturn]] C10_EXPORT void throw_no_acl_type(c10::ScalarType type);
// Elements that CANN has no name for as integers of their size, for an operator that only moves them. Throws for any other.
C10_EXPORT aclDataType moved_type(c10::ScalarType type);

}  // namespace detail

// CANN's name of a PyTorch data type. Throws c10::NotImplementedError if CANN has none: a TypeError would end in Python's own
// comparison for `==`, which says False.
inline aclDataType acl_type(c10::ScalarType type) {
  const auto found = detail::kAclTypes[static_cast<size_t>(type)];
  if (C10_UNLIKELY(found == ACL_DT_UNDEFINED)) detail::throw_no_acl_type(type);
  return found;
}

}  // namespace torch_npu::op
