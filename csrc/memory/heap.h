// The caching allocator of one device.
//
// Note [Stream-ordered reuse]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A block belongs to the stream that was current when it was allocated. Once freed it may be given to
// the next request of that stream at once: whatever still runs there comes before whatever the new owner
// submits. Use on another stream must be told (record_stream); then, when the block is freed, an event
// is recorded on each of those streams and the block is pending until all of them have been reached.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>

#include "memory/allocator_config.h"
#include "memory/block_split.h"
#include "memory/device_api.h"
#include "memory/lock.h"
#include "memory/private_pool.h"

namespace torch_npu::memory {

// Told when an allocation fails for good: device, bytes asked for, the device's total and free bytes.
using OutOfMemoryObserver = std::function<void(c10::DeviceIndex, size_t asked, size_t total, size_t free)>;

class C10_EXPORT Heap {
 public:
  Heap(c10::DeviceIndex device, DeviceApi& api, const AllocatorConfig& config);
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;
  // The tests' heaps end; the program's live as long as the process.
  ~Heap();

  // `bytes` > 0. Throws c10::OutOfMemoryError.
  Block* allocate(size_t bytes, c10::StreamId stream) {
    {
      const SpinGuard lock(lock_);
      if (Block* block = allocate_warm(bytes, stream); C10_LIKELY(block != nullptr)) return block;
    }
    return allocate_long(bytes, stream);
  }
  void free(Block* block) noexcept {
    {
      const SpinGuard lock(lock_);
      if (C10_LIKELY(free_warm(block))) return;
    }
    free_long(block);
  }

  void record_stream(Block* block, c10::Stream stream);
  // For callers that keep only an address.
  void* allocate_raw(size_t bytes, c10::StreamId stream);
  bool free_raw(void* ptr);

  // Gives unused memory back to the device: of one private pool, or ({0, 0}) of the default pool and
  // of the private pools nobody holds any more.
  void empty_cache(MempoolId pool = {0, 0});
  void set_caching(bool enabled);
  void configure(const AllocatorConfig& config);
  void set_memory_fraction(double fraction);
  double memory_fraction() const;
  AllocatorConfig config() const;

  StatsReport statistics();
  size_t allocated_bytes() const;
  size_t reserved_bytes() const;
  // Bytes this pool holds from the device, and of them the free ones.
  std::pair<size_t, size_t> pool_bytes(MempoolId pool);
  void reset_peak_stats();
  void reset_accumulated_stats();
  HeapSnapshot snapshot(std::optional<MempoolId> only = std::nullopt, bool with_trace = true);
  void record_history(const HistorySettings& settings, bool clear);
  void clear_history();
  void add_observer(OutOfMemoryObserver observer);
  struct SegmentRange {
    void* base;
    size_t size;
    bool expandable;
  };
  // The segment that holds `ptr`; nothing if the heap does not own it.
  std::optional<SegmentRange> segment_of(const void* ptr);
  // Frames of the live allocation that starts at `ptr`; null if none is known.
  Context context_of(const void* ptr);

  // Private pools.
  void hold_pool(MempoolId id, const PoolOptions& options);
  void release_pool(MempoolId id);
  int pool_uses(MempoolId id);
  // Sends allocations into the pool until end_route; holds the pool (release_pool gives it up).
  // `capture`: a graph is being recorded, so the device may neither be waited for nor given memory back.
  void begin_route(MempoolId id, std::function<bool(c10::Stream)> accepts, bool capture);
  void end_route(MempoolId id);

  c10::DeviceIndex device() const { return device_; }
  // After fork the child owns a copy of whatever state the lock was in.
  void reset_lock_after_fork() noexcept { new (&lock_) SpinLock(); }

 private:
  // Reasons for every call to take the long way.
  enum Mode : uint32_t {
    kTracing = 1,
    kRounding = 2,  // sizes are rounded otherwise than to 512 bytes
    kRouting = 4,   // some allocations go to private pools
    kNoCache = 8,
    kPending = 16,  // blocks wait for events
  };

  struct Request {
    size_t bytes, size;
    PoolType type;
    StreamPool* pool;
    std::shared_ptr<PrivatePool> owner;
    FitRule rule;
  };

  Block* allocate_warm(size_t bytes, c10::StreamId stream) NPU_REQUIRES(lock_);
  bool free_warm(Block* block) noexcept NPU_REQUIRES(lock_);
  StreamPool* known_pool(c10::StreamId stream) const NPU_REQUIRES(lock_) {
    const auto& slot = known_[slot_of(stream)];
    return slot.id == stream ? slot.pool : nullptr;
  }
  // No two of a device's default and pooled streams share a slot (Note [Stream ids] in core/stream.h);
  // foreign streams, whose ids are addresses, may, and then take the long way in turn.
  static size_t slot_of(c10::StreamId id) {
    const auto bits = static_cast<size_t>(id);
    return bits & 1 ? 64 + ((bits >> 3 & 31) << 1 | (bits >> 1 & 1)) : (bits >> 4 ^ bits >> 10) & 63;
  }

