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

aclError not_built(const char* entry) {
  return fail(
      ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
      "%s: softcann makes graphs by capture only: aclmdlRICaptureBegin and aclmdlRICaptureEnd; other streams join by events",
      entry);
}

aclError no_tasks(const char* entry) {
  return fail(
      ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
      "%s: a graph's tasks are operators of softcann, not kernels with parameters to look at or to change; replace them with "
      "aclmdlRICaptureTaskUpdateBegin, list them with aclmdlRIDebugJsonPrint",
      entry);
}

}  // namespace

extern "C" {

aclError aclmdlRIAbort(aclmdlRI) {
  SOFTCANN_ENTRY(aclmdlRIAbort);
  return fail(
      ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
      "aclmdlRIAbort: a graph that runs is not stopped alone: aclrtStreamAbort stops its stream, aclrtDeviceTaskAbort the "
      "device");
}

SOFTCANN_REFUSED(aclmdlRIBuildBegin, not_built, aclmdlRI*, uint32_t)
SOFTCANN_REFUSED(aclmdlRIBindStream, not_built, aclmdlRI, aclrtStream, uint32_t)
SOFTCANN_REFUSED(aclmdlRIUnbindStream, not_built, aclmdlRI, aclrtStream)
SOFTCANN_REFUSED(aclmdlRIEndTask, not_built, aclmdlRI, aclrtStream)
SOFTCANN_REFUSED(aclmdlRIBuildEnd, not_built, aclmdlRI, void*)
SOFTCANN_REFUSED(aclmdlRIGetStreams, no_tasks, aclmdlRI, aclrtStream*, uint32_t*)
SOFTCANN_REFUSED(aclmdlRIGetTasksByStream, no_tasks, aclrtStream, aclmdlRITask*, uint32_t*)
SOFTCANN_REFUSED(aclmdlRITaskGetType, no_tasks, aclmdlRITask, aclmdlRITaskType*)
SOFTCANN_REFUSED(aclmdlRITaskGetSeqId, no_tasks, aclmdlRITask, uint32_t*)
SOFTCANN_REFUSED(aclmdlRITaskGetParams, no_tasks, aclmdlRITask, aclmdlRITaskParams*)
SOFTCANN_REFUSED(aclmdlRITaskSetParams, no_tasks, aclmdlRITask, aclmdlRITaskParams*)
SOFTCANN_REFUSED(aclmdlRITaskDisable, no_tasks, aclmdlRITask)
SOFTCANN_REFUSED(aclmdlRIKernelTaskGetAttribute, no_tasks, aclmdlRITask, aclrtLaunchKernelAttrId, aclrtLaunchKernelAttrValue*)
SOFTCANN_REFUSED(aclmdlRIUpdate, no_tasks, aclmdlRI)
}
