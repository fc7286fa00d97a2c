// Part of the published torch_npu's C++ names: docs/cpp_extension.md.
#pragma once

#include <functional>
#include <optional>

#include <ATen/ops/from_blob.h>

namespace at_npu::native {

// Memory of the device as a tensor, without a copy; `deleter` is called with it when the tensor goes. `options` give the dtype
// (float32 without); strides count elements, without them the tensor is contiguous.
inline at::Tensor from_blob(void* data, c10::IntArrayRef sizes, const c10::TensorOptions& options = {},
                            const std::optional<c10::Device> device = std::nullopt) {
  return at::for_blob(data, sizes)
      .options(options.device(device.value_or(at::Device(at::kPrivateUse1))))
      .target_device(device)
      .make_tensor();
}
inline at::Tensor from_blob(void* data, c10::IntArrayRef sizes, c10::IntArrayRef strides, const c10::TensorOptions& options = {},
                            const std::optional<c10::Device> device = std::nullopt) {
  return at::for_blob(data, sizes)
      .strides(strides)
      .options(options.device(device.value_or(at::Device(at::kPrivateUse1))))
      .target_device(device)
      .make_tensor();
}
inline at::Tensor from_blob(void* data, c10::IntArrayRef sizes, const std::function<void(void*)>& deleter,
                            const c10::TensorOptions& options = {}, const std::optional<c10::Device> device = std::nullopt) {
  return at::for_blob(data, sizes)
      .deleter(deleter)
      .options(options.device(device.value_or(at::Device(at::kPrivateUse1))))
      .target_device(device)
      .make_tensor();
}

}  // namespace at_npu::native
