// Entry points of graphs that softcann refuses: each says why, and what to do instead.
#include "rt/base/error.h"
#include "rt/runtime.h"

using namespace softcann;

// Interfaces of CANN that are not part of acl/acl_rt.h here.
#pragma GCC visibility push(default)
extern "C" {
struct aclmdlRITaskParams;
aclError aclmdlRITaskGetParams(aclmdlRITask task, aclmdlRITaskParams* params);
aclError aclmdlRITaskSetParams(aclmdlRITask task, aclmdlRITaskParams* params);
}
#pragma GCC visibility pop

namespace {

aclError no_tasks(const char* entry) {
  return fail(
      ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
      "%s: a graph's tasks are operators of softcann, not kernels with parameters to look at or to change; replace them with "
      "aclmdlRICaptureTaskUpdateBegin, list them with aclmdlRIDebugJsonPrint",
      entry);
}

}  // namespace

extern "C" {

SOFTCANN_REFUSED(aclmdlRIGetTasksByStream, no_tasks, aclrtStream, aclmdlRITask*, uint32_t*)
SOFTCANN_REFUSED(aclmdlRITaskGetType, no_tasks, aclmdlRITask, aclmdlRITaskType*)
SOFTCANN_REFUSED(aclmdlRITaskGetSeqId, no_tasks, aclmdlRITask, uint32_t*)
SOFTCANN_REFUSED(aclmdlRITaskGetParams, no_tasks, aclmdlRITask, aclmdlRITaskParams*)
SOFTCANN_REFUSED(aclmdlRITaskSetParams, no_tasks, aclmdlRITask, aclmdlRITaskParams*)
SOFTCANN_REFUSED(aclmdlRITaskDisable, no_tasks, aclmdlRITask)
SOFTCANN_REFUSED(aclmdlRIKernelTaskGetAttribute, no_tasks, aclmdlRITask, aclrtLaunchKernelAttrId, aclrtLaunchKernelAttrValue*)
SOFTCANN_REFUSED(aclmdlRIUpdate, no_tasks, aclmdlRI)
}
