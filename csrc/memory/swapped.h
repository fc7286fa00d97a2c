// Host memory that a device uses where it is, for tensors that shall take no room on the device.
#pragma once

#include <c10/core/Allocator.h>

namespace torch_npu::memory {

// Pinned memory of the host, at the address that it has for `device`. Throws c10::Error when CANN has none, or cannot map it.
C10_EXPORT c10::DataPtr swapped_memory(size_t bytes, c10::DeviceIndex device);

}  // namespace torch_npu::memory
