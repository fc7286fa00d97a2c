// The functions of CANN's runtime that the adapter calls, under the same names, typed by the contract.
#pragma once

#include "acl/acl.h"
#include "acl/library.h"
#include "aclnn/acl_meta.h"

namespace torch_npu::acl {

#define NPU_SYMBOL(library, name) inline const Symbol<decltype(::name)> name(Library::library, #name)

NPU_SYMBOL(ascendcl, aclInit);
NPU_SYMBOL(ascendcl, aclFinalize);
NPU_SYMBOL(ascendcl, aclGetRecentErrMsg);
NPU_SYMBOL(ascendcl, aclsysGetCANNVersion);
NPU_SYMBOL(ascendcl, aclrtSetDevice);
NPU_SYMBOL(ascendcl, aclrtResetDevice);
NPU_SYMBOL(ascendcl, aclrtGetDevice);
NPU_SYMBOL(ascendcl, aclrtGetDeviceCount);
NPU_SYMBOL(ascendcl, aclrtGetSocName);
NPU_SYMBOL(ascendcl, aclrtSynchronizeDevice);
NPU_SYMBOL(ascendcl, aclrtGetMemInfo);
NPU_SYMBOL(ascendcl, aclrtDeviceCanAccessPeer);
NPU_SYMBOL(ascendcl, aclrtDeviceEnablePeerAccess);
NPU_SYMBOL(ascendcl, aclrtGetDeviceUtilizationRate);
NPU_SYMBOL(ascendcl, aclrtGetDeviceInfo);
NPU_SYMBOL(ascendcl, aclrtSetDeviceResLimit);
NPU_SYMBOL(ascendcl, aclrtGetDeviceResLimit);
NPU_SYMBOL(ascendcl, aclrtSetStreamResLimit);
NPU_SYMBOL(ascendcl, aclrtGetStreamResLimit);
NPU_SYMBOL(ascendcl, aclrtResetStreamResLimit);
NPU_SYMBOL(ascendcl, aclrtSetOpExecuteTimeOutV2);
NPU_SYMBOL(ascendcl, aclrtGetCurrentContext);
NPU_SYMBOL(ascendcl, aclrtSetCurrentContext);
NPU_SYMBOL(ascendcl, aclrtSetDeviceSatMode);
NPU_SYMBOL(ascendcl, aclrtGetDeviceSatMode);
NPU_SYMBOL(ascendcl, aclrtMalloc);
NPU_SYMBOL(ascendcl, aclrtFree);
NPU_SYMBOL(ascendcl, aclrtMallocHost);
NPU_SYMBOL(ascendcl, aclrtFreeHost);
NPU_SYMBOL(ascendcl, aclrtMemcpy);
NPU_SYMBOL(ascendcl, aclrtMemcpyAsync);
NPU_SYMBOL(ascendcl, aclrtMemset);
NPU_SYMBOL(ascendcl, aclrtMemsetAsync);
NPU_SYMBOL(ascendcl, aclrtPointerGetAttributes);
NPU_SYMBOL(ascendcl, aclrtReserveMemAddress);
NPU_SYMBOL(ascendcl, aclrtReleaseMemAddress);
NPU_SYMBOL(ascendcl, aclrtMallocPhysical);
NPU_SYMBOL(ascendcl, aclrtFreePhysical);
NPU_SYMBOL(ascendcl, aclrtMapMem);
NPU_SYMBOL(ascendcl, aclrtUnmapMem);
NPU_SYMBOL(ascendcl, aclrtMemGetAllocationGranularity);
NPU_SYMBOL(ascendcl, aclrtIpcMemGetExportKey);
NPU_SYMBOL(ascendcl, aclrtIpcMemImportByKey);
NPU_SYMBOL(ascendcl, aclrtIpcMemClose);
NPU_SYMBOL(ascendcl, aclrtIpcMemSetImportPid);
NPU_SYMBOL(ascendcl, aclrtIpcGetEventHandle);
NPU_SYMBOL(ascendcl, aclrtIpcOpenEventHandle);
NPU_SYMBOL(ascendcl, aclrtCreateStreamWithConfig);
NPU_SYMBOL(ascendcl, aclrtDestroyStream);
NPU_SYMBOL(ascendcl, aclrtSynchronizeStream);
NPU_SYMBOL(ascendcl, aclrtSynchronizeStreamWithTimeout);
NPU_SYMBOL(ascendcl, aclrtStreamQuery);
NPU_SYMBOL(ascendcl, aclrtSetStreamFailureMode);
NPU_SYMBOL(ascendcl, aclrtStreamWaitEvent);
NPU_SYMBOL(ascendcl, aclrtCreateEventExWithFlag);
NPU_SYMBOL(ascendcl, aclrtDestroyEvent);
NPU_SYMBOL(ascendcl, aclrtRecordEvent);
NPU_SYMBOL(ascendcl, aclrtSynchronizeEvent);
NPU_SYMBOL(ascendcl, aclrtQueryEventStatus);
NPU_SYMBOL(ascendcl, aclrtEventElapsedTime);
NPU_SYMBOL(ascendcl, aclrtEventGetTimestamp);
NPU_SYMBOL(ascendcl, aclrtResetEvent);
NPU_SYMBOL(ascendcl, aclrtLaunchHostFunc);
NPU_SYMBOL(ascendcl, aclmdlRICaptureBegin);
NPU_SYMBOL(ascendcl, aclmdlRICaptureEnd);
NPU_SYMBOL(ascendcl, aclmdlRICaptureGetInfo);
NPU_SYMBOL(ascendcl, aclmdlRICaptureTaskGrpBegin);
NPU_SYMBOL(ascendcl, aclmdlRICaptureTaskGrpEnd);
NPU_SYMBOL(ascendcl, aclmdlRICaptureTaskUpdateBegin);
NPU_SYMBOL(ascendcl, aclmdlRICaptureTaskUpdateEnd);
NPU_SYMBOL(ascendcl, aclmdlRICaptureThreadExchangeMode);
NPU_SYMBOL(ascendcl, aclmdlRIExecuteAsync);
NPU_SYMBOL(ascendcl, aclmdlRIDebugJsonPrint);
NPU_SYMBOL(ascendcl, aclmdlRIDestroy);

// Descriptors of operator arguments live with the operators.
NPU_SYMBOL(opapi, aclCreateTensor);
NPU_SYMBOL(opapi, aclDestroyTensor);
NPU_SYMBOL(opapi, aclCreateScalar);
NPU_SYMBOL(opapi, aclDestroyScalar);
NPU_SYMBOL(opapi, aclCreateIntArray);
NPU_SYMBOL(opapi, aclDestroyIntArray);
NPU_SYMBOL(opapi, aclCreateFloatArray);
NPU_SYMBOL(opapi, aclDestroyFloatArray);
NPU_SYMBOL(opapi, aclCreateBoolArray);
NPU_SYMBOL(opapi, aclDestroyBoolArray);
NPU_SYMBOL(opapi, aclCreateTensorList);
NPU_SYMBOL(opapi, aclDestroyTensorList);
NPU_SYMBOL(opapi, aclCreateScalarList);
NPU_SYMBOL(opapi, aclDestroyScalarList);
NPU_SYMBOL(opapi, aclGetViewShape);
NPU_SYMBOL(opapi, aclDestroyAclOpExecutor);

#undef NPU_SYMBOL

}  // namespace torch_npu::acl
