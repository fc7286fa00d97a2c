#include "op/descriptor.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

namespace torch_npu::op {

void detail::throw_no_acl_type(c10::ScalarType type) { TORCH_CHECK_TYPE(false, "the NPU has no data type for ", type); }

thread_local constinit const char* described_operator = nullptr;

namespace {

// CANN declares the target of these operators as if they only read it.
bool writes_what_it_reads(const char* op) {
  if (!op) return false;
  const std::string_view name(op);
  return name.starts_with("aclnnInplace") || name.starts_with("aclnnApply") || name.starts_with("aclnnForeach") ||
         name.starts_with("aclnnRReluWithNoise") || name == "aclnnAsStrided" || name == "aclnnNdtri" ||
         name == "aclnnAmpUpdateScale";
}

}  // namespace

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

aclScalar* describe(const c10::Scalar& scalar) {
  if (scalar.isFloatingPoint()) {
    double value = scalar.toDouble();
    return acl::aclCreateScalar(&value, ACL_DOUBLE);
  }
  if (scalar.isBoolean()) {
    bool value = scalar.toBool();
    return acl::aclCreateScalar(&value, ACL_BOOL);
  }
  if (scalar.isComplex()) {
    auto value = scalar.toComplexDouble();
    return acl::aclCreateScalar(&value, ACL_COMPLEX128);
  }
  if (scalar.type() == c10::ScalarType::UInt64) {
    auto value = scalar.toUInt64();
    return acl::aclCreateScalar(&value, ACL_UINT64);
  }
  int64_t value = scalar.toLong();
  return acl::aclCreateScalar(&value, ACL_INT64);
}

}  // namespace torch_npu::op
