// The device of the arguments, made current around kernels of torch that are registered as they stand: what they allocate lies
// there.
#pragma once

#include <optional>
#include <utility>

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>

namespace torch_npu::native::layouts {

template <class Other>
void note_device(std::optional<at::Device>&, const Other&) {}
inline void note_device(std::optional<at::Device>& found, const at::Tensor& tensor) {
  if (!found && tensor.defined()) found = tensor.device();
}
inline void note_device(std::optional<at::Device>& found, const std::optional<at::Tensor>& tensor) {
  if (tensor) note_device(found, *tensor);
}
inline void note_device(std::optional<at::Device>& found, const std::optional<at::Device>& asked) {
  if (!found) found = asked;
}

template <auto kernel>
struct Guarded;
template <class Result, class... Arguments, Result (*kernel)(Arguments...)>
struct Guarded<kernel> {
  static Result call(Arguments... arguments) {
    std::optional<at::Device> device;
    (note_device(device, arguments), ...);
    const c10::OptionalDeviceGuard guard(device);
    return kernel(std::forward<Arguments>(arguments)...);
  }
};

}  // namespace torch_npu::native::layouts
