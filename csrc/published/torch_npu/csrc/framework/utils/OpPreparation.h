// Part of the published torch_npu's C++ names: docs/cpp_extension.md.
#pragma once

#include <ATen/ATen.h>

#include <torch_npu/op/dtype.h>

#include "torch_npu/csrc/core/npu/DeviceUtils.h"
#include "torch_npu/csrc/core/npu/NPUFormat.h"

namespace at_npu::native {

// Results for operators: memory of the base format, with nothing written to it.
class OpPreparation {
 public:
  static at::Tensor apply_tensor_without_format(const at::Tensor& like) { return at::empty(like.sizes(), like.options()); }
  static at::Tensor apply_tensor_without_format(const at::Tensor& like, c10::IntArrayRef sizes) {
    return at::empty(sizes, like.options());
  }
  static at::Tensor apply_tensor_without_format(c10::IntArrayRef sizes, const c10::TensorOptions& options) {
    return at::empty(sizes, options);
  }
  static at::Tensor apply_tensor(const at::Tensor& like) { return apply_tensor_without_format(like); }
  static at::Tensor apply_tensor(const at::Tensor& like, c10::IntArrayRef sizes) {
    return apply_tensor_without_format(like, sizes);
  }
  static at::Tensor apply_tensor(const at::Tensor& like, const c10::TensorOptions& options) {
    return at::empty(like.sizes(), options);
  }
  static at::Tensor apply_tensor(c10::IntArrayRef sizes, const c10::TensorOptions& options, const at::Tensor&) {
    return at::empty(sizes, options);
  }
  static at::Tensor apply_tensor_with_sizes(c10::IntArrayRef sizes, const c10::TensorOptions& options) {
    return at::empty(sizes, options);
  }
  static at::Tensor unsafe_empty_workspace(uint64_t bytes) {
    return at::empty({static_cast<int64_t>(bytes)}, at::TensorOptions(c10::DeviceType::PrivateUse1).dtype(at::kByte));
  }

  // A tensor or number of the host on the current device.
  static at::Tensor copy_tensor_host_to_device(const at::Tensor& tensor) { return tensor.to(c10::DeviceType::PrivateUse1); }
  static at::Tensor copy_scalar_to_device(const c10::Scalar& value, at::ScalarType dtype) {
    return at::scalar_tensor(value, at::TensorOptions(c10::DeviceType::PrivateUse1).dtype(dtype));
  }
  static bool is_scalar_wrapped_to_tensor(const at::Tensor& tensor) { return tensor.dim() == 0 && tensor.device().is_cpu(); }

  // ACL_DT_UNDEFINED where CANN has none.
  static aclDataType convert_to_acl_data_type(const at::ScalarType& dtype) {
    return torch_npu::op::detail::kAclTypes[static_cast<size_t>(dtype)];
  }
  static int64_t get_tensor_npu_format(const at::Tensor& tensor) { return get_npu_format(tensor); }
};

}  // namespace at_npu::native
