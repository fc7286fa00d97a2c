#include "rt/device/device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <string>

#include "fault/lifecycle.h"
#include "rt/base/log.h"
#include "rt/profile/profile_control.h"
#include "rt/base/process_usage.h"
#include "rt/stream/stream.h"

namespace softcann {

constinit thread_local Context* this_context = nullptr;

namespace {

constexpr int kMaxDevices = 64;

// Never destroyed: threads may still run while the process exits.
struct Registry {
  std::mutex mutex;
  std::atomic<Device*> devices[kMaxDevices] = {};
};

Registry& registry() {
  static auto* instance = new Registry;
  return *instance;
}

// Client index -> physical index. As with CANN, the list ends at the first entry that is no device.
std::vector<int> read_visible_devices() {
  const int count = static_cast<int>(options().device_count);
  std::vector<int> visible;
  if (options().visible_devices.empty()) {
    for (int i = 0; i < count; ++i) visible.push_back(i);
    return visible;
  }
  std::stringstream list(options().visible_devices);
  std::string item;
  while (std::getline(list, item, ',')) {
    char* end = nullptr;
    const long index = std::strtol(item.c_str(), &end, 10);
    if (item.empty() || *end != 0 || index < 0 || index >= count) break;
    if (std::find(visible.begin(), visible.end(), static_cast<int>(index)) != visible.end()) break;
    visible.push_back(static_cast<int>(index));
  }
  return visible;
}

const std::vector<int>& visible_devices() {
  static const auto* visible = new std::vector<int>(read_visible_devices());
  return *visible;
}

// Backs the device's memory by a file in RAM and shows it in the window.
bool give_memory(Device* device) {
  const size_t capacity = device->arena.capacity();
  const std::string name = "softcann-memory-" + std::to_string(device->physical);
  device->memory_fd = SOFTCANN_FAULT_POINT(memfd) ? -1 : memfd_create(name.c_str(), MFD_CLOEXEC);
  if (device->memory_fd < 0 || ftruncate(device->memory_fd, static_cast<off_t>(capacity)) != 0) return false;
  device->region = add_region(Region::Kind::kArena, capacity, device->id, device);
  return device->region != nullptr && map_view(device->region->begin, capacity, device->memory_fd, 0);
}

uint64_t capacity_option() {
  constexpr uint64_t kPage = uint64_t{2} << 20;
  return std::max(kPage, options().memory / kPage * kPage);
}

}  // namespace

Device::Device(int id, int physical, uint64_t capacity) : id(id), physical(physical), arena(capacity) {}

int physical_device(int id) { return visible_devices()[static_cast<size_t>(id)]; }
const std::string& configuration_error() { return !options().error.empty() ? options().error : fault::configuration_error(); }
int device_count() { return static_cast<int>(visible_devices().size()); }
aclError check_device(const char* entry, int64_t id) {
  if (id >= 0 && id < device_count()) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_INVALID_DEVICEID, "%s: device %lld does not exist: there are %d", entry, static_cast<long long>(id),
              device_count());
}

Device* find_device(int id) {
  if (id < 0 || id >= kMaxDevices) return nullptr;
  return registry().devices[id].load(std::memory_order_acquire);
}

aclError check_configured(int id) {
  if (const std::string& wrong = configuration_error(); !wrong.empty()) return fail(ACL_ERROR_INVALID_PARAM, "%s", wrong.c_str());
  if (id >= 0 && id < device_count()) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_INVALID_DEVICEID, "device %d does not exist: there are %d (SOFTCANN_DEVICE_COUNT=%d%s%s)", id,
              device_count(), static_cast<int>(options().device_count),
              options().visible_devices.empty() ? "" : ", ASCEND_RT_VISIBLE_DEVICES=", options().visible_devices.c_str());
}

Device* open_device(int id, aclError* error) {
  if (Device* device = find_device(id)) return device;
  *error = check_configured(id);
  if (*error != ACL_SUCCESS) return nullptr;
  Registry& r = registry();
  std::lock_guard<std::mutex> lock(r.mutex);
  static const aclError recording = begin_profile_control();
  if (recording != ACL_SUCCESS) {
    *error = fail(recording, "no profile can be recorded as SOFTCANN_PROF=%s and PROFILING_MODE=%s ask",
                  options().profile.c_str(), options().profiling_mode.c_str());
    return nullptr;
  }
  if (Device* device = r.devices[id].load(std::memory_order_acquire)) return device;
  auto device = std::make_unique<Device>(id, visible_devices()[static_cast<size_t>(id)], capacity_option());
  if (!open_window() || !give_memory(device.get())) {
    *error = fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
                  "cannot reserve %llu bytes of address space for device %d: %s (see ulimit -v and -f, and SOFTCANN_MEMORY)",
                  static_cast<unsigned long long>(device->arena.capacity()), id, std::strerror(errno));
    return nullptr;
  }
  fault::watch_forks();
  DeviceStatus& status = own_status().devices[device->physical];
  status.capacity.store(device->arena.capacity());
  device->arena.publish_used(&status.used);
  status.open.store(1);
  device->primary.device = device.get();
  device->primary.primary = true;
  device->primary.default_stream = Stream::create(&device->primary, 0, 0);
  device->primary.begin_life();
  r.devices[id].store(device.get(), std::memory_order_release);
  SOFTCANN_LOG(ACL_INFO, "RUNTIME", "device %d was opened: %s with %llu MiB", id, options().soc.c_str(),
               static_cast<unsigned long long>(device->arena.capacity() >> 20));
  return device.release();
}

int current_device() { return this_context != nullptr ? this_context->device->id : -1; }

aclError no_context(const char* entry) {
  if (current_context() != nullptr) {
    return fail(ACL_ERROR_RT_CONTEXT_NULL,
                "%s: this thread's context was destroyed; call aclrtSetDevice or aclrtSetCurrentContext", entry);
  }
  return fail(ACL_ERROR_RT_CONTEXT_NULL, "%s: this thread has no context; call aclrtSetDevice first", entry);
}

Device* device_or_first(aclError* error) {
  if (const Context* context = current_context()) return context->device;
  return open_device(0, error);
}

std::vector<Stream*> streams_of(Device* device) {
  std::lock_guard<std::mutex> lock(device->mutex);
  return device->streams;
}

}  // namespace softcann
