// torch.npu.set_sync_debug_mode: finds the places where the host waits for the device.
#pragma once

#include "core/options.h"

namespace torch_npu::core {

[[gnu::cold]] C10_EXPORT void report_host_wait();

// To be called where an operation the user wrote makes the host wait; warns or throws if the user asked for it.
inline void warn_or_error_on_sync() {
  if (options().sync_debug_mode != 0) report_host_wait();
}

}  // namespace torch_npu::core
