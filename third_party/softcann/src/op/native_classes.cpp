// Methods of the classes that CANN has behind the handles of descriptors. Clients of aclnn in C++ call a few of them, to look
// into what they have made themselves. Here they are functions of a handle, under the names that compilers give such methods.
#include <complex>
#include <cstring>

#include "op/descriptor.h"
#include "op/for_types.h"
#include "op/tensor.h"

using namespace softcann::op;

namespace {

const aclScalar* seen(const aclScalar* handle) { return is_live(handle, Kind::scalar) ? object_of(handle) : nullptr; }

std::complex<double> value_of(const aclScalar* handle) {
  const aclScalar* scalar = seen(handle);
  if (scalar == nullptr) return 0;
  return static_cast<std::complex<double>>(scalar->value.toComplexDouble());
}

}  // namespace

#pragma GCC visibility push(default)

aclDataType softcann_scalar_type(const aclScalar* handle) asm("_ZNK9aclScalar11GetDataTypeEv");
const void* softcann_scalar_data(const aclScalar* handle) asm("_ZNK9aclScalar7GetDataEv");
float softcann_scalar_float(const aclScalar* handle) asm("_ZNK9aclScalar7ToFloatEv");
std::complex<float> softcann_scalar_complex64(const aclScalar* handle) asm("_ZNK9aclScalar11ToComplex64Ev");
std::complex<double> softcann_scalar_complex128(const aclScalar* handle) asm("_ZNK9aclScalar12ToComplex128Ev");
void* softcann_tensor_data(const aclTensor* handle) asm("_ZNK9aclTensor7GetDataEv");
const int64_t* softcann_int_array_data(const aclIntArray* handle) asm("_ZNK8aclArrayIlE7GetDataEv");

aclDataType softcann_scalar_type(const aclScalar* handle) {
  const aclScalar* scalar = seen(handle);
  return scalar != nullptr ? scalar->type : ACL_DT_UNDEFINED;
}

// The value in its own type; until this thread asks for another one.
const void* softcann_scalar_data(const aclScalar* handle) {
  const aclScalar* scalar = seen(handle);
  const at::ScalarType type = scalar != nullptr ? to_scalar_type(scalar->type) : at::ScalarType::Undefined;
  if (type == at::ScalarType::Undefined) return nullptr;
  alignas(16) static thread_local char bytes[16];
  const at::Tensor value = at::scalar_tensor(scalar->value, type);
  std::memcpy(bytes, value.const_data_ptr(), value.nbytes());
  return bytes;
}

float softcann_scalar_float(const aclScalar* handle) { return static_cast<float>(value_of(handle).real()); }
std::complex<float> softcann_scalar_complex64(const aclScalar* handle) {
  return static_cast<std::complex<float>>(value_of(handle));
}
std::complex<double> softcann_scalar_complex128(const aclScalar* handle) { return value_of(handle); }

// The first element's address, as clients know it.
void* softcann_tensor_data(const aclTensor* handle) {
  return is_live(handle, Kind::tensor) ? const_cast<char*>(object_of(handle)->first_byte()) : nullptr;
}

const int64_t* softcann_int_array_data(const aclIntArray* handle) {
  return is_live(handle, Kind::int_array) ? object_of(handle)->data() : nullptr;
}

#pragma GCC visibility pop
