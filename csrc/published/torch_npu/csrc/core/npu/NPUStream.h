// Part of the published torch_npu's C++ names: docs/cpp_extension.md.
#pragma once

#include <functional>

#include <c10/core/Stream.h>

#include "torch_npu/csrc/aten/NPUNativeFunctions.h"
#include "torch_npu/csrc/core/npu/NPUException.h"
#include "torch_npu/csrc/core/npu/NPUFunctions.h"
#include "torch_npu/csrc/core/npu/NPUMacros.h"
#include "torch_npu/csrc/core/npu/npu_log.h"

namespace c10_npu {

// A stream of the NPU. Work reaches it when an operator is called, so `stream(false)` and `stream()` are the same.
class NPUStream {
 public:
  explicit NPUStream(c10::Stream stream) : stream_(stream) {}

  bool operator==(const NPUStream& other) const noexcept { return stream_ == other.stream_; }
  bool operator!=(const NPUStream& other) const noexcept { return stream_ != other.stream_; }
  operator aclrtStream() const { return stream(); }
  operator c10::Stream() const { return stream_; }

  c10::Stream unwrap() const { return stream_; }
  c10::DeviceType device_type() const { return c10::DeviceType::PrivateUse1; }
  c10::DeviceIndex device_index() const { return stream_.device_index(); }
  c10::Device device() const { return stream_.device(); }
  c10::StreamId id() const { return stream_.id(); }
  c10::StreamData3 pack3() const { return stream_.pack3(); }
  static NPUStream unpack3(c10::StreamId id, c10::DeviceIndex device, c10::DeviceType type) {
    return NPUStream(c10::Stream::unpack3(id, device, type));
  }

  bool query() const { return stream_.query(); }
  void synchronize() const { stream_.synchronize(); }

  aclrtStream stream() const {
    const auto impl = guard_impl();
    const c10::Device device = impl.exchangeDevice(stream_.device());
    const c10::Stream previous = impl.exchangeStream(stream_);
    torch_npu::core::bind_thread();
    const aclrtStream raw = torch_npu::core::first_use_of_current_stream();
    impl.exchangeStream(previous);
    impl.exchangeDevice(device);
    return raw;
  }
  aclrtStream stream(bool need_empty) const { return stream(); }

 private:
  c10::Stream stream_;
};

namespace detail {

inline c10::Device device_or_current(c10::DeviceIndex index) {
  return index < 0 ? guard_impl().getDevice() : c10::Device(c10::DeviceType::PrivateUse1, index);
}

}  // namespace detail

inline NPUStream getCurrentNPUStream(c10::DeviceIndex device = -1) {
  return NPUStream(guard_impl().getStream(detail::device_or_current(device)));
}
inline NPUStream getDefaultNPUStream(c10::DeviceIndex device = -1) {
  return NPUStream(guard_impl().getDefaultStream(detail::device_or_current(device)));
}
inline NPUStream getNPUStreamFromPool(c10::DeviceIndex device = -1) {
  return NPUStream(guard_impl().getStreamFromGlobalPool(detail::device_or_current(device), false));
}
inline void setCurrentNPUStream(NPUStream stream) { guard_impl().exchangeStream(stream.unwrap()); }

}  // namespace c10_npu

template <>
struct std::hash<c10_npu::NPUStream> {
  size_t operator()(c10_npu::NPUStream stream) const noexcept { return std::hash<c10::Stream>{}(stream.unwrap()); }
};
