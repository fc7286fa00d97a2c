// The loops of allocator.py that Python is too slow for: nanoseconds of a DataPtr's life, against malloc.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include <c10/core/Allocator.h>

namespace {

// Best of many short bursts: on a shared machine a long loop measures its neighbours.
template <class Cycle>
double best_nanoseconds(int bursts, int cycles, Cycle cycle) {
  double best = 1e300;
  for (int burst = 0; burst < bursts; ++burst) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < cycles; ++i) cycle();
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
    best = std::min(best, taken.count() / cycles);
  }
  return best;
}

}  // namespace

extern "C" {

double npu_cycle(size_t bytes, int bursts, int cycles) {
  auto* allocator = c10::GetAllocator(c10::DeviceType::PrivateUse1);
  return best_nanoseconds(bursts, cycles, [&] {
    auto data = allocator->allocate(bytes);
    asm volatile("" ::"r"(&data) : "memory");
  });
}

double cpu_cycle(size_t bytes, int bursts, int cycles) {
  auto* allocator = c10::GetAllocator(c10::DeviceType::CPU);
  return best_nanoseconds(bursts, cycles, [&] {
    auto data = allocator->allocate(bytes);
    asm volatile("" ::"r"(&data) : "memory");
  });
}

double malloc_cycle(size_t bytes, int bursts, int cycles) {
  return best_nanoseconds(bursts, cycles, [&] {
    void* data = std::malloc(bytes);
    asm volatile("" ::"r"(data) : "memory");
    std::free(data);
  });
}

double malloc_touch_cycle(size_t bytes, int bursts, int cycles) {
  return best_nanoseconds(bursts, cycles, [&] {
    void* data = std::malloc(bytes);
    std::memset(data, 1, bytes);
    asm volatile("" ::"r"(data) : "memory");
    std::free(data);
  });
}
}
