// Who is told of events and waits that reach the device through c10: those of torch.Event, torch.Stream, torch.accelerator and
// autograd. The stream sanitizer is.
#pragma once

#include <atomic>

#include <c10/macros/Export.h>

#include "core/stream.h"

namespace torch_npu::core {

// Called after what it tells of, on any thread, with no lock of the adapter's held. An event is known by its address.
class SyncListener {
 public:
  virtual ~SyncListener() = default;
  virtual void event_recorded(const void* event, Stream stream) = 0;
  virtual void stream_waits(const void* event, Stream stream) = 0;
  virtual void host_waits_event(const void* event) = 0;
  virtual void host_waits_stream(Stream stream) = 0;
  virtual void host_waits_device(c10::DeviceIndex device) = 0;
};

// Null in ordinary runs. Never destroyed once it was set: a thread may be in it.
C10_EXPORT extern std::atomic<SyncListener*> sync_listener;

template <class Tell>
void tell_sync(const Tell& tell) {
  if (auto* listener = sync_listener.load(std::memory_order_acquire); C10_UNLIKELY(listener != nullptr)) tell(*listener);
}

}  // namespace torch_npu::core
