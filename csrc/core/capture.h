// Streams that are being captured into a graph: whether one is, and what is allowed meanwhile.
#pragma once

#include <atomic>

#include "acl/acl.h"
#include "core/stream.h"

namespace torch_npu::core {

// Captures of this process that have begun and not ended. Without any, nobody has to ask CANN.
C10_EXPORT extern std::atomic<int> captures_under_way;
inline bool any_capture() { return C10_UNLIKELY(captures_under_way.load(std::memory_order_relaxed) != 0); }

// The graph that the stream is being captured into, or null.
C10_EXPORT aclmdlRI captured_into(const Stream& stream);
// A number that no other capture of this process has; 0 where the stream is not being captured.
C10_EXPORT uint64_t capture_number_of(const Stream& stream);
inline uint64_t capture_number(const Stream& stream) { return any_capture() ? capture_number_of(stream) : 0; }
inline bool is_capturing(const Stream& stream) { return any_capture() && captured_into(stream) != nullptr; }

// Throws if the current stream is being captured, since `what` cannot be.
inline void refuse_in_capture(const char* what) {
  if (any_capture()) {
    TORCH_CHECK(!is_capturing(current_stream()), what, " cannot be captured into a graph");
  }
}

// While it lives this thread may make calls that a capture forbids, such as taking memory from the device.
class C10_EXPORT RelaxedCapture {
 public:
  RelaxedCapture();
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  aclmdlRICaptureMode before_ = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
  bool changed_ = false;
};

}  // namespace torch_npu::core
