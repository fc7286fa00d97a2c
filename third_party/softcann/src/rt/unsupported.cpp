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
SOFTCANN_REFUSED(aclmdlCreateAndGetOpDesc, no_operators, uint32_t, uint32_t, uint32_t, char*, size_t, aclTensorDesc**, size_t*,
                 aclTensorDesc**, size_t*)

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
