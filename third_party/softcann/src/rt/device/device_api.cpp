// Devices and contexts, as clients call them.
#include <string>
#include <thread>

#include "rt/graph/capture.h"
#include "rt/device/device.h"
#include "rt/base/error.h"
#include "rt/stream/event.h"
#include "rt/memory/memory.h"
#include "rt/process/exit.h"
#include "rt/base/handles.h"
#include "rt/profile/collector.h"
#include "rt/stream/state_callbacks.h"
#include "rt/stream/stream.h"
#include "rt/base/sync.h"

using namespace softcann;

namespace {

aclError synchronize_device(const char* entry, Device* device, int64_t timeout_ns) {
  const int64_t deadline = timeout_ns < 0 ? -1 : now_ns() + timeout_ns;
  aclError first = ACL_SUCCESS;
  std::string text;
  for (Stream* stream : streams_of(device)) {
    if (__builtin_expect(stream->capture() != nullptr, 0)) return refuse_in_capture(stream, entry);
    const int64_t left = timeout_ns < 0 ? -1 : std::max<int64_t>(0, deadline - now_ns());
    const aclError code = stream->synchronize(left);
    if (code == ACL_SUCCESS || first != ACL_SUCCESS) continue;
    first = code;
    text = take_recent_error();
  }
  // Of several streams that failed, the first one's code comes with its own text.
  return first == ACL_SUCCESS ? first : fail(first, "%s", text.c_str());
}

// Contexts other than the primary ones.
struct ContextPool {
  std::mutex mutex;
  HandleBlocks<Context> contexts;
};

ContextPool& context_pool() {
  static auto* instance = new ContextPool;
  return *instance;
}

Context* primary_context(const void* handle) {
  for (int i = 0; i < device_count(); ++i) {
    Device* device = find_device(i);
    if (device != nullptr && device->primary.known_as(handle)) return &device->primary;
  }
  return nullptr;
}

Context* context_from_handle(aclrtContext handle, const char* entry, aclError* error) {
  Context* context = context_pool().contexts.find(handle);
  if (context == nullptr && handle != nullptr) context = primary_context(handle);
  if (context == nullptr) {
    *error = fail(handle == nullptr ? ACL_ERROR_INVALID_PARAM : ACL_ERROR_RT_INVALID_HANDLE, "%s: context %p does not exist",
                  entry, handle);
  }
  return context;
}

// However the abort of a device's tasks ended.
struct AbortEnds {
  int device;
  uint32_t timeout;
  ~AbortEnds() { tell_abort(device, ACL_RT_DEVICE_TASK_ABORT_POST, timeout); }
};

aclError reset(int id, bool force, const char* entry) {
  Device* device = find_device(id);
  if (const aclError code = check_device(entry, id)) return code;
  if (device == nullptr) return ACL_SUCCESS;
  tell_device_state(id, ACL_RT_DEVICE_STATE_RESET_PRE);
  synchronize_device(entry, device, -1);
  {
    std::lock_guard<std::mutex> lock(device->mutex);
    device->users = force ? 0 : std::max(0, device->users - 1);
  }
  // Memory and streams stay until the process ends, as other threads and static destructors may still hold them.
  if (current_context() == &device->primary) set_current_context(nullptr);
  tell_device_state(id, ACL_RT_DEVICE_STATE_RESET_POST);
  return ACL_SUCCESS;
}

}  // namespace

