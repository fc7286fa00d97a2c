// Streams of the NPU behind c10::Stream.
//
// Note [Stream ids]
// c10 carries a stream as a 64-bit id. Ours are
//   0                         the default stream of the device
//   index << 3 | high << 1 | 1   one of the 32 pooled streams of a priority (high: 0 or 1)
//   an address, low bits 000  a stream somebody else created (ExternalStream); never owned
// so an id tells its kind without a table, and pooled streams are made when first asked for.
#pragma once

#include <c10/core/Stream.h>

#include "core/device.h"

namespace torch_npu::core {

class C10_EXPORT Stream {
 public:
  explicit Stream(c10::Stream stream) : stream_(stream) {}

  aclrtStream raw() const;
  c10::StreamId id() const { return stream_.id(); }
  c10::DeviceIndex device_index() const { return stream_.device_index(); }
  c10::Stream unwrap() const { return stream_; }
  int priority() const;

  // True when everything submitted so far has run. Throws the stream's error if it has one.
  bool query() const;
  // Waits for everything submitted so far; the GIL must not be held. Throws the stream's error.
  void synchronize() const;

  bool operator==(const Stream& other) const { return stream_ == other.stream_; }
  bool operator!=(const Stream& other) const { return !(*this == other); }

 private:
  c10::Stream stream_;
};

// -1 stands for the current device.
C10_EXPORT Stream default_stream(c10::DeviceIndex device = -1);
C10_EXPORT Stream current_stream(c10::DeviceIndex device = -1);
C10_EXPORT Stream stream_from_pool(bool high_priority = false, c10::DeviceIndex device = -1);
// A stream made elsewhere with aclrtCreateStream*; it must outlive its use here.
C10_EXPORT Stream external_stream(aclrtStream raw, c10::DeviceIndex device = -1);
// Makes `stream` current on its device for this thread; returns the one that was.
C10_EXPORT Stream exchange_stream(Stream stream);

C10_EXPORT aclrtStream first_use_of_current_stream();

// The current device's current stream, ready for CANN: two thread-local reads when warm.
inline aclrtStream current_raw_stream() {
  ensure_bound();
  if (aclrtStream raw = thread_state.streams[thread_state.device].raw; C10_LIKELY(raw != nullptr)) return raw;
  return first_use_of_current_stream();
}

}  // namespace torch_npu::core
