// What a dump (rt/dump/dump.h) wants of operators.
#pragma once

#include <ATen/core/Tensor.h>

#include "rt/dump/dump.h"

struct aclOpExecutor;

namespace softcann::op {

struct DumpedCall;
// Around the computation of an operator, while something is dumped. Null: not this one.
DumpedCall* begin_dump(const aclOpExecutor& executor);
void end_dump(DumpedCall* call, const aclOpExecutor& executor, bool failed);
// After one that failed, where only these are dumped.
void dump_failure(const aclOpExecutor& executor);

// The values of a tensor now; `type` and `format` are the client's.
SOFTCANN_API dump::Tensor dumped_tensor(const at::Tensor& tensor, bool written, std::string name, aclDataType type,
                                        const char* format);

}  // namespace softcann::op
