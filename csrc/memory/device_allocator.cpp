#include "memory/device_allocator.h"
#include "memory/formatted.h"
#include "memory/storage.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/GPUTrace.h>
#include <pthread.h>

#include "core/compat.h"
#include "core/error.h"
#include "core/options.h"
#include "core/storage_hooks.h"
#include "core/thread_annotations.h"
#include "memory/allocator_config.h"

namespace torch_npu::memory {
namespace {

#if TORCH_NPU_HAS_DEVICE_ALLOCATOR
using AllocatorBase = c10::DeviceAllocator;
#else
using AllocatorBase = c10::Allocator;
#endif

constexpr auto kDeviceType = c10::DeviceType::PrivateUse1;

std::array<std::atomic<Heap*>, core::kMaxDevices> heaps{};
core::Mutex create_mutex;
std::shared_ptr<RawAllocator> replacement;  // written under create_mutex, before any heap exists
std::atomic<bool> replaced{false};

// What is set for all devices, and given to heaps made later.
struct Common {
  std::optional<bool> caching;
  HistorySettings history;
  std::vector<OutOfMemoryObserver> observers;
};
Common& common() NPU_REQUIRES(create_mutex) {
  static auto* instance = new Common();
  return *instance;
}

// Note [Memory profiling]
// ~~~~~~~~~~~~~~~~~~~~~~~
// Asking whether a profiler wants to know costs as much as the allocation itself. Allocations ask; frees
// ask only once some allocation has been profiled, so a program that never profiles pays once a cycle.
std::atomic<bool> ever_profiled{false};

// True when this thread has a profiler; whether it wants memory is asked then. (memoryProfilingEnabled()
// asks both, through one call more.)
inline bool has_profiler() { return c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE) != nullptr; }

C10_NOINLINE void report(const Block* block, bool allocated) {
  if (!c10::memoryProfilingEnabled()) return;
  ever_profiled.store(true, std::memory_order_relaxed);
  auto* heap = block->pool->heap;
  const auto size = static_cast<int64_t>(block->size);
  // A free is reported before it happens: afterwards the block may be somebody else's.
  const size_t in_use = heap->allocated_bytes() - (allocated ? 0 : block->size);
  c10::reportMemoryUsageToProfiler(block->ptr, allocated ? size : -size, in_use, heap->reserved_bytes(),
                                   c10::Device(kDeviceType, heap->device()));
}

C10_NOINLINE void trace_to_python(const Block* block, bool allocated) {
  if (const auto* interpreter = c10::impl::GPUTrace::get_trace()) {
    const auto address = reinterpret_cast<uintptr_t>(block->ptr);
    if (allocated) {
      (*interpreter)->trace_gpu_memory_allocation(kDeviceType, address);
    } else {
      (*interpreter)->trace_gpu_memory_deallocation(kDeviceType, address);
    }
  }
}

void free_block(void* context) {
  auto* block = static_cast<Block*>(context);
  if (C10_UNLIKELY(c10::impl::GPUTrace::haveState)) trace_to_python(block, false);
  if (C10_UNLIKELY(ever_profiled.load(std::memory_order_relaxed)) && has_profiler()) report(block, false);
  block->pool->heap->free(block);
}

struct ReplacedMemory {
  void* ptr;
  size_t bytes;
  core::Stream stream;
};

void free_replaced(void* context) {
  std::unique_ptr<ReplacedMemory> memory(static_cast<ReplacedMemory*>(context));
  replacement->free(memory->ptr, memory->bytes, memory->stream.device_index(), memory->stream.unwrap());
}

c10::DataPtr allocate_replaced(size_t bytes, c10::DeviceIndex device) {
  core::ensure_bound();
  const auto stream = core::current_stream(device);
  void* ptr = replacement->allocate(bytes, device, stream.unwrap());
  TORCH_CHECK_WITH(OutOfMemoryError, ptr, "NPU out of memory: the pluggable allocator has no ", bytes,
                   " bytes on npu:", static_cast<int>(device));
  return {ptr, new ReplacedMemory{ptr, bytes, stream}, &free_replaced, c10::Device(kDeviceType, device)};
}

class DeviceAllocator final : public AllocatorBase {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const auto& thread = core::thread_state;
    const c10::Device device(kDeviceType, thread.device);
    if (C10_UNLIKELY(bytes == 0)) return {nullptr, device};
    Heap* heap = heaps[thread.device].load(std::memory_order_acquire);
    if (C10_UNLIKELY(!heap)) {
      if (replaced.load()) return allocate_replaced(bytes, thread.device);
      heap = &memory::heap(thread.device);
    }
    Block* block = heap->allocate(bytes, thread.streams[thread.device].id);
    if (C10_UNLIKELY(has_profiler())) report(block, true);
    if (C10_UNLIKELY(c10::impl::GPUTrace::haveState)) trace_to_python(block, true);
    return {block->ptr, block, &free_block, device};
  }

