// Descriptors: aclTensor, aclScalar, arrays and lists. Pooled, with a biased reference count.
#pragma once

#include <ATen/core/Tensor.h>
#include <atomic>
#include <c10/core/Scalar.h>
#include <memory>
#include <string>
#include <vector>

#include "aclnn/acl_meta.h"
#include "op/object_memory.h"
#include "rt/base/handles.h"
#include "rt/runtime.h"

namespace softcann::op {

constexpr int aclOpExecutor_max_slots = 52;
constexpr int max_dims = 64;  // c10::kDimVectorStaticSize is far below; beyond this a descriptor is refused

enum class Kind : uint8_t { none, tensor, scalar, int_array, float_array, bool_array, tensor_list, scalar_list, executor };
// "aclTensor" and so on.
const char* name_of(Kind kind);

// Note [Descriptor references]
// A descriptor is made, used and destroyed by its client, nearly always on one thread, and the operator usually runs
// inside phase 2 on that very thread; atomics would be most of the cost of a call. So references are counted in two
// parts: `pins`, plain, touched only by the owner (the thread that made the descriptor), and `shared`, atomic, for
// everyone else. `shared` starts at a bias that destroying takes away, together with merging the pins into it; it
// reaches zero exactly when the client has destroyed the descriptor and nobody holds it. A release may use `pins` only
// inside the phase 2 of the owner's own call, when the client cannot be destroying the descriptor at the same time.
//
// Note [Handles]
// A client's handle is the object's address, with its generation above: how often the object was made anew (see
// rt/base/handles.h). Objects lie in a range of addresses of their own (object_memory.h), stay in pools, and `tag` says what lies
// there: the kind and the generation, while the client has not destroyed it. So a handle that was never made, was destroyed, or
// is of another kind, is told by two comparisons. Only entry points see handles; object_of() is what they begin with.
struct Object {
  explicit Object(Kind k) : kind(k) {}
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  static constexpr int32_t open_bias = 1 << 30;
  static constexpr uint32_t tag_of(Kind kind, uint64_t generation) {
    return 0x80000000U | static_cast<uint32_t>(kind) << 16 | static_cast<uint32_t>(generation);
  }
  uint32_t tag = 0;
  uint32_t lives = 0;
  const void* owner = nullptr;
  int32_t pins = 0;
  std::atomic<int32_t> shared{open_bias};
  const Kind kind;
  Object* next_free = nullptr;

  // Held by nobody but the client.
  bool idle() const { return pins + shared.load(std::memory_order_acquire) == open_bias; }
};

// The object at a handle, alive or not.
template <class T>
[[gnu::always_inline]] inline T* object_of(T* handle) {
  return reinterpret_cast<T*>(reinterpret_cast<uint64_t>(handle) & kAddressMask);
}
// What the client calls an object that is alive.
template <class T>
[[gnu::always_inline]] inline T* handle_of(T* object) {
  const uint64_t generation = object->tag & (kGenerations - 1);
  return reinterpret_cast<T*>(reinterpret_cast<uint64_t>(object) | generation << kGenerationShift);
}
// Whether a client's handle is one of that kind, alive.
template <class T>
[[gnu::always_inline]] inline bool is_live(const T* handle, Kind kind) {
  const auto bits = reinterpret_cast<uint64_t>(handle);
  if (__builtin_expect(!may_be_object(bits & kAddressMask), 0)) return false;
  return object_of(handle)->tag == Object::tag_of(kind, bits >> kGenerationShift);
}
// What is wrong with a handle that is not: a text for people.
std::string what_is(const void* handle, Kind wanted);

void recycle(Object* object);  // nobody holds it any more
// Ends the client's reference. Null is fine.
void destroy(const Object* object);

// Why an aclTensor cannot be computed with; phase 1 tells.
enum class Defect : uint8_t { none, type, address, alignment, extent };

// Contiguous elements, inline while they are few.
template <class E, Kind K>
struct Array : Object {
  Array() : Object(K) {}
  uint64_t size = 0;
  E few[8] = {};
  std::unique_ptr<E[]> many;
  const E* data() const { return many ? many.get() : few; }
  c10::ArrayRef<E> ref() const { return c10::ArrayRef<E>(data(), static_cast<size_t>(size)); }
};

at::ScalarType to_scalar_type(int acl_type);                // Undefined when ATen has no such type
SOFTCANN_API aclDataType acl_type_of(at::ScalarType type);  // ACL_DT_UNDEFINED where CANN has no such type
extern const at::Scalar absent_scalar;
const at::Tensor& absent_tensor();

}  // namespace softcann::op

struct aclIntArray final : softcann::op::Array<int64_t, softcann::op::Kind::int_array> {};
struct aclFloatArray final : softcann::op::Array<float, softcann::op::Kind::float_array> {};
struct aclBoolArray final : softcann::op::Array<bool, softcann::op::Kind::bool_array> {};

struct aclScalar final : softcann::op::Object {
  aclScalar() : Object(softcann::op::Kind::scalar) {}
  at::Scalar value;
  aclDataType type = ACL_DT_UNDEFINED;
};

// The part of aclTensor that kernels get hold of; leads back to the descriptor.
struct aclTensorHolder {
  at::Tensor tensor;
};

// A view of device memory, as a CPU tensor over the address that kernels may touch. The TensorImpl and StorageImpl
// survive in the pool and are pointed at the next memory in place.
struct aclTensor final : softcann::op::Object, aclTensorHolder {
  aclTensor() : Object(softcann::op::Kind::tensor) {}
  c10::TensorImpl* impl = nullptr;  // what `tensor` was made with: kernels may have rebound it
  c10::StorageImpl* storage = nullptr;
  void* address = nullptr;  // storage base, as the client gave it
  int64_t made_numel = 0;
  uint8_t made_orders = 0;           // see same_order()
  int64_t made_extent = -1;          // elements between the first and the last of the view
  int64_t capacity = 0;              // elements of the storage
  int64_t item = 1;                  // bytes of an element
  aclTensor* replacement = nullptr;  // see aclInitTensor
  aclDataType type = ACL_DT_UNDEFINED;
  aclFormat format = ACL_FORMAT_ND;
  bool shape_is_result = false;  // set_view_shape() was called
  int shelf = 0;                 // the pool's list that it goes back to
  softcann::op::Defect defect = softcann::op::Defect::none;
  uint32_t storage_rank = 0;
  int64_t few_storage_dims[8] = {};
  std::unique_ptr<int64_t[]> many_storage_dims;
  const int64_t* storage_dims() const { return many_storage_dims ? many_storage_dims.get() : few_storage_dims; }
  // What the view reaches of the client's memory: from the first to the last element.
  const char* first_byte() const { return static_cast<const char*>(address) + tensor.storage_offset() * item; }
  size_t reached_bytes() const { return static_cast<size_t>(made_extent * item); }
};

struct aclTensorList final : softcann::op::Object {
  aclTensorList() : Object(softcann::op::Kind::tensor_list) {}
  std::vector<aclTensor*> elements;
  std::vector<uint32_t> tags;  // of the elements when they came: the client may destroy them before the list
  std::vector<at::Tensor> values;
};

struct aclScalarList final : softcann::op::Object {
  aclScalarList() : Object(softcann::op::Kind::scalar_list) {}
  std::vector<aclScalar*> elements;
  std::vector<uint32_t> tags;
  std::vector<at::Scalar> values;
};