  // For functions that get their caller's guard: the lock is given back while the device is called, and taken again.
  void give_up(HeapLock& lock) NPU_RELEASE(lock_) NPU_NO_THREAD_SAFETY_ANALYSIS { lock.unlock(); }
  void take_again(HeapLock& lock) NPU_ACQUIRE(lock_) NPU_NO_THREAD_SAFETY_ANALYSIS { lock.lock(); }

  // heap.cpp
  Block* allocate_long(size_t bytes, c10::StreamId stream);
  Block* allocate_uncached(HeapLock& lock, const Request& request, const Context& context) NPU_REQUIRES(lock_);
  void free_long(Block* block) noexcept;
  void free_uncached(HeapLock& lock, Block* block) noexcept NPU_REQUIRES(lock_);
  void finish_free(Block* block) NPU_REQUIRES(lock_);
  Block* find(const Request& request) NPU_REQUIRES(lock_);
  Block* commit(Block* block, const Request& request, const Context& context) NPU_REQUIRES(lock_);
  void count_free(Block* block) NPU_REQUIRES(lock_);
  StreamPool* stream_pool(PrivatePool* owner, c10::StreamId stream) NPU_REQUIRES(lock_);
  std::shared_ptr<PrivatePool> route(c10::StreamId stream);
  FitRule fit_rule(const PrivatePool* owner) const NPU_REQUIRES(lock_);
  void set_mode(uint32_t mode, bool on) NPU_REQUIRES(lock_);
  c10::Stream stream_of(c10::StreamId id) const;

  // heap_growth.cpp: memory from the device
  Block* grow(HeapLock& lock, const Request& request, const Context& context) NPU_REQUIRES(lock_);
  Block* grow_segment(HeapLock& lock, const Request& request, const Context& context) NPU_REQUIRES(lock_);
  Block* grow_expandable(HeapLock& lock, const Request& request, const Context& context) NPU_REQUIRES(lock_);
  Segment* reserve_expandable(HeapLock& lock, const Request& request) NPU_REQUIRES(lock_);
  static Block* unmapped_room(const Request& request, size_t& bytes);
  bool within_limit(size_t more) const NPU_REQUIRES(lock_);
  void count_segment(PoolType type, size_t bytes) NPU_REQUIRES(lock_);
  // heap_release.cpp: memory back to the device, and running out of it
  Block* reclaim_and_retry(HeapLock& lock, const Request& request, const Context& context) NPU_REQUIRES(lock_);
  Block* borrow_from_pools(const Request& request) NPU_REQUIRES(lock_);
  void collect_garbage(HeapLock& lock, const Request& request) NPU_REQUIRES(lock_);
  bool release_oversize(HeapLock& lock, const Request& request) NPU_REQUIRES(lock_);
  struct Detached;  // memory taken out of the lists, on its way to the device
  void detach_segment(Block* block, Detached& out) NPU_REQUIRES(lock_);
  void detach_granules(Block* block, Detached& out) NPU_REQUIRES(lock_);
  void give_back(HeapLock& lock, Detached& out) NPU_REQUIRES(lock_);
  void drop_expandable_if_empty(HeapLock& lock, Block* unmapped) NPU_REQUIRES(lock_);
  void return_segment(Segment& segment) noexcept;
  void release_pool_memory(StreamPool& pool, Detached& out) NPU_REQUIRES(lock_);
  void release_unused(HeapLock& lock, MempoolId pool) NPU_REQUIRES(lock_);
  void forget_empty_pools() NPU_REQUIRES(lock_);
  [[noreturn]] void throw_out_of_memory(HeapLock& lock, const Request& request, const Context& context) NPU_REQUIRES(lock_);

  // heap_events.cpp: blocks that other streams still use
  void poll_events();
  void wait_events(HeapLock& lock) NPU_REQUIRES(lock_);
  void record_uses(Block* block, const std::vector<c10::Stream>& uses);
  void event_done(Block* block) NPU_REQUIRES(lock_);
  DeviceApi::Event take_event(c10::DeviceIndex device);