  // The context is a block and not the address, so there is no raw_deleter; it is simple all the same.
  bool is_simple_data_ptr(const c10::DataPtr& data) const override { return data.get_deleter() == &free_block; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    if (bytes == 0) return;
    NPU_CHECK(acl::aclrtMemcpyAsync(to, bytes, from, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, core::current_raw_stream()));
  }

#if TORCH_NPU_HAS_DEVICE_ALLOCATOR
  bool initialized() override { return core::is_initialized(); }
  void emptyCache(c10::MempoolId_t pool = {0, 0}) override { memory::empty_cache(pool); }
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override { memory::record_stream(data, core::Stream(stream)); }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override;
  void resetAccumulatedStats(c10::DeviceIndex device) override { memory::reset_accumulated_stats(device); }
  void resetPeakStats(c10::DeviceIndex device) override { memory::reset_peak_stats(device); }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) { return memory_info(device); }  // virtual from 2.10
#endif
};

#if TORCH_NPU_HAS_DEVICE_ALLOCATOR
c10::CachingDeviceAllocator::DeviceStats DeviceAllocator::getDeviceStats(c10::DeviceIndex device) {
  c10::CachingDeviceAllocator::DeviceStats result;
  using c10::CachingAllocator::Stat;
  auto fill = [](Stat& stat, const Figures& figures) {
    stat.current = figures.current;
    stat.peak = figures.peak;
    stat.allocated = figures.allocated;
    stat.freed = figures.freed;
  };
  const auto report = memory::statistics(device);
  // In the order of report().
  c10::CachingAllocator::StatArray* rows[] = {
      &result.allocation,      &result.segment,        &result.active,       &result.inactive_split,
      &result.allocated_bytes, &result.reserved_bytes, &result.active_bytes, &result.inactive_split_bytes,
      &result.requested_bytes};
  for (size_t row = 0; row < report.rows.size(); ++row) {
    for (size_t pool = 0; pool < 3; ++pool) fill((*rows[row])[pool], report.rows[row].figures[pool]);
  }
  fill(result.oversize_allocations, report.oversize[0].figures[0]);
  fill(result.oversize_segments, report.oversize[1].figures[0]);
  int64_t* scalars[] = {&result.num_alloc_retries, &result.num_ooms,        &result.num_sync_all_streams,
                        &result.num_device_alloc,  &result.num_device_free, &result.max_split_size};
  // num_oom_rejections, the last, is 0 in both, and older torches lack it.
  for (size_t i = 0; i < std::size(scalars); ++i) *scalars[i] = report.scalars[i].value;
  return result;
}
#endif

DeviceAllocator& instance() {
  static auto* created = new DeviceAllocator();  // storages may outlive static destructors
  return *created;
}

// A child of fork may free its copies of the parent's tensors; the lock may have been held by a
// thread that does not exist in the child.
void reset_locks_after_fork() {
  for (auto& slot : heaps) {
    if (auto* heap = slot.load()) heap->reset_lock_after_fork();
  }
}

