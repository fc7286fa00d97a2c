// Part of the published torch_npu's C++ names: docs/cpp_extension.md. Each calls the operator of its name.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace at_npu::native {

namespace detail {

inline c10::OperatorHandle operator_named(const char* name) { return c10::Dispatcher::singleton().findSchemaOrThrow(name, ""); }

}  // namespace detail

inline int64_t get_npu_format(const at::Tensor& self) {
  static const auto op = detail::operator_named("npu::get_npu_format").typed<int64_t(const at::Tensor&)>();
  return op.call(self);
}

inline at::Tensor npu_format_cast(const at::Tensor& self, int64_t acl_format) {
  static const auto op = detail::operator_named("npu::npu_format_cast")
                             .typed<at::Tensor(const at::Tensor&, int64_t, std::optional<int64_t>, std::optional<int64_t>)>();
  return op.call(self, acl_format, std::nullopt, std::nullopt);
}

}  // namespace at_npu::native
