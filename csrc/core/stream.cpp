#include "core/stream.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>

#include <c10/util/Exception.h>

#include "core/error.h"
#include "core/recovery.h"
#include "core/options.h"
#include "core/thread_annotations.h"

namespace torch_npu::core {
namespace {

constexpr int kPoolSize = 32;
constexpr int kPriorities = 2;
constexpr c10::StreamId kPooled = 1;
constexpr uint32_t kFastLaunch = ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC;
constexpr int kStopOnError = 1;

struct DeviceStreams {
  std::atomic<aclrtStream> default_stream{nullptr};
  std::array<std::array<std::atomic<aclrtStream>, kPoolSize>, kPriorities> pool{};
  std::array<std::atomic<uint32_t>, kPriorities> next{};
};

std::array<DeviceStreams, kMaxDevices> devices;
Mutex create_mutex;

bool is_pooled(c10::StreamId id) { return (id & 7) != 0; }
int pool_priority(c10::StreamId id) { return (id >> 1) & 3; }
int pool_index(c10::StreamId id) { return static_cast<int>(id >> 3); }
c10::StreamId pooled_id(int priority, c10::StreamId index) { return index << 3 | priority << 1 | kPooled; }

// The id of a default or pooled stream that somebody knows by its address only.
std::optional<c10::StreamId> own_id(aclrtStream raw, c10::DeviceIndex device) {
  const auto& own = devices[device];
  if (own.default_stream.load() == raw) return 0;
  for (int priority = 0; priority < kPriorities; ++priority) {
    for (int index = 0; index < kPoolSize; ++index) {
      if (own.pool[priority][index].load() == raw) return pooled_id(priority, index);
    }
  }
  return std::nullopt;
}

// The stream in `slot`, made on `device` if it is not there yet.
aclrtStream get_or_create(std::atomic<aclrtStream>& slot, c10::DeviceIndex device, uint32_t priority) {
  if (auto* raw = slot.load(std::memory_order_acquire)) return raw;
  DeviceGuard guard(device);
  ensure_bound();
  const MutexLock lock(create_mutex);
  if (auto* raw = slot.load()) return raw;
  aclrtStream raw = nullptr;
  NPU_CHECK(acl::aclrtCreateStreamWithConfig(&raw, priority, kFastLaunch));
  // After a failed task the rest of the stream must not run on garbage.
  NPU_CHECK(acl::aclrtSetStreamFailureMode(raw, kStopOnError));
  slot.store(raw, std::memory_order_release);
  return raw;
}

c10::DeviceIndex resolve(c10::DeviceIndex device) {
  if (device < 0) return current_device();
  check_device(device);
  return device;
}

c10::Stream make(c10::DeviceIndex device, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::PrivateUse1, device), id);
}

aclrtStream raw_stream(c10::DeviceIndex device, c10::StreamId id) {
  TORCH_CHECK(device >= 0 && device < kMaxDevices, "stream of npu:", static_cast<int>(device), ", which does not exist");
  if (id == 0) return get_or_create(devices[device].default_stream, device, 0);
  if (!is_pooled(id)) return reinterpret_cast<aclrtStream>(id);
  const int priority = pool_priority(id), index = pool_index(id);
  TORCH_CHECK((id & 1) && priority < kPriorities && index < kPoolSize, "not an NPU stream id: ", id);
  return get_or_create(devices[device].pool[priority][index], device, static_cast<uint32_t>(priority == 1 ? 0 : 7));
}

}  // namespace

aclrtStream Stream::raw() const {
  const auto& current = thread_state.streams[device_index() & (kMaxDevices - 1)];
  if (current.raw && current.id == id()) return current.raw;
  return raw_stream(device_index(), id());
}

int Stream::priority() const { return is_pooled(id()) && pool_priority(id()) == 1 ? -1 : 0; }

bool Stream::query() const {
  DeviceGuard guard(device_index());
  ensure_bound();
  aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
  NPU_CHECK(acl::aclrtStreamQuery(raw(), &status));
  return status == ACL_STREAM_STATUS_COMPLETE;
}

// Negative: without limit.
static int64_t sync_timeout_ms() {
  const auto& all = options();
  return all.sync_timeout_ms < 0 && all.sync_timeout_s >= 0 ? all.sync_timeout_s * 1000 : all.sync_timeout_ms;
}

void Stream::synchronize() const {
  DeviceGuard guard(device_index());
  ensure_bound();
  const auto timeout = sync_timeout_ms();
  if (timeout < 0) {
    NPU_CHECK(acl::aclrtSynchronizeStream(raw()));
  } else {
    NPU_CHECK(acl::aclrtSynchronizeStreamWithTimeout(raw(), static_cast<int32_t>(timeout)));
  }
  throw_kept_failure(device_index(), raw());
}

std::vector<aclrtStream> known_streams(c10::DeviceIndex device) {
  std::vector<aclrtStream> known;
  const auto add = [&known](const std::atomic<aclrtStream>& slot) {
    if (auto* raw = slot.load(std::memory_order_acquire)) known.push_back(raw);
  };
  add(devices[device].default_stream);
  for (const auto& pool : devices[device].pool) std::for_each(pool.begin(), pool.end(), add);
  return known;
}

Stream default_stream(c10::DeviceIndex device) { return Stream(make(resolve(device), 0)); }

Stream current_stream(c10::DeviceIndex device) {
  device = resolve(device);
  return Stream(make(device, thread_state.streams[device].id));
}

Stream stream_from_pool(bool high_priority, c10::DeviceIndex device) {
  device = resolve(device);
  const int priority = high_priority ? 1 : 0;
  const c10::StreamId index = devices[device].next[priority].fetch_add(1) % kPoolSize;
  return Stream(make(device, pooled_id(priority, index)));
}

Stream external_stream(aclrtStream raw, c10::DeviceIndex device) {
  const auto id = reinterpret_cast<c10::StreamId>(raw);
  TORCH_CHECK(raw && (id & 7) == 0, "not the address of a stream: ", id);
  device = resolve(device);
  return Stream(make(device, own_id(raw, device).value_or(id)));
}

Stream exchange_stream(Stream stream) {
  const auto device = stream.device_index();
  check_device(device);
  auto& slot = thread_state.streams[device];
  const Stream previous(make(device, slot.id));
  if (slot.id != stream.id() || !slot.raw) {
    slot.raw = stream.id() == slot.id ? slot.raw : nullptr;
    slot.id = stream.id();
  }
  return previous;
}

aclrtStream first_use_of_current_stream() {
  const auto device = thread_state.device;
  auto& slot = thread_state.streams[device];
  slot.raw = raw_stream(device, slot.id);
  return slot.raw;
}

}  // namespace torch_npu::core