void resize_storage(const c10::Storage& storage, size_t bytes) {
  auto* impl = storage.unsafeGetStorageImpl();
  TORCH_CHECK(bytes == 0 || !internal_format(impl->data_ptr()),
              "a storage in an internal format cannot be resized: give it the base format first, by npu_format_cast_(tensor, 2)");
  const core::DeviceGuard guard(storage.device().index());
  c10::DataPtr data = instance().allocate(bytes);
  instance().copy_data(data.get(), impl->data(), std::min(bytes, impl->nbytes()));
  impl->set_data_ptr_noswap(std::move(data));
  impl->set_nbytes(bytes);
  describe_again(*impl);
}

const bool registered = [] {
  c10::SetAllocator(kDeviceType, &instance());
  auto& hooks = core::storage_hooks();
  hooks.record_stream = &record_stream;
  hooks.resize = &resize_storage;
  return true;
}();

template <class Do>
void each_heap(Do act) {
  for (auto& slot : heaps) {
    if (auto* heap = slot.load(std::memory_order_acquire)) act(*heap);
  }
}

}  // namespace

c10::Allocator* allocator() { return &instance(); }

Heap* heap_if_used(c10::DeviceIndex device) noexcept {
  return device >= 0 && device < core::kMaxDevices ? heaps[device].load(std::memory_order_acquire) : nullptr;
}

Heap& heap(c10::DeviceIndex device) {
  if (auto* known = heap_if_used(device)) return *known;
  core::ensure_initialized();
  core::check_device(device);
  TORCH_CHECK(!replaced.load(),
              "the caching allocator was replaced (change_current_allocator): it has no "
              "statistics, pools or history");
  const auto& config = common_config();
  const core::MutexLock lock(create_mutex);
  if (auto* known = heap_if_used(device)) return *known;
  static const bool fork_handled = (pthread_atfork(nullptr, nullptr, &reset_locks_after_fork), true);
  (void)fork_handled;
  auto created = std::make_unique<Heap>(device, cann_device_api(), config);
  created->set_caching(common().caching.value_or(!core::options().no_memory_caching));
  if (common().history.entries || common().history.stacks != Stacks::never) {
    created->record_history(common().history, true);
  }
  for (const auto& observer : common().observers) created->add_observer(observer);
  heaps[device].store(created.get(), std::memory_order_release);
  return *created.release();  // lives as long as the process
}

namespace {

// Null where nothing was allocated yet; throws for a device that does not exist, and where there is no heap to ask.
Heap* heap_to_ask(c10::DeviceIndex device) {
  core::check_device(device);
  return replaced.load() ? &heap(device) : heap_if_used(device);
}

}  // namespace

StatsReport statistics(c10::DeviceIndex device) {
  if (auto* known = heap_to_ask(device)) return known->statistics();
  return report(HeapStats(), common_config().max_split_size);
}

void reset_peak_stats(c10::DeviceIndex device) {
  if (auto* known = heap_to_ask(device)) known->reset_peak_stats();
}

void reset_accumulated_stats(c10::DeviceIndex device) {
  if (auto* known = heap_to_ask(device)) known->reset_accumulated_stats();
}

void record_stream(const c10::DataPtr& given, core::Stream stream) {
  const c10::DataPtr& data = underlying(given);
  if (data.get_deleter() != &free_block || !data.get_context()) return;
  auto* block = static_cast<Block*>(data.get_context());
  block->pool->heap->record_stream(block, stream.unwrap());
}

void* raw_alloc(size_t bytes, core::Stream stream) {
  return bytes == 0 ? nullptr : heap(stream.device_index()).allocate_raw(bytes, stream.id());
}

void raw_free(void* ptr) {
  if (!ptr) return;
  bool found = false;
  each_heap([&](Heap& heap) { found = found || heap.free_raw(ptr); });
  TORCH_CHECK_VALUE(found, "not an address that caching_allocator_alloc gave: ", ptr);
}