  // history
  bool wants(Stacks stacks) const { return stacks_.load(std::memory_order_relaxed) >= static_cast<uint8_t>(stacks); }
  Context gather(Stacks needed) const noexcept;
  void trace(TraceAction action, const void* address, size_t size, c10::StreamId stream, MempoolId pool, Context context)
      NPU_REQUIRES(lock_);
  void trace(TraceAction action, const Block* block, Context context) NPU_REQUIRES(lock_);
  static MempoolId pool_id(const StreamPool* pool) { return pool->owner ? pool->owner->id : MempoolId{0, 0}; }

  const c10::DeviceIndex device_;
  DeviceApi& api_;

  mutable SpinLock lock_;
  std::atomic<uint32_t> modes_{0};
  struct Known {
    c10::StreamId id = -1;
    StreamPool* pool = nullptr;
  };
  std::array<Known, 128> known_ NPU_GUARDED_BY(lock_){};  // the default pool's streams, by a hash of their id
  HeapStats stats_ NPU_GUARDED_BY(lock_);
  BlockSplitter blocks_ NPU_GUARDED_BY(lock_){stats_};

  AllocatorConfig config_ NPU_GUARDED_BY(lock_);
  double fraction_ NPU_GUARDED_BY(lock_) = 1;
  size_t total_;                                   // bytes the device has
  size_t limit_ NPU_GUARDED_BY(lock_) = SIZE_MAX;  // bytes this process may reserve
  size_t growing_ NPU_GUARDED_BY(lock_) = 0;       // bytes being asked of the device right now
  int reclaiming_ NPU_GUARDED_BY(lock_) =
      0;  // threads on their way to the device with detached memory, or waiting for pending blocks
  uint64_t searches_ NPU_GUARDED_BY(lock_) = 0;  // the clock of garbage collection
  bool caching_ NPU_GUARDED_BY(lock_) = true;

  std::map<c10::StreamId, std::unique_ptr<StreamPool>> streams_ NPU_GUARDED_BY(lock_);
  std::map<MempoolId, std::shared_ptr<PrivatePool>> private_pools_ NPU_GUARDED_BY(lock_);
  std::map<char*, std::unique_ptr<Segment>> segments_ NPU_GUARDED_BY(lock_);  // by address
  std::unordered_map<void*, Block*> raw_ NPU_GUARDED_BY(lock_);

  core::Mutex routes_mutex_;
  std::vector<PoolRoute> routes_ NPU_GUARDED_BY(routes_mutex_);

  struct PendingEvent {
    DeviceApi::Event event;
    c10::DeviceIndex device;
    Block* block;
  };
  std::mutex poll_mutex_;
  std::map<std::pair<c10::DeviceIndex, c10::StreamId>, std::deque<PendingEvent>> pending_ NPU_GUARDED_BY(lock_);
  std::map<c10::DeviceIndex, std::vector<DeviceApi::Event>> spare_events_ NPU_GUARDED_BY(lock_);
  std::vector<Block*> deferred_ NPU_GUARDED_BY(lock_);  // freed while a graph was being recorded
  int captures_ NPU_GUARDED_BY(lock_) = 0;

  std::atomic<uint8_t> stacks_{0};
  std::atomic<Context (*)()> gather_{nullptr};
  HistorySettings history_ NPU_GUARDED_BY(lock_);
  TraceRing trace_ NPU_GUARDED_BY(lock_);
  std::vector<OutOfMemoryObserver> observers_ NPU_GUARDED_BY(lock_);
};

inline Block* Heap::allocate_warm(size_t bytes, c10::StreamId stream) {
  if (C10_UNLIKELY(modes_.load(std::memory_order_relaxed) != 0)) return nullptr;
  StreamPool* pool = known_pool(stream);
  if (C10_UNLIKELY(!pool)) return nullptr;
  Block* block = pool->classes.pop(units_of(bytes));
  if (C10_UNLIKELY(!block)) return nullptr;
  blocks_.discount_inactive(block);
  block->state = BlockState::allocated;
  block->requested = bytes;
  stats_.allocation.add(block->type, 1);
  stats_.allocated_bytes.add(block->type, static_cast<int64_t>(block->size));
  stats_.requested_bytes.add(block->type, static_cast<int64_t>(bytes));
  return block;
}

inline bool Heap::free_warm(Block* block) noexcept {
  if (C10_UNLIKELY(modes_.load(std::memory_order_relaxed) != 0 || block->marks != 0)) return false;
  if (C10_UNLIKELY(!blocks_.cache(block))) return false;
  count_free(block);
  return true;
}

inline void Heap::count_free(Block* block) {
  stats_.allocation.sub(block->type, 1);
  stats_.allocated_bytes.sub(block->type, static_cast<int64_t>(block->size));
  stats_.requested_bytes.sub(block->type, static_cast<int64_t>(block->requested));
}

}  // namespace torch_npu::memory
