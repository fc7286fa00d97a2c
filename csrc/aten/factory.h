// Making tensors on the NPU without going through the dispatcher.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

namespace torch_npu::native {

// An uninitialised tensor on the current device. Empty `strides` means contiguous in the options' memory
// format. What structured kernels make their results with.
at::Tensor create_out(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options);

at::Tensor empty_on(c10::DeviceIndex device, at::IntArrayRef sizes, at::ScalarType dtype,
                    std::optional<at::MemoryFormat> memory_format = std::nullopt);

// Uninitialised, on `self`'s device: contiguous, with `sizes` and `self`'s dtype unless given.
at::Tensor empty_like_with(const at::Tensor& self, at::IntArrayRef sizes, std::optional<at::ScalarType> dtype = std::nullopt,
                           std::optional<at::MemoryFormat> memory_format = std::nullopt);

// As torch.empty_like: in `self`'s order of memory, without its gaps.
at::Tensor empty_dense_like(const at::Tensor& self);

}  // namespace torch_npu::native