void* base_allocation(const void* address, size_t* size) {
  std::optional<Heap::SegmentRange> found;
  each_heap([&](Heap& heap) {
    if (!found) found = heap.segment_of(address);
  });
  TORCH_CHECK(found, "not memory of the NPU's caching allocator: ", address);
  TORCH_CHECK(!found->expandable,
              "memory of an expandable segment cannot be shared with other processes; "
              "run without expandable_segments:True");
  if (size) *size = found->size;
  return found->base;
}

void empty_cache(MempoolId pool) {
  each_heap([&](Heap& heap) { heap.empty_cache(pool); });
}

void set_caching(bool enabled) {
  {
    const core::MutexLock lock(create_mutex);
    common().caching = enabled;
  }
  each_heap([&](Heap& heap) { heap.set_caching(enabled); });
}

bool caching() {
  const core::MutexLock lock(create_mutex);
  return common().caching.value_or(!core::options().no_memory_caching);
}

void record_history(const HistorySettings& settings, bool clear) {
  {
    const core::MutexLock lock(create_mutex);
    common().history = settings;
  }
  each_heap([&](Heap& heap) { heap.record_history(settings, clear); });
}

void add_observer(const OutOfMemoryObserver& observer) {
  {
    const core::MutexLock lock(create_mutex);
    common().observers.push_back(observer);
  }
  each_heap([&](Heap& heap) { heap.add_observer(observer); });
}

void set_settings(const std::string& text, bool tell_torch) {
  const auto& config = change_common_config(text, tell_torch);
  each_heap([&](Heap& heap) { heap.configure(config); });
}

std::pair<size_t, size_t> memory_info(c10::DeviceIndex device) {
  core::ensure_initialized();
  core::check_device(device);
  return cann_device_api().memory_info(device);
}

void replace_allocator(std::shared_ptr<RawAllocator> with) {
  const core::MutexLock lock(create_mutex);
  each_heap([](Heap&) {
    TORCH_CHECK(false,
                "the allocator cannot be changed once NPU memory was allocated; call "
                "change_current_allocator before the first tensor");
  });
  TORCH_CHECK(!replaced.load(), "the allocator was changed before");
  replacement = std::move(with);
  replaced.store(true);
}

bool is_replaced() { return replaced.load(); }

MempoolId new_pool_id(bool by_user) {
  static std::atomic<unsigned long long> next{1};
  const auto id = next.fetch_add(1);
  return by_user ? MempoolId{0, id} : MempoolId{id, 0};
}

namespace {

class FunctionPair final : public RawAllocator {
 public:
  using Allocate = void* (*)(size_t, int, aclrtStream);
  using Free = void (*)(void*, size_t, int, aclrtStream);
  FunctionPair(Allocate allocate, Free free) : allocate_(allocate), free_(free) {}
  void* allocate(size_t bytes, c10::DeviceIndex device, c10::Stream stream) override {
    const core::DeviceGuard guard(device);
    core::ensure_bound();
    return allocate_(bytes, device, core::Stream(stream).raw());
  }
  void free(void* ptr, size_t bytes, c10::DeviceIndex device, c10::Stream stream) noexcept override {
    try {
      const core::DeviceGuard guard(device);
      core::ensure_bound();
      free_(ptr, bytes, device, core::Stream(stream).raw());
    } catch (const std::exception& failure) {
      TORCH_WARN("a pluggable allocator could not free memory: ", failure.what());
    }
  }

 private:
  Allocate allocate_;
  Free free_;
};

}  // namespace

std::shared_ptr<RawAllocator> raw_allocator_from(uintptr_t allocate, uintptr_t free) {
  return std::make_shared<FunctionPair>(reinterpret_cast<FunctionPair::Allocate>(allocate),
                                        reinterpret_cast<FunctionPair::Free>(free));
}

}  // namespace torch_npu::memory
