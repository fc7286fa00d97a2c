// The C entry points of acl_meta.h, except for executors.
#include "aclnn/aclnn_base.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "fault/fault.h"
#include "op/executor.h"
#include "op/for_types.h"
#include "op/pool.h"
#include "op/tensor.h"
#include "rt/runtime.h"

using namespace softcann;
using namespace softcann::op;

namespace {

template <class A, PoolIndex P, class E>
A* make_array(const E* value, uint64_t size) {
  if (size && !value) {
    fail(ACLNN_ERR_PARAM_NULLPTR, "an array of %llu elements was created from null", static_cast<unsigned long long>(size));
    return nullptr;
  }
  auto* made = take<A>(P);
  made->size = size;
  if (size > std::size(made->few)) made->many = std::make_unique<E[]>(size);
  std::copy_n(value, size, const_cast<E*>(made->data()));
  return handle_of(open(made));
}

bool read_scalar(const void* value, aclDataType type, at::Scalar& out) {
  return for_types<float, double, at::Half, at::BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                   uint64_t, bool, c10::complex<float>, c10::complex<double>>(to_scalar_type(type), [&](auto typed) {
    std::memcpy(&typed, value, sizeof(typed));
    out = typed;
  });
}

aclnnStatus null_argument(const char* function) {
  return fail(ACLNN_ERR_PARAM_NULLPTR, "%s: a required argument is null", function);
}

// Refuses an argument that is not there, or not what the function takes.
template <class T>
aclnnStatus check_handle(const char* function, T*& handle, Kind kind, bool others_given = true) {
  if (!handle || !others_given) return null_argument(function);
  return require_live(function, handle, kind);
}

template <class T>
bool all_live(const char* function, const T* const* handles, uint64_t count, Kind kind) {
  for (uint64_t i = 0; i < count; ++i) {
    const T* handle = handles[i];
    if (handle && require_live(function, handle, kind) != ACLNN_SUCCESS) return false;
  }
  return true;
}

template <class T>
aclnnStatus destroy_handle(const char* function, const T* handle, Kind kind) {
  if (!handle) return ACLNN_SUCCESS;
  if (const aclnnStatus status = require_live(function, handle, kind)) return status;
  destroy(handle);
  return ACLNN_SUCCESS;
}

// Null stays null.
template <class List, class T>
void add_element(List* list, const T* handle) {
  T* element = const_cast<T*>(object_of(handle));
  list->elements.push_back(element);
  list->tags.push_back(element ? element->tag : 0);
}

// The caller frees with delete[].
int64_t* copied(const int64_t* values, size_t count) {
  auto* copy = new int64_t[std::max<size_t>(count, 1)];
  std::copy_n(values, count, copy);
  return copy;
}

template <class A>
aclnnStatus size_of(const char* function, const A* array, Kind kind, uint64_t* size) {
  if (const aclnnStatus status = check_handle(function, array, kind, size)) return status;
  *size = array->size;
  return ACLNN_SUCCESS;
}

// Whether aclnnInit stood for aclInit.
std::atomic<bool> begun{false};

}  // namespace

extern "C" {

SOFTCANN_API aclnnStatus aclnnInit(const char* configPath) {
  SOFTCANN_ENTRY(aclnnInit);
  const aclError code = aclInit(configPath);
  if (code == ACL_SUCCESS) begun.store(true);
  // Only a file that nobody reads would make a difference after aclInit.
  const bool nothing_to_read = configPath == nullptr || *configPath == 0;
  return code == ACL_ERROR_REPEAT_INITIALIZE && nothing_to_read ? ACLNN_SUCCESS : code;
}
SOFTCANN_API aclnnStatus aclnnFinalize(void) {
  SOFTCANN_ENTRY(aclnnFinalize);
  return begun.exchange(false) ? aclFinalize() : ACLNN_SUCCESS;
}

SOFTCANN_API aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType,
                                        const int64_t* stride, int64_t offset, aclFormat format, const int64_t* storageDims,
                                        uint64_t storageDimsNum, void* tensorData) {
  SOFTCANN_ENTRY_VALUE(aclCreateTensor, nullptr);
  aclTensor* made =
      make_tensor({viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum, tensorData});
  return made ? handle_of(made) : nullptr;
}

SOFTCANN_API aclnnStatus aclInitTensor(aclTensor* tensor, const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType,
                                       const int64_t* stride, int64_t offset, aclFormat format, const int64_t* storageDims,
                                       uint64_t storageDimsNum, void* tensorDataAddr) {
  SOFTCANN_ENTRY(aclInitTensor);
  if (const aclnnStatus status = check_handle("aclInitTensor", tensor, Kind::tensor)) return status;
  return change_tensor(tensor,
                       {viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum, tensorDataAddr});
}

