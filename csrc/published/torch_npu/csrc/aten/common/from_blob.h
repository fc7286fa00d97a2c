// Part of the published torch_npu's C++ names: docs/cpp_extension.md.
#pragma once

#include <functional>
#include <optional>

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <c10/util/strides.h>

#include <torch_npu/memory/storage.h>

namespace at_npu::native {

using Deleter = std::function<void(void*)>;

// Memory of the device as a tensor, without a copy; `deleter` is called with it when the tensor goes. `options` give the dtype
// (float32 without); strides count elements, as the offset of the tensor's first one does; without them the tensor is contiguous.
// The device is the memory's where none is named.
inline at::Tensor from_blob(void* data, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t storage_offset,
                            const Deleter& deleter, const c10::TensorOptions& options = {},
                            const std::optional<c10::Device> device = std::nullopt) {
  const auto where = device ? *device : at::globalContext().getDeviceFromPtr(data, at::kPrivateUse1);
  auto memory = deleter ? c10::InefficientStdFunctionContext::makeDataPtr(data, deleter, where) : c10::DataPtr(data, where);
  return torch_npu::memory::make_tensor(std::move(memory), sizes, strides, c10::typeMetaToScalarType(options.dtype()),
                                        storage_offset);
}
inline at::Tensor from_blob(void* data, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t storage_offset,
                            const c10::TensorOptions& options = {}, const std::optional<c10::Device> device = std::nullopt) {
  return from_blob(data, sizes, strides, storage_offset, Deleter(), options, device);
}
inline at::Tensor from_blob(void* data, c10::IntArrayRef sizes, c10::IntArrayRef strides, const Deleter& deleter,
                            const c10::TensorOptions& options = {}, const std::optional<c10::Device> device = std::nullopt) {
  return from_blob(data, sizes, strides, 0, deleter, options, device);
}
inline at::Tensor from_blob(void* data, c10::IntArrayRef sizes, c10::IntArrayRef strides, const c10::TensorOptions& options = {},
                            const std::optional<c10::Device> device = std::nullopt) {
  return from_blob(data, sizes, strides, 0, Deleter(), options, device);
}
inline at::Tensor from_blob(void* data, c10::IntArrayRef sizes, const Deleter& deleter, const c10::TensorOptions& options = {},
                            const std::optional<c10::Device> device = std::nullopt) {
  return from_blob(data, sizes, c10::contiguous_strides(sizes), 0, deleter, options, device);
}
inline at::Tensor from_blob(void* data, c10::IntArrayRef sizes, const c10::TensorOptions& options = {},
                            const std::optional<c10::Device> device = std::nullopt) {
  return from_blob(data, sizes, c10::contiguous_strides(sizes), 0, Deleter(), options, device);
}
inline at::Tensor from_blob(void* data, c10::IntArrayRef sizes, const std::optional<c10::Device> device,
                            const c10::TensorOptions& options = {}) {
  return from_blob(data, sizes, c10::contiguous_strides(sizes), 0, Deleter(), options, device);
}

}  // namespace at_npu::native
