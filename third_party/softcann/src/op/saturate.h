// Arithmetic of devices without inf and nan; see Note [Saturation] in rt/device/overflow.h.
#pragma once

#include "op/executor.h"

namespace softcann::op {

// Whether the operator is given an inf or nan, in a tensor or as a number. A client put it there: moving it about is no
// overflow, and the results are left as they are.
bool reads_nonfinite(const aclOpExecutor& executor);
bool reads_nonfinite(at::TensorList tensors);

// Clamps what the kernel has just written: inf to the largest number of the type, nan to 0. Sets the device's flag when
// there was something to clamp.
void saturate_results(const aclOpExecutor& executor);
void saturate_results(at::TensorList tensors);

}  // namespace softcann::op
