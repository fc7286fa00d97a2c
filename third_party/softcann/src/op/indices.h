// Indices that operators find in tensors.
#pragma once

#include "op/executor.h"

namespace softcann::op {

// For an operator whose kernel has failed: whether one of its indices leads out of the tensor that it is to lead into. False
// for operators that take no indices.
bool indices_lead_outside(const aclOpExecutor& executor);

}  // namespace softcann::op
