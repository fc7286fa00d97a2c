// Tensors of constants that are made once for each device.
#pragma once

#include <array>
#include <mutex>

#include <ATen/core/Tensor.h>

#include "core/device.h"
#include "core/error.h"
#include "core/stream.h"

namespace torch_npu::native {

// Used on any stream from then on, so the stream that makes the constant is awaited. Kept until the process ends, when the
// device may go first.
class DeviceConstant {
 public:
  template <class Make>
  const at::Tensor& of(c10::DeviceIndex device, Make&& make) {
    auto& entry = entries_->at(static_cast<size_t>(device));
    std::call_once(entry.once, [&] {
      entry.value = make();
      NPU_CHECK(acl::aclrtSynchronizeStream(core::current_raw_stream()));
    });
    return entry.value;
  }

 private:
  struct Entry {
    std::once_flag once;
    at::Tensor value;
  };
  std::array<Entry, core::kMaxDevices>* entries_ = new std::array<Entry, core::kMaxDevices>();  // never destroyed
};

}  // namespace torch_npu::native
