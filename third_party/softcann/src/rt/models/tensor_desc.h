// What aclTensorDesc and aclDataBuffer hold; shared by libascendcl (which makes them) and libacl_op_compiler.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rt/base/described.h"

struct aclTensorDesc : softcann::Handled {
  aclDataType type = ACL_DT_UNDEFINED;
  aclFormat format = ACL_FORMAT_UNDEFINED;
  std::vector<int64_t> dims;
  std::string name;
  aclFormat storage_format = ACL_FORMAT_UNDEFINED;
  std::vector<int64_t> storage_dims;
  aclMemType placement = ACL_MEMTYPE_DEVICE;
  std::vector<char> constant;
  // Of sizes that are left open, and what the client says about the tensor's origin: kept, for operators that ask.
  std::vector<std::pair<int64_t, int64_t>> range, values;
  aclFormat origin_format = ACL_FORMAT_UNDEFINED;
  std::vector<int64_t> origin_dims;
  std::string dynamic_input;
};

struct aclDataBuffer : softcann::Handled {
  void* data = nullptr;
  size_t size = 0;
};

namespace softcann {

// Bits of one element; 0 when the type has none (strings, undefined).
SOFTCANN_API size_t bits_of(aclDataType type);
// 0 when they are not known.
SOFTCANN_API size_t bytes_of(const aclTensorDesc& desc);
// -1 when a dimension is unknown, or the product beyond 63 bits.
SOFTCANN_API int64_t elements_of(const std::vector<int64_t>& dims);

}  // namespace softcann