extern "C" {

aclError aclrtGetDeviceCount(uint32_t* count) {
  SOFTCANN_ENTRY(aclrtGetDeviceCount);
  SOFTCANN_REQUIRE(count, "count");
  if (!options().error.empty()) return fail(ACL_ERROR_INVALID_PARAM, "%s", options().error.c_str());
  *count = static_cast<uint32_t>(device_count());
  if (*count == 0) {
    return fail(ACL_ERROR_RT_NO_DEVICE, "aclrtGetDeviceCount: ASCEND_RT_VISIBLE_DEVICES=%s shows no device",
                options().visible_devices.c_str());
  }
  return ACL_SUCCESS;
}

aclError aclrtSetDevice(int32_t deviceId) {
  SOFTCANN_ENTRY(aclrtSetDevice);
  const recorder::Call call;
  const Device* known = find_device(deviceId);
  if (known != nullptr && current_context() == &known->primary) return ACL_SUCCESS;
  if (const aclError code = check_configured(deviceId)) return code;
  tell_device_state(deviceId, ACL_RT_DEVICE_STATE_SET_PRE);
  aclError error = ACL_SUCCESS;
  Device* device = open_device(deviceId, &error);
  if (device == nullptr) return error;
  watch_exit();
  {
    std::lock_guard<std::mutex> lock(device->mutex);
    ++device->users;
  }
  set_current_context(&device->primary);
  tell_device_state(deviceId, ACL_RT_DEVICE_STATE_SET_POST);
  return ACL_SUCCESS;
}

aclError aclrtGetDevice(int32_t* deviceId) {
  SOFTCANN_ENTRY(aclrtGetDevice);
  SOFTCANN_REQUIRE(deviceId, "deviceId");
  SOFTCANN_CONTEXT(context, "aclrtGetDevice");
  *deviceId = context->device->id;
  return ACL_SUCCESS;
}

aclError aclrtResetDevice(int32_t deviceId) {
  SOFTCANN_ENTRY(aclrtResetDevice);
  const recorder::Call call;
  return reset(deviceId, false, "aclrtResetDevice");
}

aclError aclrtResetDeviceForce(int32_t deviceId) {
  SOFTCANN_ENTRY(aclrtResetDeviceForce);
  const recorder::Call call;
  return reset(deviceId, true, "aclrtResetDeviceForce");
}

aclError aclrtSynchronizeDevice() {
  SOFTCANN_ENTRY(aclrtSynchronizeDevice);
  const recorder::Call call;
  SOFTCANN_CONTEXT(context, "aclrtSynchronizeDevice");
  return synchronize_device("aclrtSynchronizeDevice", context->device, -1);
}

aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout) {
  SOFTCANN_ENTRY(aclrtSynchronizeDeviceWithTimeout);
  const recorder::Call call;
  SOFTCANN_CONTEXT(context, "aclrtSynchronizeDeviceWithTimeout");
  if (timeout < -1) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtSynchronizeDeviceWithTimeout: timeout %d; -1 is without limit", timeout);
  }
  return synchronize_device("aclrtSynchronizeDeviceWithTimeout", context->device, timeout < 0 ? -1 : int64_t{timeout} * 1000000);
}

// Queued work is dropped, and the streams that had some say so to who synchronizes them next.
aclError aclrtDeviceTaskAbort(int32_t deviceId, uint32_t timeout) {
  SOFTCANN_ENTRY(aclrtDeviceTaskAbort);
  if (const aclError code = check_device("aclrtDeviceTaskAbort", deviceId)) return code;
  Device* device = find_device(deviceId);
  if (device == nullptr) return ACL_SUCCESS;
  tell_abort(deviceId, ACL_RT_DEVICE_TASK_ABORT_PRE, timeout);
  const AbortEnds ends{deviceId, timeout};
  std::vector<Stream*> busy;
  for (Stream* stream : streams_of(device)) {
    if (stream->idle()) continue;
    if (stream == Stream::running()) {
      return fail(ACL_ERROR_INVALID_PARAM, "aclrtDeviceTaskAbort: called by a task of stream %d, which it would wait for",
                  stream->id);
    }
    stream->begin_abort();
    busy.push_back(stream);
  }
  const int64_t deadline = timeout == 0 ? INT64_MAX : now_ns() + int64_t{timeout} * 1000000;
  for (Stream* stream : busy) {
    while (!stream->idle() && now_ns() < deadline) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  Stream* late = nullptr;
  for (Stream* stream : busy) {
    if (!stream->idle()) late = stream;
    stream->end_abort();
    stream->set_error(ACL_ERROR_RT_DEVICE_TASK_ABORT, "aclrtDeviceTaskAbort", "its tasks were aborted");
  }
  device->failure.store(ACL_SUCCESS, std::memory_order_release);
  if (late == nullptr) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "aclrtDeviceTaskAbort: a task of stream %d did not end within %u ms", late->id,
              timeout);
}

