// Pinned host memory: PyTorch's caching host allocator over CANN's page-locked memory.
#pragma once

#include <ATen/core/CachingHostAllocator.h>

#include "core/stream.h"
#include "memory/stats.h"

namespace torch_npu::memory {

C10_EXPORT at::HostAllocator* pinned_allocator();
// True for an address in page-locked memory that CANN knows.
C10_EXPORT bool is_pinned(const void* data);
// Keeps pinned memory from being reused until the copies now on `stream` are done with it.
C10_EXPORT void record_pinned(const c10::DataPtr& data, core::Stream stream);

// PyTorch's statistics of pinned memory, under the names its newest version uses.
struct HostStatistics {
  struct Row {
    const char* name;
    Figures figures;
  };
  struct Duration {
    const char* name;
    int64_t total, max, min, count;  // microseconds
  };
  std::array<Row, 4> rows;
  std::array<Duration, 2> durations;
  int64_t num_host_alloc, num_host_free;
};
C10_EXPORT HostStatistics host_statistics();

}  // namespace torch_npu::memory
