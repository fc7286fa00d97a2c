// What each host thread knows: its current device and its current stream on every device.
//
// The hot path reads these two and nothing else, so they sit together in one small thread-local
// block with the fast TLS model (the library is loaded with the process's other libraries and the
// block is small enough for the loader's static reserve).
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include "acl/runtime.h"

namespace torch_npu::core {

constexpr int kMaxDevices = 16;

struct CurrentStream {
  c10::StreamId id = 0;
  aclrtStream raw = nullptr;  // null until first used on this thread
};

struct ThreadState {
  c10::DeviceIndex device = 0;  // the current device
  c10::DeviceIndex bound = -1;  // the device this thread is bound to in CANN; -1: none yet
  CurrentStream streams[kMaxDevices];
};

C10_EXPORT extern thread_local constinit ThreadState thread_state __attribute__((tls_model("initial-exec")));

}  // namespace torch_npu::core
