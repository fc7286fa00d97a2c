// A device in a few maps: it hands out addresses nobody may touch, has a capacity, and its streams
// run when the test says so.
#pragma once

#include <map>
#include <mutex>
#include <stdexcept>

#include "memory/device_api.h"

struct FakeDevice final : torch_npu::memory::DeviceApi {
  explicit FakeDevice(size_t capacity) : capacity(capacity) {}

  void* allocate(c10::DeviceIndex, size_t bytes) override {
    std::lock_guard<std::mutex> guard(mutex);
    ++allocations;
    if (used + bytes > capacity) return nullptr;
    used += bytes;
    // Segments may be neighbours in the address space, yet must never merge.
    void* ptr = reinterpret_cast<void*>(next);
    next += bytes;
    live[ptr] = bytes;
    return ptr;
  }
  void free(c10::DeviceIndex, void* ptr, size_t bytes) noexcept override {
    std::lock_guard<std::mutex> guard(mutex);
    auto found = live.find(ptr);
    if (found == live.end() || found->second != bytes) {
      ++errors;
      return;
    }
    used -= bytes;
    live.erase(found);
  }
  std::pair<size_t, size_t> memory_info(c10::DeviceIndex) override {
    std::lock_guard<std::mutex> guard(mutex);
    return {capacity - used, capacity};
  }
  void quiesce(c10::DeviceIndex) noexcept override {
    std::lock_guard<std::mutex> guard(mutex);
    ++quiesces;
  }

  struct FakeEvent {
    std::pair<int, c10::StreamId> stream{};
    uint64_t position = 0;
  };
  Event create_event(c10::DeviceIndex) override {
    std::lock_guard<std::mutex> guard(mutex);
    ++events;
    return new FakeEvent();
  }
  void destroy_event(c10::DeviceIndex, Event event) noexcept override {
    std::lock_guard<std::mutex> guard(mutex);
    --events;
    delete static_cast<FakeEvent*>(event);
  }
  void record_event(Event event, c10::Stream stream) override {
    std::lock_guard<std::mutex> guard(mutex);
    if (broken_stream == stream.id()) throw std::runtime_error("stream failed");
    const std::pair<int, c10::StreamId> key{stream.device_index(), stream.id()};
    *static_cast<FakeEvent*>(event) = {key, ++submitted[key]};
  }
  bool query_event(c10::DeviceIndex, Event event) override {
    std::lock_guard<std::mutex> guard(mutex);
    const auto& fake = *static_cast<FakeEvent*>(event);
    return executed[fake.stream] >= fake.position;
  }
  void synchronize_event(c10::DeviceIndex, Event event) override {
    std::lock_guard<std::mutex> guard(mutex);
    auto& fake = *static_cast<FakeEvent*>(event);
    executed[fake.stream] = std::max(executed[fake.stream], fake.position);
  }
  // The stream runs all it was given.
  void run(c10::StreamId stream, int device = 0) {
    std::lock_guard<std::mutex> guard(mutex);
    executed[{device, stream}] = submitted[{device, stream}];
  }

  void* reserve(c10::DeviceIndex, size_t bytes) override {
    std::lock_guard<std::mutex> guard(mutex);
    ++reservations;
    void* base = reinterpret_cast<void*>(next);
    next += bytes;
    return base;
  }
  void release(c10::DeviceIndex, void*, size_t) noexcept override {
    std::lock_guard<std::mutex> guard(mutex);
    --reservations;
  }
  Mapping map(c10::DeviceIndex, void* ptr, size_t bytes) override {
    std::lock_guard<std::mutex> guard(mutex);
    if (used + bytes > capacity) return nullptr;
    if (!live.emplace(ptr, bytes).second) ++errors;
    used += bytes;
    return ptr;
  }
  void unmap(c10::DeviceIndex, void* ptr, size_t bytes, Mapping mapping) noexcept override {
    std::lock_guard<std::mutex> guard(mutex);
    if (mapping != ptr || live.erase(ptr) != 1) ++errors;
    used -= bytes;
  }

  std::mutex mutex;
  const size_t capacity;
  size_t used = 0, next = size_t{1} << 40;
  int allocations = 0, events = 0, reservations = 0, quiesces = 0, errors = 0;
  c10::StreamId broken_stream = -1;
  std::map<void*, size_t> live;
  std::map<std::pair<int, c10::StreamId>, uint64_t> submitted, executed;
};
