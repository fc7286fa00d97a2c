// Who wants to know of streams that clients make and destroy (aclrtRegStreamStateCallback), of devices they set and reset
// (aclrtRegDeviceStateCallback), and of the abort of a device's tasks (aclrtSetDeviceTaskAbortCallback).
#pragma once

#include "rt/runtime.h"

namespace softcann {

// Each calls them all in this thread, in the order of their names. No lock may be held.
void tell_stream_state(aclrtStream stream, aclrtStreamState state);
void tell_device_state(int device, aclrtDeviceState state);
void tell_abort(int device, aclrtDeviceTaskAbortStage stage, uint32_t timeout);

}  // namespace softcann
