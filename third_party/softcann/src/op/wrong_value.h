// Results that are wrong on demand.
//
// Note [Wrong values]
// A kernel that fails is told by its code; one that computes something wrong is told by nobody, and what finds it (shadow mode,
// comparisons of dumps, checks for NaN, replays) needs one to be tried with. SOFTCANN_FAULT=aclnnMm:nth=2:value=nan puts that
// number into the last element of what the second product writes, as a faulty core would: the launch and the stream are well.
#pragma once

struct aclOpExecutor;

namespace softcann::op {

// After the operator computed, while faults are armed. Of several results the first that has elements.
void inject_wrong_value(const aclOpExecutor& executor);

}  // namespace softcann::op
