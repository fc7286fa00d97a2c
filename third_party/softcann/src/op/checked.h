// SOFTCANN_CHECK for operators: what they read and write.
#pragma once

#include "op/executor.h"
#include "rt/memory/check.h"

namespace softcann::op {

// Throws Error where the operator would read device memory that was never written.
void refuse_unwritten(const aclOpExecutor& executor);
// All that its outputs reach is written from now on.
void note_results(const aclOpExecutor& executor);
// Its memory is in use until check::forget_accesses(&executor).
void note_accesses(const aclOpExecutor& executor);

}  // namespace softcann::op
