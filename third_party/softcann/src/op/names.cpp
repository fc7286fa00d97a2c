#include "op/names.h"

#include <cstring>

#include "op/executor.h"

namespace softcann::op {
namespace {

struct TypeName {
  aclDataType type;
  const char* name;
};
constexpr TypeName kTypes[] = {
    {ACL_FLOAT, "FLOAT"},
    {ACL_FLOAT16, "FLOAT16"},
    {ACL_BF16, "DT_BF16"},
    {ACL_DOUBLE, "DOUBLE"},
    {ACL_INT8, "INT8"},
    {ACL_INT16, "INT16"},
    {ACL_INT32, "INT32"},
    {ACL_INT64, "INT64"},
    {ACL_UINT8, "UINT8"},
    {ACL_UINT16, "UINT16"},
    {ACL_UINT32, "UINT32"},
    {ACL_UINT64, "UINT64"},
    {ACL_BOOL, "BOOL"},
    {ACL_COMPLEX32, "COMPLEX32"},
    {ACL_COMPLEX64, "COMPLEX64"},
    {ACL_COMPLEX128, "COMPLEX128"},
    {ACL_INT4, "INT4"},
    {ACL_FLOAT8_E5M2, "FLOAT8_E5M2"},
    {ACL_FLOAT8_E4M3FN, "FLOAT8_E4M3FN"},
    {ACL_FLOAT8_E8M0, "FLOAT8_E8M0"},
};

}  // namespace

const char* type_name(aclDataType type) {
  for (const TypeName& known : kTypes) {
    if (known.type == type) return known.name;
  }
  return "UNDEFINED";
}

std::string parameter_name(const OpInfo& info, int index) {
  const char* begin = info.params;
  for (; index > 0; --index) begin = std::strchr(begin, ',') + 1;
  return {begin, std::strcspn(begin, ",")};
}

}  // namespace softcann::op
