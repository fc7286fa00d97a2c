#include "rt/stream/state_callbacks.h"

#include "rt/base/named_callbacks.h"

using namespace softcann;

namespace {

template <class Function>
NamedCallbacks<Function>& callbacks() {
  static auto* all = new NamedCallbacks<Function>;
  return *all;
}

}  // namespace

void softcann::tell_stream_state(aclrtStream stream, aclrtStreamState state) {
  callbacks<aclrtStreamStateCallback>().each([&](auto function, void* argument) { function(stream, state, argument); });
}

void softcann::tell_device_state(int device, aclrtDeviceState state) {
  callbacks<aclrtDeviceStateCallback>().each([&](auto function, void* argument) { function(device, state, argument); });
}

void softcann::tell_abort(int device, aclrtDeviceTaskAbortStage stage, uint32_t timeout) {
  callbacks<aclrtDeviceTaskAbortCallback>().each(
      [&](auto function, void* argument) { function(device, stage, timeout, argument); });
}

extern "C" {

aclError aclrtRegStreamStateCallback(const char* regName, aclrtStreamStateCallback callback, void* args) {
  SOFTCANN_ENTRY(aclrtRegStreamStateCallback);
  return callbacks<aclrtStreamStateCallback>().set("aclrtRegStreamStateCallback", regName, callback, args);
}

aclError aclrtRegDeviceStateCallback(const char* regName, aclrtDeviceStateCallback callback, void* args) {
  SOFTCANN_ENTRY(aclrtRegDeviceStateCallback);
  return callbacks<aclrtDeviceStateCallback>().set("aclrtRegDeviceStateCallback", regName, callback, args);
}

aclError aclrtSetDeviceTaskAbortCallback(const char* regName, aclrtDeviceTaskAbortCallback callback, void* args) {
  SOFTCANN_ENTRY(aclrtSetDeviceTaskAbortCallback);
  return callbacks<aclrtDeviceTaskAbortCallback>().set("aclrtSetDeviceTaskAbortCallback", regName, callback, args);
}
}
