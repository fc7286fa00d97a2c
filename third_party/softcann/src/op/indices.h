// Indices that operators find in tensors.
#pragma once

#include "op/executor.h"

namespace softcann::op {

// For an operator whose kernel has failed: whether one of its indices leads out of the tensor that it is to lead into. False
// for operators that take no indices.
bool indices_lead_outside(const aclOpExecutor& executor);

// Whether the operator reaches the parameter through such indices, and so perhaps only a part of it.
bool reached_by_index(const OpInfo& info, int parameter);

}  // namespace softcann::op
