// Part of the published torch_npu's C++ names: docs/cpp_extension.md.
#pragma once

#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace c10_npu::impl {

// The device and the stream of this thread, for c10::impl::InlineDeviceGuard.
struct C10_EXPORT NPUGuardImpl final : c10::impl::DeviceGuardImplInterface {
  static constexpr c10::DeviceType static_type = c10::DeviceType::PrivateUse1;

  NPUGuardImpl() = default;
  explicit NPUGuardImpl(c10::DeviceType type);

  c10::DeviceType type() const override;
  c10::Device exchangeDevice(c10::Device device) const override;
  c10::Device getDevice() const override;
  void setDevice(c10::Device device) const override;
  void uncheckedSetDevice(c10::Device device) const noexcept override;
  c10::Stream getStream(c10::Device device) const override;
  c10::Stream getDefaultStream(c10::Device device) const override;
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority = false) const override;
  c10::Stream exchangeStream(c10::Stream stream) const override;
  c10::DeviceIndex deviceCount() const noexcept override;
};

}  // namespace c10_npu::impl
