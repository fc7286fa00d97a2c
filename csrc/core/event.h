// Events of the NPU, made when first recorded.
#pragma once

#include <memory>
#include <utility>

#include "core/stream.h"

namespace torch_npu::core {

// Nothing in a forked child, or where there is none.
void destroy_event(aclrtEvent raw, c10::DeviceIndex device) noexcept;

class C10_EXPORT Event {
 public:
  // `timing`: the event keeps the time at which it was reached.
  explicit Event(bool timing = false, bool interprocess = false) : timing_(timing), interprocess_(interprocess) {}
  ~Event();
  Event(Event&& other) noexcept { swap(other); }
  Event& operator=(Event&& other) noexcept {
    swap(other);
    return *this;
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  // Opens an event another process exported.
  static Event from_ipc(c10::DeviceIndex device, const aclrtIpcEventHandle& handle);
  aclrtIpcEventHandle ipc_handle();

  // Reached when everything submitted to `stream` before has run. Throws if the event belongs to
  // another device.
  void record(const Stream& stream);
  // Makes later work of `stream` wait for the last record; nothing if never recorded.
  void block(const Stream& stream) const;
  // True if never recorded, or reached.
  bool query() const;
  void synchronize() const;
  // Milliseconds from this event to `end`; both need timing and must have been reached.
  double elapsed_time(const Event& end) const;
  // Microseconds of the device's clock at which the event was reached; needs timing, and to have been reached.
  uint64_t recorded_time() const;
  // Takes the last record back when `stream` comes to this point.
  void reset(const Stream& stream) const;

  bool created() const { return raw_ != nullptr; }
  bool recorded() const { return recorded_; }
  c10::DeviceIndex device_index() const { return device_; }
  aclrtEvent raw() const { return raw_; }

 private:
  void create(c10::DeviceIndex device);
  void swap(Event& other) noexcept;

  aclrtEvent raw_ = nullptr;
  c10::DeviceIndex device_ = -1;
  bool recorded_ = false;
  bool timing_ = false;
  bool interprocess_ = false;
};

// While it lives, the first record of a torch.Event on this thread takes `event` instead of making one:
// the way to put an interprocess event, for which c10 has no flag, behind a torch.Event.
class C10_EXPORT AdoptedEvent {
 public:
  explicit AdoptedEvent(std::unique_ptr<Event> event);
  ~AdoptedEvent();
  AdoptedEvent(const AdoptedEvent&) = delete;
  AdoptedEvent& operator=(const AdoptedEvent&) = delete;
  // The event to adopt, or null.
  static std::unique_ptr<Event> take() noexcept;
};

}  // namespace torch_npu::core
