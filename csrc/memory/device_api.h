// What the allocator asks of a device, and nothing more; tests put a fake in its place.
//
// None of these is called under the heap's lock (Note [Lock order of the memory layer]).
#pragma once

#include <cstddef>
#include <functional>
#include <thread>
#include <utility>

#include <c10/core/Stream.h>

namespace torch_npu::memory {

class DeviceApi {
 public:
  using Event = void*;
  using Mapping = void*;  // a piece of physical memory
  virtual ~DeviceApi() = default;

  // Null when the device has no room; throws on any other failure.
  virtual void* allocate(c10::DeviceIndex device, size_t bytes) = 0;
  virtual void free(c10::DeviceIndex device, void* ptr, size_t bytes) noexcept = 0;
  // {free, total} bytes.
  virtual std::pair<size_t, size_t> memory_info(c10::DeviceIndex device) = 0;
  // Waits until no running work can touch memory that is about to go back; a failed stream is no
  // reason to stop, as its error is kept for the program's own synchronisation.
  virtual void quiesce(c10::DeviceIndex device) noexcept = 0;

  // Waits for other threads, of which each may want what this one holds (the GIL) to get on.
  virtual void wait_until(const std::function<bool()>& reached) {
    while (!reached()) std::this_thread::yield();
  }

  virtual Event create_event(c10::DeviceIndex device) = 0;
  virtual void destroy_event(c10::DeviceIndex device, Event event) noexcept = 0;
  virtual void record_event(Event event, c10::Stream stream) = 0;
  virtual bool query_event(c10::DeviceIndex device, Event event) = 0;
  virtual void synchronize_event(c10::DeviceIndex device, Event event) = 0;

  // Address space without memory, and memory put behind parts of it. `bytes` are multiples of the
  // segment size, which the allocator keeps a multiple of every device's granularity (2 MiB).
  virtual void* reserve(c10::DeviceIndex device, size_t bytes) = 0;
  virtual void release(c10::DeviceIndex device, void* base, size_t bytes) noexcept = 0;
  virtual Mapping map(c10::DeviceIndex device, void* ptr, size_t bytes) = 0;  // null: no room
  virtual void unmap(c10::DeviceIndex device, void* ptr, size_t bytes, Mapping mapping) noexcept = 0;
};

// The device behind CANN.
DeviceApi& cann_device_api();

}  // namespace torch_npu::memory
