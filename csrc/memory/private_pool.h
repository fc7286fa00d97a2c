// Private pools: memory that only the allocations routed to it share (graphs, torch.npu.MemPool).
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "memory/history.h"
#include "memory/pool.h"

namespace torch_npu::memory {

// Memory of another allocator, as torch.npu.NPUPluggableAllocator gives it.
class RawAllocator {
 public:
  virtual ~RawAllocator() = default;
  // Null when there is no room.
  virtual void* allocate(size_t bytes, c10::DeviceIndex device, c10::Stream stream) = 0;
  virtual void free(void* ptr, size_t bytes, c10::DeviceIndex device, c10::Stream stream) noexcept = 0;
};

struct PoolOptions {
  std::shared_ptr<RawAllocator> allocator;  // null: the device's
  bool use_on_oom = false;                  // its free blocks may serve others before out of memory
  bool no_split = false;                    // blocks keep the size of their segment
};

struct PrivatePool {
  MempoolId id{0, 0};
  int uses = 0;  // MemPool objects and routes; at 0 its memory can go back to the device
  size_t segments = 0;
  PoolOptions options;
  std::map<c10::StreamId, std::unique_ptr<StreamPool>> streams;
};

// Sends the allocations that `accepts` says yes to into a pool. Called without the heap's lock.
struct PoolRoute {
  std::shared_ptr<PrivatePool> pool;
  std::function<bool(c10::Stream)> accepts;
  bool capture = false;
};

}  // namespace torch_npu::memory
