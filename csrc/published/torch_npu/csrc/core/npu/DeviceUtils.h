// Part of the published torch_npu's C++ names: docs/cpp_extension.md.
#pragma once

#include <ATen/ATen.h>

namespace torch_npu::utils {

inline c10::DeviceType get_npu_device_type() { return c10::DeviceType::PrivateUse1; }

inline bool is_npu(const at::Tensor& tensor) { return tensor.is_privateuseone(); }
inline bool is_npu(const at::TensorOptions& options) { return options.device().is_privateuseone(); }
inline bool is_npu(const at::Device& device) { return device.is_privateuseone(); }

template <class T>
void torch_check_npu(const T& what) {
  TORCH_CHECK(is_npu(what), "expected a tensor or a device of the NPU");
}

}  // namespace torch_npu::utils

namespace at_npu::key {

constexpr c10::DeviceType NativeDeviceType = c10::DeviceType::PrivateUse1;

}  // namespace at_npu::key
