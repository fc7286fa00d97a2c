// acltdt*: queues and channels of data between the host and models, in CANN's libraries libacl_tdt_channel and libacl_tdt_queue.
// softcann refuses them: each says what to do instead. No caller needs the arguments, so they are not declared.
#include "rt/base/error.h"

using namespace softcann;

namespace {

aclError no_queues(const char* entry) {
  return fail(
      ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
      "%s: softcann has no queues and channels of data: give data to models by datasets (aclmdlCreateDataset, aclmdlExecute), "
      "to other threads by the program's own means",
      entry);
}

}  // namespace

#define REFUSED(name)                                                 \
  extern "C" __attribute__((visibility("default"))) aclError name() { \
    SOFTCANN_ENTRY(name);                                             \
    return no_queues(#name);                                          \
  }
// Functions that give a handle, an address, a number or an enumerator: nullptr, 0, or what is undefined.
#define REFUSED_VALUE(name, value)                                  \
  extern "C" __attribute__((visibility("default"))) size_t name() { \
    SOFTCANN_ENTRY_VALUE(name, static_cast<size_t>(value));         \
    no_queues(#name);                                               \
    return static_cast<size_t>(value);                              \
  }

REFUSED(acltdtAddDataItem)
REFUSED(acltdtAddQueueRoute)
REFUSED(acltdtAllocBuf)
REFUSED(acltdtAppendBufChain)
REFUSED(acltdtAttachQueue)
REFUSED(acltdtBindQueueRoutes)
REFUSED(acltdtCleanChannel)
REFUSED(acltdtCopyBufRef)
REFUSED(acltdtCreateQueue)
REFUSED(acltdtDequeue)
REFUSED(acltdtDequeueData)
REFUSED(acltdtDestroyChannel)
REFUSED(acltdtDestroyDataItem)
REFUSED(acltdtDestroyDataset)
REFUSED(acltdtDestroyQueue)
REFUSED(acltdtDestroyQueueAttr)
REFUSED(acltdtDestroyQueueRoute)
REFUSED(acltdtDestroyQueueRouteList)
REFUSED(acltdtDestroyQueueRouteQueryInfo)
REFUSED(acltdtEnqueue)
REFUSED(acltdtEnqueueData)
REFUSED(acltdtFreeBuf)
REFUSED(acltdtGetBufChainNum)
REFUSED(acltdtGetBufData)
REFUSED(acltdtGetBufDataLen)
REFUSED(acltdtGetBufFromChain)
REFUSED(acltdtGetBufUserData)
REFUSED(acltdtGetDimsFromItem)
REFUSED(acltdtGetQueueAttr)
REFUSED(acltdtGetQueueRoute)
REFUSED(acltdtGetQueueRouteParam)
REFUSED(acltdtGetSliceInfoFromItem)
REFUSED(acltdtGrantQueue)
REFUSED(acltdtQueryChannelSize)
REFUSED(acltdtQueryQueueRoutes)
REFUSED(acltdtReceiveTensor)
REFUSED(acltdtSendTensor)
REFUSED(acltdtSetBufDataLen)
REFUSED(acltdtSetBufUserData)
REFUSED(acltdtSetQueueAttr)
REFUSED(acltdtSetQueueRouteQueryInfo)
REFUSED(acltdtStopChannel)
REFUSED(acltdtUnbindQueueRoutes)

REFUSED_VALUE(acltdtCreateChannel, 0)
REFUSED_VALUE(acltdtCreateChannelWithCapacity, 0)
REFUSED_VALUE(acltdtCreateDataItem, 0)
REFUSED_VALUE(acltdtCreateDataset, 0)
REFUSED_VALUE(acltdtCreateQueueAttr, 0)
REFUSED_VALUE(acltdtCreateQueueRoute, 0)
REFUSED_VALUE(acltdtCreateQueueRouteList, 0)
REFUSED_VALUE(acltdtCreateQueueRouteQueryInfo, 0)
REFUSED_VALUE(acltdtGetDataAddrFromItem, 0)
REFUSED_VALUE(acltdtGetDataItem, 0)
REFUSED_VALUE(acltdtGetDataSizeFromItem, 0)
REFUSED_VALUE(acltdtGetDataTypeFromItem, -1)
REFUSED_VALUE(acltdtGetDatasetName, 0)
REFUSED_VALUE(acltdtGetDatasetSize, 0)
REFUSED_VALUE(acltdtGetDimNumFromItem, 0)
REFUSED_VALUE(acltdtGetQueueRouteNum, 0)
REFUSED_VALUE(acltdtGetTensorTypeFromItem, -1)
