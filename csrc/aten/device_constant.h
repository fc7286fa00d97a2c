// Tensors of constants that are made once for each device.
#pragma once

#include <array>
#include <atomic>
#include <mutex>

#include <ATen/core/Tensor.h>

#include "core/capture.h"
#include "core/device.h"
#include "core/error.h"
#include "core/stream.h"

namespace torch_npu::native {

// Used on any stream from then on, so the stream that makes the constant is awaited. Kept until the process ends, when the
// device may go first. While its stream is being captured nothing can be awaited and memory belongs to the graph, so that a
// constant that does not exist yet is made for that call alone.
class DeviceConstant {
 public:
  template <class Make>
  at::Tensor of(c10::DeviceIndex device, Make&& make) {
    auto& entry = entries_->at(static_cast<size_t>(device));
    if (C10_LIKELY(entry.made.load(std::memory_order_acquire))) return entry.value;
    if (core::any_capture() && core::is_capturing(core::current_stream())) return make();
    const std::lock_guard<std::mutex> lock(entry.making);
    if (!entry.made.load(std::memory_order_relaxed)) {
      entry.value = make();
      NPU_CHECK(acl::aclrtSynchronizeStream(core::current_raw_stream()));
      entry.made.store(true, std::memory_order_release);
    }
    return entry.value;
  }

 private:
  struct Entry {
    std::atomic<bool> made{false};
    std::mutex making;
    at::Tensor value;
  };
  std::array<Entry, core::kMaxDevices>* entries_ = new std::array<Entry, core::kMaxDevices>();  // never destroyed
};

}  // namespace torch_npu::native
