// Names that clients link and that cannot work on a software device: device binaries by the older interface (the newer:
// rt/kernels). They say so. The profiler's report calls are here too, as there is nothing that would collect the reports.
#include "rt/base/error.h"
#include "rt/base/hash.h"
#include "rt/base/sync.h"

using namespace softcann;

namespace {

aclError unsupported(const char* entry, const char* what) {
  return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s: %s is not supported by softcann", entry, what);
}

aclError no_binaries(const char* entry) { return unsupported(entry, "running compiled device binaries"); }
aclError no_operators(const char* entry) {
  return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
              "%s: softcann's tasks are whole models, and have no descriptions of single operators; the error's text "
              "(aclGetRecentErrMsg) names the operator",
              entry);
}
aclError no_core_synchronization(const char* entry) { return unsupported(entry, "synchronization between device cores"); }

aclError no_device_memory(const char* entry) {
  return unsupported(entry, "a device binary's own memory, as no binary is loaded into a device's,");
}
aclError no_description(const char* entry) {
  return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
              "%s: what a compiler writes of a kernel has no published layout: rtFunctionGetMetaInfo gives it as it is", entry);
}
aclError no_kernel_fails(const char* entry) { return unsupported(entry, "the failure of a device binary, which is never run,"); }
aclError no_groups(const char* entry) { return unsupported(entry, "the parting of a device's cores into groups"); }
aclError no_buffers(const char* entry) {
  return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
              "%s: CANN keeps shared buffers for chips to come; take aclrtMallocHost, and "
              "aclmdlCreateDataset for models",
              entry);
}
aclError no_barriers(const char* entry) {
  return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
              "%s: the chips that softcann is have no such barriers: take aclrtCmoAsync, and an event behind it", entry);
}
aclError no_links(const char* entry) {
  return unsupported(entry, "the choice of a link between devices, which share the host's memory,");
}
aclError no_bus(const char* entry) { return unsupported(entry, "the bus of a device, which is no PCIe device,"); }
aclError no_servers(const char* entry) {
  return unsupported(entry, "sharing with processes of another server, which its devices do not reach,");
}
aclError no_limits(const char* entry) {
  return unsupported(entry, "a limit of kernels' stacks and buffers, as there are no such kernels,");
}
aclError no_counts(const char* entry) {
  return unsupported(entry, "the number that is left, as the machine's memory and threads alone limit it,");
}
aclError no_intervals(const char* entry) {
  return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s: limits of operators' times are kept to the microsecond, in no intervals",
              entry);
}
aclError no_atomics(const char* entry) { return unsupported(entry, "what kernels may do atomically, as none is run,"); }
aclError no_task_numbers(const char* entry) { return unsupported(entry, "tasks by number"); }
aclError no_addresses(const char* entry) {
  return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
              "%s: the flag of overflow is no device memory: read it with aclrtGetOverflowStatus", entry);
}
aclError no_stop(const char* entry) {
  return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
              "%s: a task that computes runs to its end; aclrtStreamAbort drops those behind it as well", entry);
}
aclError no_cached_shapes(const char* entry) {
  return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
              "%s: shapes of captured operators are part of the profile by themselves (msprof, aclprofStart)", entry);
}
aclError no_trace(const char* entry) {
  return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s: mark streams with mstxMarkA or aclprofMarkEx", entry);
}
aclError no_snapshots(const char* entry) {
  return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
              "%s: the memory of softcann's devices is the process's own; there is no device to let go of and to take again",
              entry);
}

aclError no_operator_graphs(const char* entry) {
  return fail(
      ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
      "%s: an operator by name is computed without a graph that could be written down; atc --singleop makes a model of it",
      entry);
}

constexpr int32_t kProfilerOff = -1;

}  // namespace

