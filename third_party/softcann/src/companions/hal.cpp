// libascend_hal: what clients ask of the driver beside CANN. Only this much: profilers want to know whether the host has a
// counter with a frequency of its own by which to tell the time.
#include <cstdint>

#include "rt/runtime.h"

using namespace softcann;

namespace {

// The first version whose halGetDeviceInfo() knows frequencies.
constexpr int kVersion = 0x071905;
constexpr int kNone = 0, kInvalidDevice = 1, kInvalidValue = 3, kNotSupported = 0xfffe;

}  // namespace

#pragma GCC visibility push(default)
extern "C" {
int halGetAPIVersion(int* halAPIVersion);
int halGetDeviceInfo(uint32_t devId, int32_t moduleType, int32_t infoType, int64_t* value);
}
#pragma GCC visibility pop

extern "C" {

int halGetAPIVersion(int* halAPIVersion) {
  SOFTCANN_ENTRY(halGetAPIVersion);
  if (halAPIVersion == nullptr) return kInvalidValue;
  *halAPIVersion = kVersion;
  return kNone;
}

int halGetDeviceInfo(uint32_t devId, int32_t, int32_t, int64_t* value) {
  SOFTCANN_ENTRY(halGetDeviceInfo);
  if (value == nullptr) return kInvalidValue;
  if (devId >= options().device_count) return kInvalidDevice;
  return kNotSupported;
}
}
