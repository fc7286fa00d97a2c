// Part of the published torch_npu's C++ names: docs/cpp_extension.md.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include "torch_npu/csrc/core/npu/NPUStream.h"

// Memory of the current device, out of the caching allocator. Its statistics are those of c10::CachingDeviceAllocator. Replacing
// the allocator, its traces and its segments are torch.npu.memory's, in Python.
namespace c10_npu::NPUCachingAllocator {

inline c10::Allocator* get() { return c10::GetAllocator(c10::DeviceType::PrivateUse1); }

namespace detail {

inline c10::DeviceAllocator& device_allocator() { return *c10::getDeviceAllocator(c10::DeviceType::PrivateUse1); }

}  // namespace detail

inline void emptyCache(bool check_error = true) { detail::device_allocator().emptyCache(); }
// The memory is not used again before the work that `stream` has now is done.
inline void recordStream(const c10::DataPtr& data, NPUStream stream) {
  detail::device_allocator().recordStream(data, stream.unwrap());
}
inline c10::CachingDeviceAllocator::DeviceStats getDeviceStats(int device) {
  return detail::device_allocator().getDeviceStats(static_cast<c10::DeviceIndex>(device));
}
inline void resetAccumulatedStats(int device) {
  detail::device_allocator().resetAccumulatedStats(static_cast<c10::DeviceIndex>(device));
}
inline void resetPeakStats(int device) { detail::device_allocator().resetPeakStats(static_cast<c10::DeviceIndex>(device)); }

}  // namespace c10_npu::NPUCachingAllocator
