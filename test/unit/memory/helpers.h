// Shared by the heap's tests.
#pragma once

#include <stdexcept>

#include "fake_device.h"
#include "harness.h"
#include "memory/heap.h"

using namespace torch_npu::memory;

constexpr size_t kKiB = 1024, kMiB = 1024 * kKiB;

inline c10::Stream stream_on(c10::StreamId id, int device = 0) {
  const c10::Device npu(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(device));
  return c10::Stream(c10::Stream::UNSAFE, npu, id);
}

struct Fixture {
  explicit Fixture(size_t capacity = 1024 * kMiB, const std::string& settings = "")
      : device(capacity), heap(0, device, AllocatorConfig::parse(settings)) {}
  FakeDevice device;
  Heap heap;

  Figures row(const std::string& name, int pool = 0) {
    for (const auto& entry : heap.statistics().rows) {
      if (name == entry.name) return entry.figures[pool];
    }
    throw std::runtime_error("no statistic " + name);
  }
  int64_t now(const std::string& name, int pool = 0) { return row(name, pool).current; }
  int64_t scalar(const std::string& name) {
    for (const auto& entry : heap.statistics().scalars) {
      if (name == entry.name) return entry.value;
    }
    throw std::runtime_error("no statistic " + name);
  }
};
