// What happens to a number that is too large for its type.
//
// Note [Overflow]
// Chips from Ascend910B on follow IEEE 754: an overflow gives inf, which spreads to the gradients, where loss scaling
// finds it. Older ones, and newer ones with INF_NAN_MODE_ENABLE=0, saturate: the result is the largest number of the
// type, and the only trace is a flag of the device, which stays set until it is reset. Loss scaling asks that flag too,
// in the order of the stream and without waiting: the status is written to device memory.
#pragma once

#include <cstddef>

#include <c10/macros/Export.h>

#include "acl/acl.h"

namespace torch_npu::core {

inline constexpr size_t kOverflowStatusBytes = 64;

// Whether the chip can compute with inf and nan. Initialises the device.
C10_EXPORT bool chip_has_inf_nan();

// Whether arithmetic saturates on the devices of this process. Initialises the device.
C10_EXPORT bool saturates();

// Tells the current device, which has just been opened, how to compute.
C10_EXPORT void set_overflow_mode();

// On the stream: writes kOverflowStatusBytes to device memory, the first 32-bit word not 0 after an overflow.
C10_EXPORT void read_overflow(void* status, aclrtStream stream);
// On the stream: resets the flag.
C10_EXPORT void reset_overflow(aclrtStream stream);

}  // namespace torch_npu::core
