// Part of the published torch_npu's C++ names: docs/cpp_extension.md.
#pragma once

#include "torch_npu/csrc/framework/utils/OpPreparation.h"

namespace at_npu::native {

class CalcuOpUtil {
 public:
  static aclDataType ConvertToAclDataType(const at::ScalarType& dtype) { return OpPreparation::convert_to_acl_data_type(dtype); }
  static at::Tensor CopyScalarToDevice(const c10::Scalar& value, at::ScalarType dtype) {
    return OpPreparation::copy_scalar_to_device(value, dtype);
  }
  static at::Tensor CopyTensorHostToDevice(const at::Tensor& tensor) { return OpPreparation::copy_tensor_host_to_device(tensor); }
  static c10::Scalar ConvertTensorToScalar(const at::Tensor& tensor) { return tensor.item(); }
  static bool IsScalarWrappedToTensor(const at::Tensor& tensor) { return OpPreparation::is_scalar_wrapped_to_tensor(tensor); }
  static int64_t GetTensorNpuFormat(const at::Tensor& tensor) { return OpPreparation::get_tensor_npu_format(tensor); }
};

}  // namespace at_npu::native
