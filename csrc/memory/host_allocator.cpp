#include "memory/host_allocator.h"

#include <chrono>
#include <cstring>

#include "core/capture.h"
#include "core/error.h"
#include "core/event.h"
#include "core/storage_hooks.h"
#include "core/thread_annotations.h"
#include "memory/device_allocator.h"

namespace torch_npu::memory {
namespace {

// Events are kept for the next copy: making one costs more than recording it.
class EventPool {
 public:
  struct GiveBack {
    void operator()(core::Event* event) const { EventPool::instance().give_back(event); }
  };
  using Event = std::unique_ptr<core::Event, GiveBack>;

  static EventPool& instance() {
    static auto* pool = new EventPool();
    return *pool;
  }
  Event take(c10::DeviceIndex device) {
    const core::MutexLock lock(mutex_);
    auto& spare = spare_[device];
    if (spare.empty()) return Event(new core::Event());
    Event event(spare.back());
    spare.pop_back();
    return event;
  }

 private:
  void give_back(core::Event* event) {
    if (!event->created()) {
      delete event;
      return;
    }
    const core::MutexLock lock(mutex_);
    spare_[event->device_index()].push_back(event);
  }

  core::Mutex mutex_;
  std::array<std::vector<core::Event*>, core::kMaxDevices> spare_ NPU_GUARDED_BY(mutex_);
};

using PinnedEvent = EventPool::Event;

// Functions without `override` are virtual in some of the supported versions only.
struct PinnedImpl final : at::CachingHostAllocatorImpl<c10::Stream, PinnedEvent> {
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }

 private:
  using Clock = std::chrono::steady_clock;
  void note(at::DurationStat& stat, Clock::time_point start) {
    const auto taken = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start);
    std::lock_guard<std::mutex> lock(stats_.timing_mutex_);
    stat.increase(taken.count());
  }

  void allocate_host_memory(size_t size, void** ptr) override {
    core::ensure_bound();
    const auto start = Clock::now();
    const int status = acl::aclrtMallocHost(ptr, size);
    note(stats_.host_alloc_time, start);
    if (status == ACL_SUCCESS) return;
    throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, status,
                                c10::str("no pinned host memory for ", size, " bytes: aclrtMallocHost returned ", status, " (",
                                         core::status_text(status), ")"));
  }
  void free_block(at::HostBlock<c10::Stream>* block) override {
    core::ensure_bound();
    const auto start = Clock::now();
    NPU_CHECK_WARN(acl::aclrtFreeHost(block->ptr_));
    note(stats_.host_free_time, start);
  }
  void record_stream(std::optional<std::vector<PinnedEvent>>& events, c10::Stream stream) override {
    try {
      auto event = EventPool::instance().take(stream.device_index());
      event->record(core::Stream(stream));
      events->push_back(std::move(event));
    } catch (const c10::Error& failure) {
      // This is called by a deleter, which must not throw; without an event there is still the stream itself to wait for.
      wait_instead(stream.device_index(), failure);
    }
  }
  bool query_event(PinnedEvent& event) override {
    try {
      return event->query();
    } catch (const c10::Error& failure) {
      wait_instead(event->device_index(), failure);
      return true;
    }
  }
  static void wait_instead(c10::DeviceIndex device, const c10::Error& failure) noexcept {
    try {
      TORCH_WARN("no event can tell when pinned memory is done with: ", failure.what_without_backtrace());
    } catch (const std::exception&) {
      // A warning that was made an error must not end a deleter.
    }
    cann_device_api().quiesce(device);
  }
  c10::Stream get_current_stream() const { return core::current_stream().unwrap(); }
  bool stream_is_capturing(c10::Stream stream) const { return core::is_capturing(core::Stream(stream)); }
};

void free_pinned(void* context);

struct PinnedAllocator final : at::CachingHostAllocatorInterface<PinnedImpl, free_pinned> {};

PinnedAllocator& instance() {
  static auto* created = new PinnedAllocator();  // tensors may outlive static destructors
  return *created;
}

void free_pinned(void* context) { instance().free(context); }

const bool registered = [] {
  at::setHostAllocator(at::DeviceType::PrivateUse1, &instance());
  auto& hooks = core::storage_hooks();
  hooks.pinned_allocator = []() -> c10::Allocator* { return &instance(); };
  hooks.is_pinned = &is_pinned;
  hooks.record_pinned = &record_pinned;
  return true;
}();

Figures figures(const at::Stat& stat) { return {stat.current, stat.peak, stat.allocated, stat.freed}; }
HostStatistics::Duration duration(const char* name, const at::DurationStat& stat) {
  return {name, stat.total, stat.max, stat.min, stat.count};
}

// Older versions call the blocks in use "allocation" and those held "segment".
template <class Stats>
HostStatistics convert(const Stats& stats) {
  HostStatistics result{};
  if constexpr (requires { stats.active_requests; }) {
    result.rows = {{{"allocations", figures(stats.allocations)},
                    {"active_requests", figures(stats.active_requests)},
                    {"allocated_bytes", figures(stats.allocated_bytes)},
                    {"active_bytes", figures(stats.active_bytes)}}};
  } else {
    result.rows = {{{"allocations", figures(stats.segment)},
                    {"active_requests", figures(stats.allocation)},
                    {"allocated_bytes", figures(stats.reserved_bytes)},
                    {"active_bytes", figures(stats.allocated_bytes)}}};
  }
  result.durations = {{duration("host_alloc_time", stats.host_alloc_time), duration("host_free_time", stats.host_free_time)}};
  result.num_host_alloc = stats.num_host_alloc;
  result.num_host_free = stats.num_host_free;
  return result;
}

}  // namespace

at::HostAllocator* pinned_allocator() { return &instance(); }

HostStatistics host_statistics() { return convert(instance().get_stats()); }

bool is_pinned(const void* data) {
  if (!data) return false;
  core::ensure_bound();
  aclrtPtrAttributes attributes{};
  return acl::aclrtPointerGetAttributes(data, &attributes) == 0 && attributes.location.type == ACL_MEM_LOCATION_TYPE_HOST;
}

void record_pinned(const c10::DataPtr& data, core::Stream stream) {
  // Memory CANN locked for somebody else is theirs to look after: the call then finds no block.
  instance().record_event(data.get(), data.get_context(), stream.unwrap());
}

}  // namespace torch_npu::memory
