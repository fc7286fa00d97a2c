#include "op/descriptor.h"

#include <utility>

#include "op/executor.h"
#include "op/pool.h"

namespace softcann::op {

const at::Scalar absent_scalar;

const at::Tensor& absent_tensor() {
  static const at::Tensor absent;
  return absent;
}

at::ScalarType to_scalar_type(int acl_type) {
  switch (acl_type) {
    case ACL_FLOAT:
      return at::kFloat;
    case ACL_FLOAT16:
      return at::kHalf;
    case ACL_INT8:
      return at::kChar;
    case ACL_INT32:
      return at::kInt;
    case ACL_UINT8:
      return at::kByte;
    case ACL_INT16:
      return at::kShort;
    case ACL_UINT16:
      return at::kUInt16;
    case ACL_UINT32:
      return at::kUInt32;
    case ACL_INT64:
      return at::kLong;
    case ACL_UINT64:
      return at::kUInt64;
    case ACL_DOUBLE:
      return at::kDouble;
    case ACL_BOOL:
      return at::kBool;
    case ACL_COMPLEX64:
      return at::kComplexFloat;
    case ACL_COMPLEX128:
      return at::kComplexDouble;
    case ACL_COMPLEX32:
      return at::kComplexHalf;
    case ACL_BF16:
      return at::kBFloat16;
    case ACL_FLOAT8_E5M2:
      return at::kFloat8_e5m2;
    case ACL_FLOAT8_E4M3FN:
      return at::kFloat8_e4m3fn;
    case ACL_FLOAT8_E8M0:
      return at::kFloat8_e8m0fnu;
    // Two in a byte, see Note [Four bits]. ATen has no kernels of these types, and no name for the second of them.
    case ACL_FLOAT4_E2M1:
      return at::ScalarType::Float4_e2m1fn_x2;
    case ACL_FLOAT4_E1M2:
      return at::ScalarType::Bits8;
    case ACL_INT4:
      return at::ScalarType::Bits4x2;
    default:
      return at::ScalarType::Undefined;
  }
}

const char* name_of(Kind kind) {
  constexpr const char* names[] = {"nothing",      "aclTensor",     "aclScalar",     "aclIntArray",  "aclFloatArray",
                                   "aclBoolArray", "aclTensorList", "aclScalarList", "aclOpExecutor"};
  return names[static_cast<int>(kind)];
}

std::string what_is(const void* handle, Kind wanted) {
  for (int kind = 1; kind <= static_cast<int>(Kind::executor); ++kind) {
    const auto found = static_cast<Kind>(kind);
    if (found == Kind::executor ? is_live(static_cast<const aclOpExecutor*>(handle), found)
                                : is_live(static_cast<const Object*>(handle), found)) {
      return std::string("is an ") + name_of(found) + ", not an " + name_of(wanted);
    }
  }
  return std::string("is no ") + name_of(wanted) + ": it was destroyed, or never created";
}

namespace {

template <class A, PoolIndex P>
void recycle_array(Object* object) {
  static_cast<A*>(object)->many.reset();
  give_back(P, object);
}

template <class List, PoolIndex P>
void recycle_list(Object* object) {
  auto* list = static_cast<List*>(object);
  const auto elements = std::exchange(list->elements, {});
  const auto tags = std::exchange(list->tags, {});
  list->values.clear();
  give_back(P, list);
  for (size_t i = 0; i < elements.size(); ++i) {
    if (elements[i] && elements[i]->tag == tags[i]) destroy(elements[i]);  // some clients have destroyed it themselves
  }
}

}  // namespace

void recycle(Object* object) {
  switch (object->kind) {
    case Kind::tensor: {
      auto* tensor = static_cast<aclTensor*>(object);
      if (tensor->replacement) destroy(std::exchange(tensor->replacement, nullptr));
      return give_back(static_cast<PoolIndex>(tensor->shelf), object);
    }
    case Kind::scalar:
      return give_back(scalar_pool, object);
    case Kind::int_array:
      return recycle_array<aclIntArray, int_pool>(object);
    case Kind::float_array:
      return recycle_array<aclFloatArray, float_pool>(object);
    case Kind::bool_array:
      return recycle_array<aclBoolArray, bool_pool>(object);
    case Kind::tensor_list:
      return recycle_list<aclTensorList, tensor_list_pool>(object);
    case Kind::scalar_list:
      return recycle_list<aclScalarList, scalar_list_pool>(object);
    case Kind::executor:
    case Kind::none:
      break;
  }
}

void destroy(const Object* constant) {
  if (!constant) return;
  auto* object = const_cast<Object*>(constant);
  object->tag = 0;
  if (check::on(check::kLeak)) check::note_gone(object);
  if (object->idle()) return recycle(object);
  object->owner = nullptr;
  const int32_t change = object->pins - Object::open_bias;
  if (object->shared.fetch_add(change, std::memory_order_acq_rel) + change == 0) recycle(object);
}

}  // namespace softcann::op
