// Part of the published torch_npu's C++ names: docs/cpp_extension.md.
#pragma once

#include <ATen/ATen.h>

namespace at_npu::native {

C10_EXPORT int64_t get_npu_format(const at::Tensor& self);
C10_EXPORT at::Tensor npu_format_cast(const at::Tensor& self, int64_t acl_format);
// Uninitialized. `keep_format` has no meaning here.
C10_EXPORT at::Tensor empty_with_format(c10::IntArrayRef sizes, const c10::TensorOptions& options, int64_t format,
                                        bool keep_format = false);

}  // namespace at_npu::native
