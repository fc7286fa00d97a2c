// Part of the published torch_npu's C++ names: docs/cpp_extension.md.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "acl/acl.h"

// Of core/device.h and core/stream.h, which include each other from another folder than extensions for the published torch_npu
// name.
namespace torch_npu::core {

C10_EXPORT void bind_thread();
C10_EXPORT c10::DeviceIndex device_count() noexcept;
C10_EXPORT c10::DeviceIndex exchange_device(c10::DeviceIndex index);
C10_EXPORT void synchronize_device(c10::DeviceIndex index);
C10_EXPORT aclrtStream first_use_of_current_stream();

}  // namespace torch_npu::core

namespace c10_npu {

inline c10::impl::VirtualGuardImpl guard_impl() { return c10::impl::VirtualGuardImpl(c10::DeviceType::PrivateUse1); }

inline c10::DeviceIndex device_count() noexcept { return torch_npu::core::device_count(); }
inline c10::DeviceIndex current_device() { return guard_impl().getDevice().index(); }
inline void set_device(c10::DeviceIndex device) { torch_npu::core::exchange_device(device); }
inline int ExchangeDevice(int device) { return torch_npu::core::exchange_device(static_cast<c10::DeviceIndex>(device)); }
inline void device_synchronize() { torch_npu::core::synchronize_device(-1); }
inline void npuSynchronizeDevice(bool check_error = true) { torch_npu::core::synchronize_device(-1); }

// These two return 0; what goes wrong is a c10::Error.
inline aclError GetDevice(int32_t* device) {
  *device = current_device();
  return ACL_SUCCESS;
}
inline aclError SetDevice(c10::DeviceIndex device) {
  torch_npu::core::exchange_device(device);
  return ACL_SUCCESS;
}

}  // namespace c10_npu
