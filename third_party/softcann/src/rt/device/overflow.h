// The overflow flag of devices whose arithmetic saturates.
//
// Note [Saturation]
// A chip without inf and nan (Ascend910A, 310P), or one that aclrtSetDeviceSatMode made behave so, clamps what is too
// large for a type to the type's largest value. Nothing in the results tells that this has happened, so the device keeps
// a flag, which stays set until it is reset. Clients read and reset it in the order of a stream, and say which streams
// set it (aclrtSetStreamOverflowSwitch); without a word, all of them.
#pragma once

#include "rt/runtime.h"

namespace softcann {

// Sets the flag of the device whose task this thread is running. Any other thread: does nothing.
SOFTCANN_API void note_overflow();
// For tasks that read and reset it: the flag of the device whose task this thread is running.
SOFTCANN_API bool overflow_noted();
SOFTCANN_API void reset_overflow();

}  // namespace softcann
