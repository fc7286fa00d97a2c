// Making and changing aclTensors.
#pragma once

#include <ATen/core/DimVector.h>
#include <type_traits>

#include "op/descriptor.h"

namespace softcann::op {

struct TensorSpec {
  const int64_t* dims;
  uint64_t rank;
  aclDataType type;
  const int64_t* strides;  // null: contiguous
  int64_t offset;          // elements
  aclFormat format;
  const int64_t* storage_dims;
  uint64_t storage_rank;
  void* address;       // base of the storage
  bool bytes = false;  // sizes, strides and offset count bytes already: see Note [Four bits]
};

// Note [Four bits]
// Two float4 (or int4) share a byte, the first in its lower half, along the dimension that is dense in memory. The client counts
// numbers, the tensor made of its description bytes; which dimension has half the size, the tensor's own strides say: the last,
// or where its stride is not 1 the one before.
constexpr bool has_four_bits(aclDataType type) { return type == ACL_FLOAT4_E2M1 || type == ACL_FLOAT4_E1M2 || type == ACL_INT4; }
// A description as the client gave it.
struct ClientShape {
  at::DimVector sizes, strides, storage;
  int64_t offset;
};
ClientShape client_shape(const aclTensor& tensor);

// Null, with the reason recorded, when the description makes no sense.
aclTensor* make_tensor(const TensorSpec& spec);
// The same view of other memory; the client's own.
aclTensor* clone_tensor(const aclTensor* tensor, void* address);
aclTensorList* clone_list(const aclTensorList* list);
// What the client's handle stands for now: see Note [Changing a descriptor in use].
inline aclTensor* current(aclTensor* tensor) {
  return __builtin_expect(tensor->replacement != nullptr, 0) ? tensor->replacement : tensor;
}
inline const aclTensor* current(const aclTensor* tensor) { return current(const_cast<aclTensor*>(tensor)); }
aclnnStatus change_tensor(aclTensor* tensor, const TensorSpec& spec);
aclnnStatus set_address_of(aclTensor* tensor, void* address);
TensorSpec spec_of(const aclTensor* tensor);
// Whether the sizes are still those that the client gave: a kernel may have changed them.
bool same_sizes(const aclTensor& tensor);
bool same_sizes(const at::Tensor& element_of_list);  // or in other dimensions the only one
// Back to what the client gave, after a kernel that failed: the descriptor is used again, and so is its object.
void restore_shape(const at::Tensor& tensor);
// Whether the strides are still of the kind that the client gave them: a kernel may have changed them.
bool same_order(const aclTensor& tensor);

// The aclTensor that a kernel's argument is embedded in.
inline aclTensor* descriptor_of(const at::Tensor& argument) {
  static_assert(std::is_standard_layout_v<aclTensorHolder>);  // the member has the holder's address
  return static_cast<aclTensor*>(reinterpret_cast<aclTensorHolder*>(const_cast<at::Tensor*>(&argument)));
}

// The same for an element of a list; null for any other tensor.
aclTensor* descriptor_of_element(const at::Tensor& element);

}  // namespace softcann::op
