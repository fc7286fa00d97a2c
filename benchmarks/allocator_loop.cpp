// The loops of allocator.py that Python is too slow for: nanoseconds of a DataPtr's life, against malloc.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include <c10/core/Allocator.h>
#include <sys/mman.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

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

// As few instructions a line as the processor has: what the memory takes from one thread.
#ifdef __x86_64__
[[gnu::target("avx512f")]] void write_whole_lines(void* data, size_t bytes) {
  auto* to = static_cast<__m512i*>(data);
  for (size_t i = 0; i < bytes / sizeof *to; ++i) _mm512_stream_si512(to + i, _mm512_set1_epi8(1));
}
void write_past_cache(void* data, size_t bytes) {
  static const bool whole_lines = __builtin_cpu_supports("avx512f");
  auto* to = static_cast<__m128i*>(data);
  if (whole_lines) {
    write_whole_lines(data, bytes);
  } else {
    for (size_t i = 0; i < bytes / sizeof *to; ++i) _mm_stream_si128(to + i, _mm_set1_epi8(1));
  }
  _mm_sfence();
}
#else
void write_past_cache(void* data, size_t bytes) { std::memset(data, 1, bytes); }
#endif

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

// The same bytes written by one thread past the cache into memory that is kept.
double stream_cycle(size_t bytes, int bursts, int cycles) {
  static void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (data == MAP_FAILED) return -1;
  return best_nanoseconds(bursts, cycles, [&] {
    write_past_cache(data, bytes);
    asm volatile("" ::"r"(data) : "memory");
  });
}
}
