// What SOFTCANN_TRACE tells of an operator's launch, and SOFTCANN_RECORD of what it did.
#pragma once

#include "op/executor.h"

namespace softcann::op {

// Writes a line "launch {...}": JSON with the operator, the stream and each argument as the client gave it.
void trace_launch(const aclOpExecutor& executor, aclrtStream stream);

// With SOFTCANN_RECORD, once it has run.
void record_operator(const aclOpExecutor& executor);

}  // namespace softcann::op
