// Part of the published torch_npu's C++ names: docs/cpp_extension.md.
#pragma once

#include <c10/core/Device.h>

#include "acl/acl.h"

namespace c10_npu {

C10_EXPORT c10::DeviceIndex device_count() noexcept;
C10_EXPORT c10::DeviceIndex current_device();
C10_EXPORT void set_device(c10::DeviceIndex device);
C10_EXPORT int ExchangeDevice(int device);
C10_EXPORT void device_synchronize();
C10_EXPORT bool npuSynchronizeDevice(bool check_error = true);

// These two return 0; what goes wrong is a c10::Error.
C10_EXPORT aclError GetDevice(int32_t* device);
C10_EXPORT aclError SetDevice(c10::DeviceIndex device);

}  // namespace c10_npu
