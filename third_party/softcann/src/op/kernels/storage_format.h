// Tensors in internal storage formats, for kernels that compute with them.
#pragma once

#include <ATen/core/Tensor.h>

#include "acl/acl_types.h"

namespace softcann::op {

// The tensor's elements in the base format: itself where it is in that already, else a copy. An argument of the operator
// or an element of a list; other tensors stay. A matrix whose view is transposed lies in memory as it was before.
at::Tensor in_base_format(const at::Tensor& argument);

// Memory of `capacity` elements in an internal format.
struct Stored {
  at::Tensor memory;
  aclFormat format;
  aclDataType type;
  int64_t capacity;
};
// Its elements as a tensor of `sizes` in the base format, and the reverse.
at::Tensor base_of(const Stored& stored, at::IntArrayRef sizes);
void store(const Stored& stored, const at::Tensor& base);

}  // namespace softcann::op
