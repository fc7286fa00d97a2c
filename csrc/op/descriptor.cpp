#include "op/descriptor.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <sstream>

#include "op/parameters.h"

namespace torch_npu::op {

void detail::throw_no_acl_type(c10::ScalarType type) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "the NPU has no data type for ", type);
}

thread_local constinit const char* described_operator = nullptr;

namespace {

// Operators whose results are elements of their operands as they lie, or zeros, and whose operands have one type.
bool only_moves(std::string_view op) {
  constexpr std::string_view kMoving[] = {"aclnnCat", "aclnnInplaceCopy", "aclnnInplaceZero", "aclnnRoll", "aclnnSWhere"};
  return std::find(std::begin(kMoving), std::end(kMoving), op) != std::end(kMoving);
}

// CANN declares the target of some operators as if they only read it.
bool writes_what_it_reads(const char* op) {
  const Parameters* parameters = op ? parameters_of(op) : nullptr;
  return parameters != nullptr && parameters->writes_const();
}

}  // namespace

namespace detail {

aclDataType moved_type(c10::ScalarType type) {
  const auto bytes = c10::elementSize(type);
  if (bytes > 2 || !described_operator || !only_moves(described_operator)) throw_no_acl_type(type);
  return bytes == 1 ? ACL_UINT8 : ACL_INT16;
}

void throw_no_descriptor(const char* function, const std::string& of, const char* op) {
  if (!op) op = described_operator;
  const char* report = acl::aclGetRecentErrMsg();
  TORCH_CHECK(false, function, " made no descriptor of ", of, op ? " for " : "", op ? op : "",
              report && *report ? ": " : " and gave no reason", report ? report : "");
}

void throw_no_descriptor(const c10::TensorImpl& tensor) {
  std::ostringstream of;
  of << "a tensor of type " << tensor.dtype() << " and " << tensor.dim() << " dimensions, " << tensor.sizes();
  throw_no_descriptor("aclCreateTensor", of.str());
}

}  // namespace detail

aclTensor* describe_formatted(const at::Tensor& tensor, at::Tensor& owned, bool written) {
  if (written || writes_what_it_reads(described_operator)) {
    normalize_storage(tensor.storage());
    return describe_local(*tensor.unsafeGetTensorImpl());
  }
  owned = normalized(tensor);
  return describe_local(*owned.unsafeGetTensorImpl());
}

aclTensor* describe_foreign(const at::Tensor& tensor, at::Tensor& owned, bool written) {
  if (!tensor.defined()) return nullptr;
  const c10::Device here(c10::DeviceType::PrivateUse1, core::thread_state.device);
  if (tensor.is_cpu() && tensor.dim() == 0 && !written && !writes_what_it_reads(described_operator)) {
    // A number that PyTorch lets mix with tensors of any device. It goes along with a fill: a copy would make the host wait.
    const char* const operator_of_this = described_operator;
    owned = at::full({}, tensor.item(), tensor.options().device(here).pinned_memory(false));
    described_operator = operator_of_this;
    return describe_local(*owned.unsafeGetTensorImpl());
  }
  TORCH_CHECK(tensor.device() == here, "Expected all tensors to be on the same device, but found at least two devices, ", here,
              " and ", tensor.device(), "!");
  TORCH_CHECK(tensor.layout() == c10::kStrided, "the NPU operator takes strided tensors, got layout ", tensor.layout());
  if (has_math_bits(*tensor.unsafeGetTensorImpl())) {
    owned = tensor._is_zerotensor() ? at::zeros(tensor.sizes(), tensor.options()) : tensor.resolve_conj().resolve_neg();
    return describe_local(*owned.unsafeGetTensorImpl());
  }
  return describe_local(*tensor.unsafeGetTensorImpl());
}

aclTensor* describe(const AsType& argument) {
  const at::Tensor& tensor = argument.tensor;
  const c10::Device here(c10::DeviceType::PrivateUse1, core::thread_state.device);
  TORCH_CHECK(tensor.device() == here, "Expected all tensors to be on the same device, but found at least two devices, ", here,
              " and ", tensor.device(), "!");
  TORCH_CHECK(tensor.is_contiguous(), "numbers of CANN's type ", argument.type, " in a tensor that is not contiguous");
  const int64_t in_each = argument.type == ACL_FLOAT4_E2M1 || argument.type == ACL_FLOAT4_E1M2 ? 2 : 1;
  at::DimVector sizes(tensor.sizes()), strides(tensor.strides());
  if (!sizes.empty()) sizes.back() *= in_each;
  for (size_t i = 0; i + 1 < strides.size(); ++i) strides[i] *= in_each;
  const int64_t numbers = static_cast<int64_t>(tensor.storage().nbytes()) / tensor.element_size() * in_each;
  auto* made = acl::aclCreateTensor(sizes.data(), sizes.size(), argument.type, strides.data(), tensor.storage_offset() * in_each,
                                    ACL_FORMAT_ND, &numbers, 1, tensor.storage().mutable_data());
  if (C10_UNLIKELY(!made)) detail::throw_no_descriptor(*tensor.unsafeGetTensorImpl());
  return made;
}

namespace {

template <class T>
aclScalar* make_scalar(T value, aclDataType type) {
  auto* made = acl::aclCreateScalar(&value, type);
  if (C10_UNLIKELY(!made)) detail::throw_no_descriptor("aclCreateScalar", "a number");
  return made;
}

}  // namespace

aclScalar* describe(const c10::Scalar& scalar) {
  if (scalar.isFloatingPoint()) return make_scalar(scalar.toDouble(), ACL_DOUBLE);
  if (scalar.isBoolean()) return make_scalar(scalar.toBool(), ACL_BOOL);
  if (scalar.isComplex()) return make_scalar(scalar.toComplexDouble(), ACL_COMPLEX128);
  if (scalar.type() == c10::ScalarType::UInt64) return make_scalar(scalar.toUInt64(), ACL_UINT64);
  return make_scalar(scalar.toLong(), ACL_INT64);
}

}  // namespace torch_npu::op
