#include "aten/kernel.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>

namespace torch_npu::native {

void throw_devices_differ(const char* op, c10::Device first, c10::Device other, const char* name) {
  TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ", first, " and ", other,
              "! (when checking argument ", name, " of aten::", op, ")");
}

void check_inplace(const at::Tensor& self, at::IntArrayRef sizes, const at::TensorOptions& options) {
  at::assert_no_internal_overlap(self);
  TORCH_CHECK(options.dtype() == self.dtype(), "Bad in-place call: input tensor dtype ", self.dtype(),
              " and output tensor dtype ", options.dtype(), " should match");
  TORCH_CHECK(options.device() == self.device(), "Bad in-place call: input tensor device ", self.device(),
              " and output tensor device ", options.device(), " should match");
  TORCH_CHECK(sizes == self.sizes(), "Bad in-place call: input tensor size ", self.sizes(), " and output tensor size ", sizes,
              " should match");
}

void prepare_out(const at::Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) {
  TORCH_CHECK(options.dtype() == out.dtype(), "Expected out tensor to have dtype ", options.dtype(), ", but got ", out.dtype(),
              " instead");
  TORCH_CHECK(options.device() == out.device(), "Expected out tensor to have device ", options.device(), ", but got ",
              out.device(), " instead");
  if (C10_LIKELY(sizes == out.sizes())) return at::assert_no_internal_overlap(out);
  // Only a tensor that had to be resized takes the layout torch proposes.
  at::native::resize_output(out, sizes);
  if (!strides.empty()) {
    out.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  } else if (const auto format = options.memory_format_opt()) {
    out.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  }
}

at::Scalar host_scalar(const at::Tensor& tensor) {
  const void* data = tensor.const_data_ptr();
  switch (tensor.scalar_type()) {  // the kinds Python numbers become; anything else is rare
    case at::kDouble:
      return *static_cast<const double*>(data);
    case at::kLong:
      return *static_cast<const int64_t*>(data);
    case at::kBool:
      return *static_cast<const bool*>(data);
    case at::kFloat:
      return *static_cast<const float*>(data);
    default:
      return tensor.item();
  }
}

}  // namespace torch_npu::native