SOFTCANN_API aclnnStatus aclDestroyTensor(const aclTensor* tensor) {
  SOFTCANN_ENTRY(aclDestroyTensor);
  return destroy_handle("aclDestroyTensor", tensor, Kind::tensor);
}

SOFTCANN_API aclScalar* aclCreateScalar(void* value, aclDataType dataType) {
  SOFTCANN_ENTRY_VALUE(aclCreateScalar, nullptr);
  if (!value) {
    fail(ACLNN_ERR_PARAM_NULLPTR, "aclCreateScalar: value is null");
    return nullptr;
  }
  auto* made = take<aclScalar>(scalar_pool);
  made->type = dataType;
  if (!read_scalar(value, dataType, made->value)) {
    give_back(scalar_pool, made);
    fail(ACLNN_ERR_PARAM_INVALID, "aclCreateScalar: data type %d is not supported", static_cast<int>(dataType));
    return nullptr;
  }
  return handle_of(open(made));
}

SOFTCANN_API aclnnStatus aclDestroyScalar(const aclScalar* scalar) {
  SOFTCANN_ENTRY(aclDestroyScalar);
  return destroy_handle("aclDestroyScalar", scalar, Kind::scalar);
}

SOFTCANN_API aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size) {
  SOFTCANN_ENTRY_VALUE(aclCreateIntArray, nullptr);
  return make_array<aclIntArray, int_pool>(value, size);
}
SOFTCANN_API aclFloatArray* aclCreateFloatArray(const float* value, uint64_t size) {
  SOFTCANN_ENTRY_VALUE(aclCreateFloatArray, nullptr);
  return make_array<aclFloatArray, float_pool>(value, size);
}
SOFTCANN_API aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size) {
  SOFTCANN_ENTRY_VALUE(aclCreateBoolArray, nullptr);
  return make_array<aclBoolArray, bool_pool>(value, size);
}
SOFTCANN_API aclnnStatus aclDestroyIntArray(const aclIntArray* array) {
  SOFTCANN_ENTRY(aclDestroyIntArray);
  return destroy_handle("aclDestroyIntArray", array, Kind::int_array);
}
SOFTCANN_API aclnnStatus aclDestroyFloatArray(const aclFloatArray* array) {
  SOFTCANN_ENTRY(aclDestroyFloatArray);
  return destroy_handle("aclDestroyFloatArray", array, Kind::float_array);
}
SOFTCANN_API aclnnStatus aclDestroyBoolArray(const aclBoolArray* array) {
  SOFTCANN_ENTRY(aclDestroyBoolArray);
  return destroy_handle("aclDestroyBoolArray", array, Kind::bool_array);
}

SOFTCANN_API aclTensorList* aclCreateTensorList(const aclTensor* const* value, uint64_t size) {
  SOFTCANN_ENTRY_VALUE(aclCreateTensorList, nullptr);
  if (size && !value) {
    fail(ACLNN_ERR_PARAM_NULLPTR, "aclCreateTensorList: value is null");
    return nullptr;
  }
  if (!all_live("aclCreateTensorList", value, size, Kind::tensor)) return nullptr;
  auto* made = take<aclTensorList>(tensor_list_pool);
  made->elements.reserve(size);
  made->values.reserve(size);
  for (uint64_t i = 0; i < size; ++i) {
    add_element(made, value[i]);
    made->values.push_back(value[i] ? current(made->elements.back())->tensor : at::Tensor());
  }
  return handle_of(open(made));
}
SOFTCANN_API aclnnStatus aclDestroyTensorList(const aclTensorList* array) {
  SOFTCANN_ENTRY(aclDestroyTensorList);
  return destroy_handle("aclDestroyTensorList", array, Kind::tensor_list);
}

SOFTCANN_API aclScalarList* aclCreateScalarList(const aclScalar* const* value, uint64_t size) {
  SOFTCANN_ENTRY_VALUE(aclCreateScalarList, nullptr);
  if (size && !value) {
    fail(ACLNN_ERR_PARAM_NULLPTR, "aclCreateScalarList: value is null");
    return nullptr;
  }
  if (!all_live("aclCreateScalarList", value, size, Kind::scalar)) return nullptr;
  auto* made = take<aclScalarList>(scalar_list_pool);
  for (uint64_t i = 0; i < size; ++i) {
    add_element(made, value[i]);
    made->values.push_back(value[i] ? made->elements.back()->value : at::Scalar());
  }
  return handle_of(open(made));
}
SOFTCANN_API aclnnStatus aclDestroyScalarList(const aclScalarList* array) {
  SOFTCANN_ENTRY(aclDestroyScalarList);
  return destroy_handle("aclDestroyScalarList", array, Kind::scalar_list);
}