// Interfaces of CANN that are not part of acl/acl.h.
#pragma GCC visibility push(default)
extern "C" {
struct rtDevBinary_t;
struct rtSmDesc_t;
struct MsprofApi;
typedef int32_t (*ProfCommandHandle)(uint32_t type, void* data, uint32_t length);
int32_t rtDevBinaryRegister(const rtDevBinary_t* bin, void** hdl);
int32_t rtFunctionRegister(void* binHandle, const void* stubFunc, const char* stubName, const void* kernelInfoExt,
                           uint32_t funcMode);
int32_t rtGetC2cCtrlAddr(uint64_t* addr, uint32_t* len);
int32_t rtKernelLaunch(const void* stubFunc, uint32_t numBlocks, void* args, uint32_t argsSize, rtSmDesc_t* smDesc, void* stm);
uint64_t MsprofGetHashId(const char* hashInfo, size_t length);
int32_t MsprofRegisterCallback(uint32_t moduleId, ProfCommandHandle handle);
int32_t MsprofReportAdditionalInfo(uint32_t nonPersistantFlag, void* data, uint32_t length);
int32_t MsprofReportApi(uint32_t nonPersistantFlag, const MsprofApi* api);
int32_t MsprofReportCompactInfo(uint32_t nonPersistantFlag, void* data, uint32_t length);
uint64_t MsprofStr2Id(const char* hashInfo, size_t length);
uint64_t MsprofSysCycleTime();
}
#pragma GCC visibility pop

