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

aclError aclmdlRIBuildBegin(aclmdlRI*, uint32_t) {
  SOFTCANN_ENTRY(aclmdlRIBuildBegin);
  return not_built("aclmdlRIBuildBegin");
}

aclError aclmdlRIBindStream(aclmdlRI, aclrtStream, uint32_t) {
  SOFTCANN_ENTRY(aclmdlRIBindStream);
  return not_built("aclmdlRIBindStream");
}

aclError aclmdlRIUnbindStream(aclmdlRI, aclrtStream) {
  SOFTCANN_ENTRY(aclmdlRIUnbindStream);
  return not_built("aclmdlRIUnbindStream");
}

aclError aclmdlRIEndTask(aclmdlRI, aclrtStream) {
  SOFTCANN_ENTRY(aclmdlRIEndTask);
  return not_built("aclmdlRIEndTask");
}

aclError aclmdlRIBuildEnd(aclmdlRI, void*) {
  SOFTCANN_ENTRY(aclmdlRIBuildEnd);
  return not_built("aclmdlRIBuildEnd");
}

aclError aclmdlRIGetStreams(aclmdlRI, aclrtStream*, uint32_t*) {
  SOFTCANN_ENTRY(aclmdlRIGetStreams);
  return no_tasks("aclmdlRIGetStreams");
}

aclError aclmdlRIGetTasksByStream(aclrtStream, aclmdlRITask*, uint32_t*) {
  SOFTCANN_ENTRY(aclmdlRIGetTasksByStream);
  return no_tasks("aclmdlRIGetTasksByStream");
}

aclError aclmdlRITaskGetType(aclmdlRITask, aclmdlRITaskType*) {
  SOFTCANN_ENTRY(aclmdlRITaskGetType);
  return no_tasks("aclmdlRITaskGetType");
}

aclError aclmdlRITaskGetSeqId(aclmdlRITask, uint32_t*) {
  SOFTCANN_ENTRY(aclmdlRITaskGetSeqId);
  return no_tasks("aclmdlRITaskGetSeqId");
}

aclError aclmdlRITaskGetParams(aclmdlRITask, aclmdlRITaskParams*) {
  SOFTCANN_ENTRY(aclmdlRITaskGetParams);
  return no_tasks("aclmdlRITaskGetParams");
}

aclError aclmdlRITaskSetParams(aclmdlRITask, aclmdlRITaskParams*) {
  SOFTCANN_ENTRY(aclmdlRITaskSetParams);
  return no_tasks("aclmdlRITaskSetParams");
}

aclError aclmdlRITaskDisable(aclmdlRITask) {
  SOFTCANN_ENTRY(aclmdlRITaskDisable);
  return no_tasks("aclmdlRITaskDisable");
}

aclError aclmdlRIKernelTaskGetAttribute(aclmdlRITask, aclrtLaunchKernelAttrId, aclrtLaunchKernelAttrValue*) {
  SOFTCANN_ENTRY(aclmdlRIKernelTaskGetAttribute);
  return no_tasks("aclmdlRIKernelTaskGetAttribute");
}

aclError aclmdlRIUpdate(aclmdlRI) {
  SOFTCANN_ENTRY(aclmdlRIUpdate);
  return no_tasks("aclmdlRIUpdate");
}
}
