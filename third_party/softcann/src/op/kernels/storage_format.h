// Tensors in internal storage formats, for kernels that compute with them.
#pragma once

#include <ATen/core/Tensor.h>
#include <optional>
#include <vector>

#include "acl/acl_base.h"

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
  int64_t reach = 0;    // elements up to the end of its allocation, where that is known
  int64_t columns = 0;  // of FRACTAL_NZ's blocks, where the client says other than usual
};
Stored stored_of(const aclTensor& made);
// Its elements as a tensor of `sizes` in the base format, and the reverse.
at::Tensor base_of(const Stored& stored, at::IntArrayRef sizes);
void store(const Stored& stored, const at::Tensor& base);

// Sizes as they lie in a format whose blocks have rows of so many elements; none where it is not for as many dimensions.
std::optional<std::vector<int64_t>> sizes_in(aclFormat format, at::IntArrayRef sizes, int64_t row);
// Whether it is a matrix seen transposed.
bool is_turned(const at::Tensor& tensor);

}  // namespace softcann::op
