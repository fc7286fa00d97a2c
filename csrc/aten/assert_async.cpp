// Assertions about a tensor's value.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "generated/torch_npu_native_functions.h"

namespace torch_npu::native {

// The host waits to see it: an operator that stops the device has no counterpart in CANN.
void _assert_async(const at::Tensor& self) {
  TORCH_CHECK(self.is_nonzero(), "Expected Tensor with single nonzero value, but got zero");
}
void _assert_async_msg(const at::Tensor& self, std::string_view message) {
  TORCH_CHECK(self.is_nonzero(), message.empty() ? std::string_view("Assertion is failed") : message);
}

at::Tensor _functional_assert_async_msg(const at::Tensor& self, std::string_view message, const at::Tensor& token) {
  native::_assert_async_msg(self, message);
  return token.clone();
}
at::Tensor _make_dep_token(std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                           std::optional<at::Device> device, std::optional<bool> pin_memory,
                           std::optional<at::MemoryFormat> memory_format) {
  return at::empty({}, dtype, layout, device, pin_memory, memory_format);
}

}  // namespace torch_npu::native
