// Part of the published torch_npu's C++ names: docs/cpp_extension.md.
#pragma once

#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>

#include "torch_npu/csrc/core/npu/NPUStream.h"

namespace c10_npu {

// Makes a device current for a scope.
struct NPUGuard : c10::DeviceGuard {
  explicit NPUGuard(c10::DeviceIndex device) : c10::DeviceGuard(c10::Device(c10::DeviceType::PrivateUse1, device)) {}
  explicit NPUGuard(c10::Device device) : c10::DeviceGuard(device) {}
};

struct OptionalNPUGuard : c10::OptionalDeviceGuard {
  OptionalNPUGuard() = default;
  explicit OptionalNPUGuard(std::optional<c10::Device> device) : c10::OptionalDeviceGuard(device) {}
  explicit OptionalNPUGuard(c10::DeviceIndex device)
      : c10::OptionalDeviceGuard(c10::Device(c10::DeviceType::PrivateUse1, device)) {}
};

// Makes a stream, and its device, current for a scope.
struct NPUStreamGuard : c10::StreamGuard {
  explicit NPUStreamGuard(c10::Stream stream) : c10::StreamGuard(stream) {}
};

}  // namespace c10_npu
