#include "op/descriptor.h"

#include <array>
#include <utility>

#include "op/executor.h"
#include "op/pool.h"

namespace softcann::op {

const at::Scalar absent_scalar;

const at::Tensor& absent_tensor() {
  static const at::Tensor absent;
  return absent;
}

namespace {

struct TypePair {
  aclDataType acl;
  at::ScalarType at;
};
constexpr TypePair kTypes[] = {
    {ACL_FLOAT, at::kFloat},
    {ACL_FLOAT16, at::kHalf},
    {ACL_BF16, at::kBFloat16},
    {ACL_DOUBLE, at::kDouble},
    {ACL_INT8, at::kChar},
    {ACL_INT16, at::kShort},
    {ACL_INT32, at::kInt},
    {ACL_INT64, at::kLong},
    {ACL_UINT8, at::kByte},
    {ACL_UINT16, at::kUInt16},
    {ACL_UINT32, at::kUInt32},
    {ACL_UINT64, at::kUInt64},
    {ACL_BOOL, at::kBool},
    {ACL_COMPLEX32, at::kComplexHalf},
    {ACL_COMPLEX64, at::kComplexFloat},
    {ACL_COMPLEX128, at::kComplexDouble},
    {ACL_FLOAT8_E5M2, at::kFloat8_e5m2},
    {ACL_FLOAT8_E4M3FN, at::kFloat8_e4m3fn},
    {ACL_FLOAT8_E8M0, at::kFloat8_e8m0fnu},
    // Two in a byte, see Note [Four bits]. ATen has no kernels of these types, and no name for the second of them.
    {ACL_FLOAT4_E2M1, at::ScalarType::Float4_e2m1fn_x2},
    {ACL_FLOAT4_E1M2, at::ScalarType::Bits8},
    {ACL_INT4, at::ScalarType::Bits4x2},
};

}  // namespace

at::ScalarType to_scalar_type(int acl_type) {
  static constexpr auto by_number = [] {
    std::array<at::ScalarType, 64> all{};
    all.fill(at::ScalarType::Undefined);
    for (const TypePair& pair : kTypes) all[pair.acl] = pair.at;
    return all;
  }();
  return acl_type >= 0 && acl_type < static_cast<int>(by_number.size()) ? by_number[acl_type] : at::ScalarType::Undefined;
}

aclDataType acl_type_of(at::ScalarType type) {
  for (const TypePair& pair : kTypes) {
    if (pair.at == type) return pair.acl;
  }
  return ACL_DT_UNDEFINED;
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