// The memory is the machine's: an error in it that cannot be corrected ends the process by the kernel's hand.
aclError aclrtGetMemUceInfo(int32_t deviceId, aclrtMemUceInfo* memUceInfoArray, size_t arraySize, size_t* retSize) {
  SOFTCANN_ENTRY(aclrtGetMemUceInfo);
  SOFTCANN_REQUIRE(retSize, "retSize");
  if (const aclError code = check_device("aclrtGetMemUceInfo", deviceId)) return code;
  if (arraySize != 0) SOFTCANN_REQUIRE(memUceInfoArray, "memUceInfoArray");
  *retSize = 0;
  return ACL_SUCCESS;
}

aclError aclrtCreateContext(aclrtContext* context, int32_t deviceId) {
  SOFTCANN_ENTRY(aclrtCreateContext);
  const recorder::Call call;
  SOFTCANN_REQUIRE(context, "context");
  aclError error = ACL_SUCCESS;
  Device* device = open_device(deviceId, &error);
  if (device == nullptr) return error;
  Context* created = nullptr;
  {
    std::lock_guard<std::mutex> lock(context_pool().mutex);
    created = context_pool().contexts.add();
  }
  created->device = device;
  created->default_stream = Stream::create(created, 0, 0);
  *context = created->begin_life();
  set_current_context(created);
  return ACL_SUCCESS;
}

aclError aclrtDestroyContext(aclrtContext context) {
  SOFTCANN_ENTRY(aclrtDestroyContext);
  const recorder::Call call;
  aclError error = ACL_SUCCESS;
  Context* found = context_from_handle(context, "aclrtDestroyContext", &error);
  if (found == nullptr) return error;
  if (found->primary) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtDestroyContext: a device's default context ends with aclrtResetDevice");
  }
  if (!found->end_life()) {
    return fail(ACL_ERROR_RT_INVALID_HANDLE, "aclrtDestroyContext: context %p was destroyed by another thread", context);
  }
  found->default_stream = nullptr;
  for (Stream* stream : streams_of(found->device)) {
    if (stream->context == found) stream->destroy();
  }
  if (current_context() == found) set_current_context(nullptr);
  return ACL_SUCCESS;
}

aclError aclrtSetCurrentContext(aclrtContext context) {
  SOFTCANN_ENTRY(aclrtSetCurrentContext);
  aclError error = ACL_SUCCESS;
  Context* found = context_from_handle(context, "aclrtSetCurrentContext", &error);
  if (found == nullptr) return error;
  set_current_context(found);
  return ACL_SUCCESS;
}

aclError aclrtGetCurrentContext(aclrtContext* context) {
  SOFTCANN_ENTRY(aclrtGetCurrentContext);
  SOFTCANN_REQUIRE(context, "context");
  SOFTCANN_CONTEXT(current, "aclrtGetCurrentContext");
  *context = current->handle();
  return ACL_SUCCESS;
}

aclError aclrtCtxGetCurrentDefaultStream(aclrtStream* stream) {
  SOFTCANN_ENTRY(aclrtCtxGetCurrentDefaultStream);
  SOFTCANN_REQUIRE(stream, "stream");
  SOFTCANN_CONTEXT(context, "aclrtCtxGetCurrentDefaultStream");
  *stream = context->default_stream->handle();
  return ACL_SUCCESS;
}

