// What the profiler wants to know of an operator before it is launched.
#pragma once

#include "rt/profile/collector.h"

struct aclOpExecutor;

namespace softcann::op {

// Shapes, types and formats of its tensors; called only while somebody records.
void note_operands(const aclOpExecutor& executor);

}  // namespace softcann::op