SOFTCANN_API aclnnStatus aclGetIntArraySize(const aclIntArray* array, uint64_t* size) {
  return size_of("aclGetIntArraySize", array, Kind::int_array, size);
}
SOFTCANN_API aclnnStatus aclGetFloatArraySize(const aclFloatArray* array, uint64_t* size) {
  return size_of("aclGetFloatArraySize", array, Kind::float_array, size);
}
SOFTCANN_API aclnnStatus aclGetBoolArraySize(const aclBoolArray* array, uint64_t* size) {
  return size_of("aclGetBoolArraySize", array, Kind::bool_array, size);
}
SOFTCANN_API aclnnStatus aclGetTensorListSize(const aclTensorList* tensorList, uint64_t* size) {
  if (const aclnnStatus status = check_handle("aclGetTensorListSize", tensorList, Kind::tensor_list, size)) return status;
  *size = tensorList->elements.size();
  return ACLNN_SUCCESS;
}
SOFTCANN_API aclnnStatus aclGetScalarListSize(const aclScalarList* scalarList, uint64_t* size) {
  if (const aclnnStatus status = check_handle("aclGetScalarListSize", scalarList, Kind::scalar_list, size)) return status;
  *size = scalarList->elements.size();
  return ACLNN_SUCCESS;
}

SOFTCANN_API aclnnStatus aclGetDataType(const aclTensor* tensor, aclDataType* dataType) {
  if (const aclnnStatus status = check_handle("aclGetDataType", tensor, Kind::tensor, dataType)) return status;
  *dataType = current(tensor)->type;
  return ACLNN_SUCCESS;
}
SOFTCANN_API aclnnStatus aclGetFormat(const aclTensor* tensor, aclFormat* format) {
  if (const aclnnStatus status = check_handle("aclGetFormat", tensor, Kind::tensor, format)) return status;
  *format = current(tensor)->format;
  return ACLNN_SUCCESS;
}
SOFTCANN_API aclnnStatus aclGetRawTensorAddr(const aclTensor* tensor, void** addr) {
  if (const aclnnStatus status = check_handle("aclGetRawTensorAddr", tensor, Kind::tensor, addr)) return status;
  *addr = current(tensor)->address;
  return ACLNN_SUCCESS;
}
SOFTCANN_API aclnnStatus aclGetViewOffset(const aclTensor* tensor, int64_t* offset) {
  if (const aclnnStatus status = check_handle("aclGetViewOffset", tensor, Kind::tensor, offset)) return status;
  *offset = client_shape(*current(tensor)).offset;
  return ACLNN_SUCCESS;
}
SOFTCANN_API aclnnStatus aclGetViewShape(const aclTensor* tensor, int64_t** viewDims, uint64_t* viewDimsNum) {
  if (const aclnnStatus status = check_handle("aclGetViewShape", tensor, Kind::tensor, viewDims && viewDimsNum)) return status;
  const auto sizes = client_shape(*current(tensor)).sizes;
  *viewDims = copied(sizes.data(), sizes.size());
  *viewDimsNum = sizes.size();
  return ACLNN_SUCCESS;
}
SOFTCANN_API aclnnStatus aclGetViewStrides(const aclTensor* tensor, int64_t** stridesValue, uint64_t* stridesNum) {
  if (const aclnnStatus status = check_handle("aclGetViewStrides", tensor, Kind::tensor, stridesValue && stridesNum))
    return status;
  const auto strides = client_shape(*current(tensor)).strides;
  *stridesValue = copied(strides.data(), strides.size());
  *stridesNum = strides.size();
  return ACLNN_SUCCESS;
}
SOFTCANN_API aclnnStatus aclGetStorageShape(const aclTensor* tensor, int64_t** storageDims, uint64_t* storageDimsNum) {
  if (const aclnnStatus status = check_handle("aclGetStorageShape", tensor, Kind::tensor, storageDims && storageDimsNum))
    return status;
  const auto storage = client_shape(*current(tensor)).storage;
  *storageDims = copied(storage.data(), storage.size());
  *storageDimsNum = storage.size();
  return ACLNN_SUCCESS;
}
SOFTCANN_API aclnnStatus aclSetRawTensorAddr(aclTensor* tensor, void* addr) {
  SOFTCANN_ENTRY(aclSetRawTensorAddr);
  if (const aclnnStatus status = check_handle("aclSetRawTensorAddr", tensor, Kind::tensor)) return status;
  return set_address_of(tensor, addr);
}

}  // extern "C"