aclError aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t* flags, int32_t* active) {
  SOFTCANN_ENTRY(aclrtGetPrimaryCtxState);
  if (const aclError code = check_device("aclrtGetPrimaryCtxState", deviceId)) return code;
  Device* device = find_device(deviceId);
  if (flags != nullptr) *flags = 0;
  if (active != nullptr) {
    *active = 0;
    if (device != nullptr) {
      std::lock_guard<std::mutex> lock(device->mutex);
      *active = device->users > 0 ? 1 : 0;
    }
  }
  return ACL_SUCCESS;
}

aclError aclrtDeviceCanAccessPeer(int32_t* canAccessPeer, int32_t deviceId, int32_t peerDeviceId) {
  SOFTCANN_ENTRY(aclrtDeviceCanAccessPeer);
  SOFTCANN_REQUIRE(canAccessPeer, "canAccessPeer");
  if (const aclError code = check_device("aclrtDeviceCanAccessPeer", deviceId)) return code;
  if (const aclError code = check_device("aclrtDeviceCanAccessPeer", peerDeviceId)) return code;
  *canAccessPeer = deviceId != peerDeviceId ? 1 : 0;
  return ACL_SUCCESS;
}

aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags) {
  SOFTCANN_ENTRY(aclrtDeviceEnablePeerAccess);
  SOFTCANN_CONTEXT(context, "aclrtDeviceEnablePeerAccess");
  if (flags != 0) return fail(ACL_ERROR_INVALID_PARAM, "aclrtDeviceEnablePeerAccess: flags must be 0");
  if (peerDeviceId == context->device->id) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtDeviceEnablePeerAccess: a device is no peer of itself");
  }
  // Memory of all devices is in one window: nothing is left to do but to open the peer, as the driver would.
  aclError error = ACL_SUCCESS;
  return open_device(peerDeviceId, &error) != nullptr ? ACL_SUCCESS : error;
}

// Memory of all devices is mapped for all of them from the start: what is to be mapped has to be there, and the peer.
aclError aclrtMemP2PMap(void* devPtr, size_t size, int32_t dstDevId, uint64_t flags) {
  SOFTCANN_ENTRY(aclrtMemP2PMap);
  SOFTCANN_REQUIRE(devPtr, "devPtr");
  if (size == 0 || flags != 0) return fail(ACL_ERROR_INVALID_PARAM, "aclrtMemP2PMap: no bytes, or flags are not 0");
  if (!is_device_pointer(devPtr)) return fail(ACL_ERROR_INVALID_PARAM, "aclrtMemP2PMap: %p is not device memory", devPtr);
  if (const aclError code = check_device_range(devPtr, size)) return code;
  if (device_of(devPtr) == dstDevId) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtMemP2PMap: the memory is of device %d itself", dstDevId);
  }
  aclError error = ACL_SUCCESS;
  return open_device(dstDevId, &error) != nullptr ? ACL_SUCCESS : error;
}

aclError aclrtDeviceDisablePeerAccess(int32_t peerDeviceId) {
  SOFTCANN_ENTRY(aclrtDeviceDisablePeerAccess);
  SOFTCANN_CONTEXT(context, "aclrtDeviceDisablePeerAccess");
  if (const aclError code = check_device("aclrtDeviceDisablePeerAccess", peerDeviceId)) return code;
  if (peerDeviceId == context->device->id) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtDeviceDisablePeerAccess: a device is no peer of itself");
  }
  return ACL_SUCCESS;  // the peer stays in the window, where the access was never more than allowed
}

aclError aclrtGetLogicDevIdByUserDevId(int32_t userDevid, int32_t* logicDevId) {
  SOFTCANN_ENTRY(aclrtGetLogicDevIdByUserDevId);
  SOFTCANN_REQUIRE(logicDevId, "logicDevId");
  if (const aclError code = check_device("aclrtGetLogicDevIdByUserDevId", userDevid)) return code;
  *logicDevId = physical_device(userDevid);
  return ACL_SUCCESS;
}
}