extern "C" {

SOFTCANN_REFUSED(rtDevBinaryRegister, no_binaries, const rtDevBinary_t*, void**)
SOFTCANN_REFUSED(rtFunctionRegister, no_binaries, void*, const void*, const char*, const void*, uint32_t)
SOFTCANN_REFUSED(rtGetC2cCtrlAddr, no_core_synchronization, uint64_t*, uint32_t*)
SOFTCANN_REFUSED(rtKernelLaunch, no_binaries, const void*, uint32_t, void*, uint32_t, rtSmDesc_t*, void*)
SOFTCANN_REFUSED(aclrtGetHardwareSyncAddr, no_core_synchronization, void**)
SOFTCANN_REFUSED(aclrtGetFunctionAddr, no_binaries, aclrtFuncHandle, void**, void**)
SOFTCANN_REFUSED(aclrtBinaryGetDevAddress, no_device_memory, aclrtBinHandle, void**, size_t*)
SOFTCANN_REFUSED(aclrtBinaryGetGlobal, no_device_memory, aclrtBinHandle, const char*, void**, size_t*)
SOFTCANN_REFUSED(aclrtGetFuncBySymbol, no_device_memory, const void*, aclrtFuncHandle*)
SOFTCANN_REFUSED(aclrtGetSymbolAddress, no_device_memory, const void*, void**)
SOFTCANN_REFUSED(aclrtGetSymbolSize, no_device_memory, const void*, size_t*)
SOFTCANN_REFUSED(aclrtMemcpyFromSymbol, no_device_memory, void*, size_t, const void*, size_t, size_t, aclrtMemcpyKind)
SOFTCANN_REFUSED(aclrtMemcpyFromSymbolAsync, no_device_memory, void*, size_t, const void*, size_t, size_t, aclrtMemcpyKind,
                 aclrtStream)
SOFTCANN_REFUSED(aclrtMemcpyToSymbol, no_device_memory, const void*, const void*, size_t, size_t, aclrtMemcpyKind)
SOFTCANN_REFUSED(aclrtMemcpyToSymbolAsync, no_device_memory, const void*, const void*, size_t, size_t, aclrtMemcpyKind,
                 aclrtStream)
SOFTCANN_REFUSED(aclrtRegisterCpuFunc, no_binaries, aclrtBinHandle, const char*, const char*, aclrtFuncHandle*)
SOFTCANN_REFUSED(aclrtGetFunctionSize, no_description, aclrtFuncHandle, size_t*, size_t*)
SOFTCANN_REFUSED(aclrtGetFunctionAttribute, no_description, aclrtFuncHandle, aclrtFuncAttribute, int64_t*)
SOFTCANN_REFUSED(aclrtFunctionGetParamCount, no_description, const void*, size_t*)
SOFTCANN_REFUSED(aclrtFunctionGetParamInfo, no_description, const void*, size_t, size_t*, size_t*)
SOFTCANN_REFUSED(aclrtFunctionGetAvailDynUbufPerBlock, no_description, void*, uint32_t, size_t*)
SOFTCANN_REFUSED(aclrtBinarySetExceptionCallback, no_kernel_fails, aclrtBinHandle, aclrtOpExceptionCallback, void*)
SOFTCANN_REFUSED(aclrtGetArgsFromExceptionInfo, no_kernel_fails, const aclrtExceptionInfo*, void**, uint32_t*)
SOFTCANN_REFUSED(aclrtGetFuncHandleFromExceptionInfo, no_kernel_fails, const aclrtExceptionInfo*, aclrtFuncHandle*)
SOFTCANN_REFUSED(aclrtTaskUpdateAsync, no_task_numbers, aclrtStream, uint32_t, aclrtTaskUpdateInfo*, aclrtStream)
SOFTCANN_REFUSED(aclrtGetThreadLastTaskId, no_task_numbers, uint32_t*)
SOFTCANN_REFUSED(aclrtCacheLastTaskOpInfo, no_cached_shapes, const void*, size_t)
SOFTCANN_REFUSED(aclrtCacheLastTaskExtendInfo, no_cached_shapes, const char*, size_t)
SOFTCANN_REFUSED(aclrtProfTrace, no_trace, void*, int32_t, aclrtStream)
SOFTCANN_REFUSED(aclrtStreamStop, no_stop, aclrtStream)
SOFTCANN_REFUSED(aclrtGetStreamAvailableNum, no_counts, uint32_t*)
SOFTCANN_REFUSED(aclrtGetEventAvailNum, no_counts, uint32_t*)
SOFTCANN_REFUSED(aclrtGetOpTimeOutInterval, no_intervals, uint64_t*)
SOFTCANN_REFUSED(aclrtCtxGetFloatOverflowAddr, no_addresses, void**)
SOFTCANN_REFUSED(aclrtDeviceSetLimit, no_limits, aclrtDeviceLimit, size_t)
SOFTCANN_REFUSED(aclrtDeviceGetLimit, no_limits, aclrtDeviceLimit, size_t*)
SOFTCANN_REFUSED(aclrtDeviceGetHostAtomicCapabilities, no_atomics, uint32_t*, const aclrtAtomicOperation*, uint32_t, int32_t)
SOFTCANN_REFUSED(aclrtDeviceGetP2PAtomicCapabilities, no_atomics, uint32_t*, const aclrtAtomicOperation*, uint32_t, int32_t,
                 int32_t)
SOFTCANN_REFUSED(aclrtDeviceGetPCIBusId, no_bus, int32_t, char*, int32_t)
SOFTCANN_REFUSED(aclrtDeviceGetByPCIBusId, no_bus, const char*, int32_t*)
SOFTCANN_REFUSED(aclrtGetDevicesTopo, no_links, uint32_t, uint32_t, uint64_t*)
SOFTCANN_REFUSED(aclrtMemMapSetLink, no_links, aclrtDrvMemHandle, aclrtMemLinkType)
SOFTCANN_REFUSED(aclrtIpcMemSetAttr, no_links, const char*, aclrtIpcMemAttrType, uint64_t)
SOFTCANN_REFUSED(aclrtIpcMemImportPidInterServer, no_servers, const char*, aclrtServerPid*, size_t)
SOFTCANN_REFUSED(aclrtNotifySetImportPidInterServer, no_servers, aclrtNotify, aclrtServerPid*, size_t)
SOFTCANN_REFUSED(aclrtCmoAsyncWithBarrier, no_barriers, void*, size_t, aclrtCmoType, uint32_t, aclrtStream)
SOFTCANN_REFUSED(aclrtCmoWaitBarrier, no_barriers, aclrtBarrierTaskInfo*, aclrtStream, uint32_t)
SOFTCANN_REFUSED(aclrtSetGroup, no_groups, int32_t)
SOFTCANN_REFUSED(aclrtGetGroupCount, no_groups, uint32_t*)
SOFTCANN_REFUSED(aclrtDestroyGroupInfo, no_groups, aclrtGroupInfo*)
SOFTCANN_REFUSED(aclrtGetAllGroupInfo, no_groups, aclrtGroupInfo*)
SOFTCANN_REFUSED(aclrtGetGroupInfoDetail, no_groups, const aclrtGroupInfo*, int32_t, aclrtGroupAttr, void*, size_t, size_t*)
SOFTCANN_REFUSED(aclrtAllocBuf, no_buffers, aclrtMbuf*, size_t)
SOFTCANN_REFUSED(aclrtFreeBuf, no_buffers, aclrtMbuf)
SOFTCANN_REFUSED(aclrtGetBufData, no_buffers, aclrtMbuf, void**, size_t*)
SOFTCANN_REFUSED(aclrtSetBufDataLen, no_buffers, aclrtMbuf, size_t)
SOFTCANN_REFUSED(aclrtGetBufDataLen, no_buffers, aclrtMbuf, size_t*)
SOFTCANN_REFUSED(aclrtSetBufUserData, no_buffers, aclrtMbuf, const void*, size_t, size_t)
SOFTCANN_REFUSED(aclrtGetBufUserData, no_buffers, aclrtMbuf, void*, size_t, size_t)
SOFTCANN_REFUSED(aclrtCopyBufRef, no_buffers, aclrtMbuf, aclrtMbuf*)
SOFTCANN_REFUSED(aclrtAppendBufChain, no_buffers, aclrtMbuf, aclrtMbuf)
SOFTCANN_REFUSED(aclrtGetBufChainNum, no_buffers, aclrtMbuf, uint32_t*)
SOFTCANN_REFUSED(aclrtGetBufFromChain, no_buffers, aclrtMbuf, uint32_t, aclrtMbuf*)
SOFTCANN_REFUSED(aclrtSnapShotProcessLock, no_snapshots, int, void*)
SOFTCANN_REFUSED(aclrtSnapShotProcessUnlock, no_snapshots, int, void*)
SOFTCANN_REFUSED(aclrtSnapShotProcessBackup, no_snapshots, int, aclrtSnapShotBackupArgs*)
SOFTCANN_REFUSED(aclrtSnapShotProcessRestore, no_snapshots, int, aclrtSnapShotRestoreArgs*)
SOFTCANN_REFUSED(aclrtSnapShotCallbackRegister, no_snapshots, aclrtSnapShotStage, aclrtSnapShotCallBack, void*)
SOFTCANN_REFUSED(aclrtSnapShotCallbackUnregister, no_snapshots, aclrtSnapShotStage, aclrtSnapShotCallBack)
SOFTCANN_REFUSED(aclmdlCreateAndGetOpDesc, no_operators, uint32_t, uint32_t, uint32_t, char*, size_t, aclTensorDesc**, size_t*,
                 aclTensorDesc**, size_t*)

SOFTCANN_REFUSED(aclDestroyGraphDumpOpt, no_operator_graphs, const aclGraphDumpOption*)
SOFTCANN_REFUSED(aclGenGraphAndDumpForOp, no_operator_graphs, const char*, int, const aclTensorDesc*[], const aclDataBuffer*[],
                 int, const aclTensorDesc*[], aclDataBuffer*[], const aclopAttr*, aclopEngineType, const char*,
                 const aclGraphDumpOption*)

aclGraphDumpOption* aclCreateGraphDumpOpt() {
  SOFTCANN_ENTRY_VALUE(aclCreateGraphDumpOpt, nullptr);
  no_operator_graphs("aclCreateGraphDumpOpt");
  return nullptr;
}

aclrtGroupInfo* aclrtCreateGroupInfo() {
  SOFTCANN_ENTRY_VALUE(aclrtCreateGroupInfo, nullptr);
  no_groups("aclrtCreateGroupInfo");
  return nullptr;
}

uint64_t MsprofGetHashId(const char* hashInfo, size_t length) {
  SOFTCANN_ENTRY_VALUE(MsprofGetHashId, 0);
  return hash_of(hashInfo != nullptr ? std::string_view(hashInfo, length) : std::string_view());
}

uint64_t MsprofStr2Id(const char* hashInfo, size_t length) { return MsprofGetHashId(hashInfo, length); }

// The handle would be called when a profiling session starts. softcann has none, so there is nothing to keep.
int32_t MsprofRegisterCallback(uint32_t, ProfCommandHandle handle) {
  SOFTCANN_ENTRY(MsprofRegisterCallback);
  return handle != nullptr ? 0 : fail(ACL_ERROR_INVALID_PARAM, "MsprofRegisterCallback: the handle is a null pointer");
}

int32_t MsprofReportAdditionalInfo(uint32_t, void*, uint32_t) { return kProfilerOff; }
int32_t MsprofReportApi(uint32_t, const MsprofApi*) { return kProfilerOff; }
int32_t MsprofReportCompactInfo(uint32_t, void*, uint32_t) { return kProfilerOff; }
uint64_t MsprofSysCycleTime() { return static_cast<uint64_t>(now_ns()); }
}
