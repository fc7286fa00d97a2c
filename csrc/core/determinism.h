// CANN's own switch for kernels whose results do not depend on the order in which their parts finish.
#pragma once

#include <c10/macros/Export.h>

namespace torch_npu::core {

// Tells CANN what torch.use_deterministic_algorithms says now. Nothing happens before the first use of a device, which asks
// again.
C10_EXPORT void follow_determinism();

}  // namespace torch_npu::core
