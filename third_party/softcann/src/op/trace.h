// What SOFTCANN_TRACE tells of an operator's launch.
#pragma once

#include "op/executor.h"

namespace softcann::op {

// Writes a line "launch {...}": JSON with the operator, the stream and each argument as the client gave it.
void trace_launch(const aclOpExecutor& executor, aclrtStream stream);

}  // namespace softcann::op
