#include "distributed/resources.h"

#include <array>
#include <vector>

#include "core/error.h"
#include "core/thread_annotations.h"

namespace torch_npu::distributed {
namespace {

constexpr size_t kMostIdleEvents = 1024;
constexpr uint32_t kFastLaunch = ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC;
constexpr int kStopOnError = 1;

struct Pools {
  core::Mutex mutex;
  // By device; with and without timing; high priority or not.
  std::array<std::array<std::vector<core::Event>, 2>, core::kMaxDevices> events NPU_GUARDED_BY(mutex);
  std::array<std::array<std::vector<core::Stream>, 2>, core::kMaxDevices> streams NPU_GUARDED_BY(mutex);
};

// Never destroyed: events come back until the very end of the process.
Pools& pools() {
  static auto* instance = new Pools();
  return *instance;
}

}  // namespace

PooledEvent::PooledEvent(bool timing) : event_(timing), timing_(timing), held_(true) {}

void PooledEvent::record(const core::Stream& stream) {
  if (!event_.created()) {
    const core::MutexLock lock(pools().mutex);
    auto& idle = pools().events[stream.device_index()][timing_];
    if (!idle.empty()) {
      event_ = std::move(idle.back());
      idle.pop_back();
    }
  }
  event_.record(stream);
}

void PooledEvent::release() noexcept {
  if (!std::exchange(held_, false) || !event_.created() || core::in_bad_fork()) return;
  const core::MutexLock lock(pools().mutex);
  auto& idle = pools().events[event_.device_index()][timing_];
  if (idle.size() < kMostIdleEvents) idle.push_back(std::move(event_));
}

core::Stream take_stream(c10::DeviceIndex device, bool high_priority) {
  {
    const core::MutexLock lock(pools().mutex);
    auto& idle = pools().streams[device][high_priority];
    if (!idle.empty()) {
      const auto stream = idle.back();
      idle.pop_back();
      return stream;
    }
  }
  core::DeviceGuard guard(device);
  core::ensure_bound();
  aclrtStream raw = nullptr;
  NPU_CHECK(acl::aclrtCreateStreamWithConfig(&raw, high_priority ? 0 : 7, kFastLaunch));
  NPU_CHECK(acl::aclrtSetStreamFailureMode(raw, kStopOnError));
  return core::external_stream(raw, device);
}

void give_stream(core::Stream stream, bool high_priority) noexcept {
  const core::MutexLock lock(pools().mutex);
  pools().streams[stream.device_index()][high_priority].push_back(stream);
}

}  // namespace torch_npu::distributed
