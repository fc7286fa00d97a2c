#include "rt/base/data_types.h"

namespace softcann {
namespace {

constexpr DataType kTypes[] = {
    {ACL_FLOAT, 32, "FLOAT", "float32", "<f4"},
    {ACL_FLOAT16, 16, "FLOAT16", "float16", "<f2"},
    {ACL_BF16, 16, "DT_BF16", "bfloat16", nullptr},
    {ACL_DOUBLE, 64, "DOUBLE", "float64", "<f8"},
    {ACL_INT8, 8, "INT8", "int8", "|i1"},
    {ACL_INT16, 16, "INT16", "int16", "<i2"},
    {ACL_INT32, 32, "INT32", "int32", "<i4"},
    {ACL_INT64, 64, "INT64", "int64", "<i8"},
    {ACL_UINT8, 8, "UINT8", "uint8", "|u1"},
    {ACL_UINT16, 16, "UINT16", "uint16", "<u2"},
    {ACL_UINT32, 32, "UINT32", "uint32", "<u4"},
    {ACL_UINT64, 64, "UINT64", "uint64", "<u8"},
    {ACL_BOOL, 8, "BOOL", "bool", "|b1"},
    {ACL_COMPLEX32, 32, "COMPLEX32", "complex32", nullptr},
    {ACL_COMPLEX64, 64, "COMPLEX64", "complex64", "<c8"},
    {ACL_COMPLEX128, 128, "COMPLEX128", "complex128", "<c16"},
    {ACL_FLOAT8_E4M3FN, 8, "FLOAT8_E4M3FN", "float8_e4m3fn", nullptr},
    {ACL_FLOAT8_E5M2, 8, "FLOAT8_E5M2", "float8_e5m2", nullptr},
    {ACL_FLOAT8_E8M0, 8, "FLOAT8_E8M0", nullptr, nullptr},
    {ACL_HIFLOAT8, 8, nullptr, nullptr, nullptr},
    {ACL_FLOAT6_E3M2, 6, nullptr, nullptr, nullptr},
    {ACL_FLOAT6_E2M3, 6, nullptr, nullptr, nullptr},
    {ACL_FLOAT4_E2M1, 4, nullptr, nullptr, nullptr},
    {ACL_FLOAT4_E1M2, 4, nullptr, nullptr, nullptr},
    {ACL_INT4, 4, "INT4", nullptr, nullptr},
    {ACL_UINT1, 1, nullptr, nullptr, nullptr},
};

}  // namespace

const DataType* find_data_type(aclDataType type) {
  for (const DataType& known : kTypes) {
    if (known.type == type) return &known;
  }
  return nullptr;
}

}  // namespace softcann
