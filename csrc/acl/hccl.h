// The functions of HCCL that the adapter calls, under the same names, typed by the contract.
#pragma once

#include "acl/library.h"
#include "hccl/hccl.h"

namespace torch_npu::acl {

#define NPU_SYMBOL(name) inline const Symbol<decltype(::name)> name(Library::hccl, #name)

NPU_SYMBOL(HcclGetRootInfo);
NPU_SYMBOL(HcclCommInitRootInfo);
NPU_SYMBOL(HcclCommInitRootInfoConfig);
NPU_SYMBOL(HcclGetCommConfigCapability);
NPU_SYMBOL(HcclCommDestroy);
NPU_SYMBOL(HcclGetCommName);
NPU_SYMBOL(HcclGetCommAsyncError);
NPU_SYMBOL(HcclCommResume);
NPU_SYMBOL(HcclCommWorkingDevNicSet);
NPU_SYMBOL(HcclGetErrorString);
NPU_SYMBOL(HcclAllReduce);
NPU_SYMBOL(HcclReduce);
NPU_SYMBOL(HcclBroadcast);
NPU_SYMBOL(HcclAllGather);
NPU_SYMBOL(HcclAllGatherV);
NPU_SYMBOL(HcclReduceScatter);
NPU_SYMBOL(HcclReduceScatterV);
NPU_SYMBOL(HcclAlltoAllV);
NPU_SYMBOL(HcclScatter);
NPU_SYMBOL(HcclSend);
NPU_SYMBOL(HcclRecv);
NPU_SYMBOL(HcclBatchSendRecv);
NPU_SYMBOL(HcclBarrier);

#undef NPU_SYMBOL

}  // namespace torch_npu::acl
