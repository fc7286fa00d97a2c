// CANN's own switch for kernels whose results do not depend on the order in which their parts finish.
#pragma once

#include <c10/macros/Export.h>

namespace torch_npu::core {

// Tells CANN what torch.use_deterministic_algorithms says now. Nothing happens before the first use of a device, which asks
// again.
C10_EXPORT void follow_determinism();

// How far: 0, results may differ from run to run; 1, they repeat; 2, the same numbers give the same result wherever they stand in
// a tensor; 3, whatever the size of the batch. follow_determinism() puts it into effect, and makes it 0 where
// torch.use_deterministic_algorithms says no, at least 1 where it says yes.
C10_EXPORT void set_deterministic_level(int wanted);
C10_EXPORT int deterministic_level();

}  // namespace torch_npu::core
