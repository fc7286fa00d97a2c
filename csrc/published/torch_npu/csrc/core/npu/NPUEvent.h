// Part of the published torch_npu's C++ names: docs/cpp_extension.md.
#pragma once

#include <c10/core/Event.h>

#include "torch_npu/csrc/core/npu/NPUStream.h"

namespace c10_npu {

// An event of the NPU: made on the device of the first stream that records it. It can be moved, not copied.
class NPUEvent {
 public:
  NPUEvent() : NPUEvent(ACL_EVENT_SYNC) {}
  // Without ACL_EVENT_TIME_LINE elapsed_time() is an error.
  explicit NPUEvent(unsigned int flags)
      : event_(c10::DeviceType::PrivateUse1,
               (flags & ACL_EVENT_TIME_LINE) != 0 ? c10::EventFlag::BACKEND_DEFAULT : c10::EventFlag::PYTORCH_DEFAULT) {}

  bool isCreated() const { return event_.was_marked_for_recording(); }
  c10::DeviceIndex device_index() const { return event_.device_index(); }
  c10::Device device() const { return event_.device(); }

  bool query() const { return event_.query(); }
  void record() { record(getCurrentNPUStream()); }
  void record(const NPUStream& stream) { event_.record(stream.unwrap()); }
  void recordOnce(const NPUStream& stream) {
    if (!isCreated()) record(stream);
  }
  // Makes `stream` wait for what the event was recorded behind.
  void block(const NPUStream& stream) const { event_.block(stream.unwrap()); }
  // Milliseconds.
  float elapsed_time(const NPUEvent& other) const { return static_cast<float>(event_.elapsedTime(other.event_)); }
  void synchronize() const { event_.synchronize(); }

 private:
  c10::Event event_;
};

}  // namespace c10_npu
