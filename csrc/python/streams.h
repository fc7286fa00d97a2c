// Python carries a stream as (id, device index), as c10 does.
#pragma once

#include "core/stream.h"

namespace torch_npu::python {

inline core::Stream stream_of(c10::StreamId id, c10::DeviceIndex device) {
  return core::Stream(c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::PrivateUse1, device), id));
}

}  // namespace torch_npu::python
