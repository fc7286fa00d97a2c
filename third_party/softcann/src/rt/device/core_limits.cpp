// How many cores a device or a stream may use: kept and told. A software device has none to divide.
#include "rt/device/core_limits.h"

#include <map>
#include <mutex>

#include "rt/device/device.h"
#include "rt/base/soc_spec.h"
#include "rt/stream/stream.h"

using namespace softcann;

namespace {

using Limits = std::map<aclrtDevResLimitType, uint32_t>;

struct Table {
  std::mutex mutex;
  std::map<int, Limits> devices;
  std::map<aclrtStream, Limits> streams;
};
Table& table() {
  static Table& made = *new Table;  // streams may outlive static objects
  return made;
}
thread_local aclrtStream stream_of_thread = nullptr;

// How many there are; 0 for a kind that there is not.
uint32_t cores(aclrtDevResLimitType type) {
  if (type == ACL_RT_DEV_RES_CUBE_CORE) return static_cast<uint32_t>(persona().cube_cores);
  if (type == ACL_RT_DEV_RES_VECTOR_CORE) return static_cast<uint32_t>(persona().vector_cores);
  return 0;
}
aclError check_value(const char* entry, aclrtDevResLimitType type, uint32_t value) {
  if (value > 0 && value <= cores(type)) return ACL_SUCCESS;
  return fail(ACL_ERROR_INVALID_PARAM, "%s: %u cores of kind %d; the device has %u", entry, value, static_cast<int>(type),
              cores(type));
}
// The stream's own limit, or its device's, or all.
uint32_t limit_of(int device, aclrtStream stream, aclrtDevResLimitType type) {
  Table& known = table();
  std::lock_guard<std::mutex> lock(known.mutex);
  if (const auto found = known.streams.find(stream); stream != nullptr && found != known.streams.end()) {
    if (const auto limit = found->second.find(type); limit != found->second.end()) return limit->second;
  }
  if (const auto found = known.devices.find(device); found != known.devices.end()) {
    if (const auto limit = found->second.find(type); limit != found->second.end()) return limit->second;
  }
  return cores(type);
}
aclError check_kind(const char* entry, aclrtDevResLimitType type) {
  if (cores(type) != 0) return ACL_SUCCESS;
  return fail(ACL_ERROR_INVALID_PARAM, "%s: unknown kind of core %d", entry, static_cast<int>(type));
}

}  // namespace

void softcann::forget_core_limits(aclrtStream stream) {
  std::lock_guard<std::mutex> lock(table().mutex);
  table().streams.erase(stream);
}

extern "C" {

aclError aclrtGetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t* value) {
  SOFTCANN_ENTRY(aclrtGetDeviceResLimit);
  SOFTCANN_REQUIRE(value, "value");
  if (const aclError code = check_device("aclrtGetDeviceResLimit", deviceId)) return code;
  if (const aclError code = check_kind("aclrtGetDeviceResLimit", type)) return code;
  *value = limit_of(deviceId, nullptr, type);
  return ACL_SUCCESS;
}

aclError aclrtSetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t value) {
  SOFTCANN_ENTRY(aclrtSetDeviceResLimit);
  if (const aclError code = check_device("aclrtSetDeviceResLimit", deviceId)) return code;
  if (const aclError code = check_value("aclrtSetDeviceResLimit", type, value)) return code;
  std::lock_guard<std::mutex> lock(table().mutex);
  table().devices[deviceId][type] = value;
  return ACL_SUCCESS;
}

aclError aclrtResetDeviceResLimit(int32_t deviceId) {
  SOFTCANN_ENTRY(aclrtResetDeviceResLimit);
  if (const aclError code = check_device("aclrtResetDeviceResLimit", deviceId)) return code;
  std::lock_guard<std::mutex> lock(table().mutex);
  table().devices.erase(deviceId);
  return ACL_SUCCESS;
}

aclError aclrtGetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t* value) {
  SOFTCANN_ENTRY(aclrtGetStreamResLimit);
  SOFTCANN_REQUIRE(value, "value");
  STREAM_OR_RETURN(found, stream);
  if (const aclError code = check_kind("aclrtGetStreamResLimit", type)) return code;
  *value = limit_of(found->context->device->id, found->handle(), type);
  return ACL_SUCCESS;
}

aclError aclrtSetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t value) {
  SOFTCANN_ENTRY(aclrtSetStreamResLimit);
  STREAM_OR_RETURN(found, stream);
  if (const aclError code = check_value("aclrtSetStreamResLimit", type, value)) return code;
  std::lock_guard<std::mutex> lock(table().mutex);
  table().streams[found->handle()][type] = value;
  return ACL_SUCCESS;
}

aclError aclrtResetStreamResLimit(aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtResetStreamResLimit);
  STREAM_OR_RETURN(found, stream);
  std::lock_guard<std::mutex> lock(table().mutex);
  table().streams.erase(found->handle());
  return ACL_SUCCESS;
}

aclError aclrtUseStreamResInCurrentThread(aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtUseStreamResInCurrentThread);
  STREAM_OR_RETURN(found, stream);
  stream_of_thread = found->handle();
  return ACL_SUCCESS;
}

aclError aclrtUnuseStreamResInCurrentThread(aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtUnuseStreamResInCurrentThread);
  STREAM_OR_RETURN(found, stream);
  if (stream_of_thread == found->handle()) stream_of_thread = nullptr;
  return ACL_SUCCESS;
}

aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t* value) {
  SOFTCANN_ENTRY(aclrtGetResInCurrentThread);
  SOFTCANN_REQUIRE(value, "value");
  SOFTCANN_CONTEXT(context, "aclrtGetResInCurrentThread");
  if (const aclError code = check_kind("aclrtGetResInCurrentThread", type)) return code;
  *value = limit_of(context->device->id, stream_of_thread, type);
  return ACL_SUCCESS;
}
}
