// MSPTI (libmspti): what a program's own tools are told of CANN's calls, kernels, collectives and marks while it runs. Declared
// anew from its names, types, order and values. CANN has it in mspti_activity.h, mspti_callback.h and mspti_result.h.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MSPTI_INVALID_DEVICE_ID ((uint32_t)0xFFFFFFFFU)
#define MSPTI_INVALID_STREAM_ID ((uint32_t)0xFFFFFFFFU)
#define MSPTI_INVALID_CORRELATION_ID ((uint64_t)0)

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  MSPTI_SUCCESS = 0,
  MSPTI_ERROR_INVALID_PARAMETER = 1,
  MSPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED = 2,
  MSPTI_ERROR_MAX_LIMIT_REACHED = 3,
  MSPTI_ERROR_DEVICE_OFFLINE = 4,
  MSPTI_ERROR_QUEUE_EMPTY = 5,
  MSPTI_ERROR_WITHOUT_LD_PRELOAD = 6,
  MSPTI_ERROR_NOT_INITIALIZED = 7,
  MSPTI_ERROR_INVALID_KIND = 8,
  MSPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT = 9,
  MSPTI_ERROR_INNER = 999,
  MSPTI_ERROR_FORCE_INT = 0x7fffffff
} msptiResult;

typedef enum {
  MSPTI_CB_DOMAIN_INVALID = 0,
  MSPTI_CB_DOMAIN_RUNTIME = 1,
  MSPTI_CB_DOMAIN_HCCL = 2,
  MSPTI_CB_DOMAIN_SIZE,
  MSPTI_CB_DOMAIN_FORCE_INT = 0x7fffffff
} msptiCallbackDomain;
typedef enum { MSPTI_API_ENTER = 0, MSPTI_API_EXIT = 1, MSPTI_API_CBSITE_FORCE_INT = 0x7fffffff } msptiApiCallbackSite;
typedef uint32_t msptiCallbackId;
typedef enum {
  MSPTI_CBID_RUNTIME_INVALID = 0,
  MSPTI_CBID_RUNTIME_DEVICE_SET = 1,
  MSPTI_CBID_RUNTIME_DEVICE_RESET = 2,
  MSPTI_CBID_RUNTIME_DEVICE_SET_EX = 3,
  MSPTI_CBID_RUNTIME_CONTEXT_CREATED_EX = 4,
  MSPTI_CBID_RUNTIME_CONTEXT_CREATED = 5,
  MSPTI_CBID_RUNTIME_CONTEXT_DESTROY = 6,
  MSPTI_CBID_RUNTIME_STREAM_CREATED = 7,
  MSPTI_CBID_RUNTIME_STREAM_DESTROY = 8,
  MSPTI_CBID_RUNTIME_STREAM_SYNCHRONIZED = 9,
  MSPTI_CBID_RUNTIME_LAUNCH = 10,
  MSPTI_CBID_RUNTIME_CPU_LAUNCH = 11,
  MSPTI_CBID_RUNTIME_AICPU_LAUNCH = 12,
  MSPTI_CBID_RUNTIME_AIV_LAUNCH = 13,
  MSPTI_CBID_RUNTIME_FFTS_LAUNCH = 14,
  MSPTI_CBID_RUNTIME_MALLOC = 15,
  MSPTI_CBID_RUNTIME_FREE = 16,
  MSPTI_CBID_RUNTIME_MALLOC_HOST = 17,
  MSPTI_CBID_RUNTIME_FREE_HOST = 18,
  MSPTI_CBID_RUNTIME_MALLOC_CACHED = 19,
  MSPTI_CBID_RUNTIME_FLUSH_CACHE = 20,
  MSPTI_CBID_RUNTIME_INVALID_CACHE = 21,
  MSPTI_CBID_RUNTIME_MEMCPY = 22,
  MSPTI_CBID_RUNTIME_MEMCPY_HOST = 23,
  MSPTI_CBID_RUNTIME_MEMCPY_ASYNC = 24,
  MSPTI_CBID_RUNTIME_MEM_CPY2D = 25,
  MSPTI_CBID_RUNTIME_MEM_CPY2D_ASYNC = 26,
  MSPTI_CBID_RUNTIME_MEM_SET = 27,
  MSPTI_CBID_RUNTIME_MEM_SET_ASYNC = 28,
  MSPTI_CBID_RUNTIME_MEM_GET_INFO = 29,
  MSPTI_CBID_RUNTIME_RESERVE_MEM_ADDRESS = 30,
  MSPTI_CBID_RUNTIME_RELEASE_MEM_ADDRESS = 31,
  MSPTI_CBID_RUNTIME_MALLOC_PHYSICAL = 32,
  MSPTI_CBID_RUNTIME_FREE_PHYSICAL = 33,
  MSPTI_CBID_RUNTIME_MEM_EXPORT_TO_SHAREABLE_HANDLE = 34,
  MSPTI_CBID_RUNTIME_MEM_IMPORT_FROM_SHAREABLE_HANDLE = 35,
  MSPTI_CBID_RUNTIME_MEM_SET_PID_TO_SHAREABLE_HANDLE = 36,
  MSPTI_CBID_RUNTIME_SIZE,
  MSPTI_CBID_RUNTIME_FORCE_INT = 0x7fffffff
} msptiCallbackIdRuntime;
typedef enum {
  MSPTI_CBID_HCCL_INVALID = 0,
  MSPTI_CBID_HCCL_ALLREDUCE = 1,
  MSPTI_CBID_HCCL_BROADCAST = 2,
  MSPTI_CBID_HCCL_ALLGATHER = 3,
  MSPTI_CBID_HCCL_REDUCE_SCATTER = 4,
  MSPTI_CBID_HCCL_REDUCE = 5,
  MSPTI_CBID_HCCL_ALL_TO_ALL = 6,
  MSPTI_CBID_HCCL_ALL_TO_ALLV = 7,
  MSPTI_CBID_HCCL_BARRIER = 8,
  MSPTI_CBID_HCCL_SCATTER = 9,
  MSPTI_CBID_HCCL_SEND = 10,
  MSPTI_CBID_HCCL_RECV = 11,
  MSPTI_CBID_HCCL_SENDRECV = 12,
  MSPTI_CBID_HCCL_SIZE,
  MSPTI_CBID_HCCL_FORCE_INT = 0x7fffffff
} msptiCallbackIdHccl;

typedef struct {
  msptiApiCallbackSite callbackSite;
  const char* functionName;
  const void* functionParams;
  const void* functionReturnValue;
  const char* symbolName;
  uint64_t correlationId;
  uint64_t reserved1;
  uint64_t reserved2;
  uint64_t* correlationData;
} msptiCallbackData;
typedef void (*msptiCallbackFunc)(void* userdata, msptiCallbackDomain domain, msptiCallbackId cbid,
                                  const msptiCallbackData* cbdata);
struct msptiSubscriber_st;
typedef struct msptiSubscriber_st* msptiSubscriberHandle;

typedef enum {
  MSPTI_ACTIVITY_KIND_INVALID = 0,
  MSPTI_ACTIVITY_KIND_MARKER = 1,
  MSPTI_ACTIVITY_KIND_KERNEL = 2,
  MSPTI_ACTIVITY_KIND_API = 3,
  MSPTI_ACTIVITY_KIND_HCCL = 4,
  MSPTI_ACTIVITY_KIND_MEMORY = 5,
  MSPTI_ACTIVITY_KIND_MEMSET = 6,
  MSPTI_ACTIVITY_KIND_MEMCPY = 7,
  MSPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION = 8,
  MSPTI_ACTIVITY_KIND_COMMUNICATION = 9,
  MSPTI_ACTIVITY_KIND_ACL_API = 10,
  MSPTI_ACTIVITY_KIND_NODE_API = 11,
  MSPTI_ACTIVITY_KIND_RUNTIME_API = 12,
  MSPTI_ACTIVITY_KIND_OVERHEAD = 13,
  MSPTI_ACTIVITY_KIND_COUNT,
  MSPTI_ACTIVITY_KIND_FORCE_INT = 0x7fffffff
} msptiActivityKind;
typedef enum { MSPTI_ACTIVITY_SOURCE_KIND_HOST = 0, MSPTI_ACTIVITY_SOURCE_KIND_DEVICE = 1 } msptiActivitySourceKind;
typedef enum {
  MSPTI_ACTIVITY_FLAG_NONE = 0,
  MSPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS = 1 << 0,
  MSPTI_ACTIVITY_FLAG_MARKER_START = 1 << 1,
  MSPTI_ACTIVITY_FLAG_MARKER_END = 1 << 2,
  MSPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS_WITH_DEVICE = 1 << 3,
  MSPTI_ACTIVITY_FLAG_MARKER_START_WITH_DEVICE = 1 << 4,
  MSPTI_ACTIVITY_FLAG_MARKER_END_WITH_DEVICE = 1 << 5
} msptiActivityFlag;
typedef enum {
  MSPTI_EXTERNAL_CORRELATION_KIND_INVALID = 0,
  MSPTI_EXTERNAL_CORRELATION_KIND_UNKNOWN = 1,
  MSPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0 = 2,
  MSPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1 = 3,
  MSPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2 = 4,
  MSPTI_EXTERNAL_CORRELATION_KIND_SIZE,
  MSPTI_EXTERNAL_CORRELATION_KIND_FORCE_INT = 0x7fffffff
} msptiExternalCorrelationKind;
typedef enum {
  MSPTI_ACTIVITY_COMMUNICATION_INT8 = 0,
  MSPTI_ACTIVITY_COMMUNICATION_INT16 = 1,
  MSPTI_ACTIVITY_COMMUNICATION_INT32 = 2,
  MSPTI_ACTIVITY_COMMUNICATION_FP16 = 3,
  MSPTI_ACTIVITY_COMMUNICATION_FP32 = 4,
  MSPTI_ACTIVITY_COMMUNICATION_INT64 = 5,
  MSPTI_ACTIVITY_COMMUNICATION_UINT64 = 6,
  MSPTI_ACTIVITY_COMMUNICATION_UINT8 = 7,
  MSPTI_ACTIVITY_COMMUNICATION_UINT16 = 8,
  MSPTI_ACTIVITY_COMMUNICATION_UINT32 = 9,
  MSPTI_ACTIVITY_COMMUNICATION_FP64 = 10,
  MSPTI_ACTIVITY_COMMUNICATION_BFP16 = 11,
  MSPTI_ACTIVITY_COMMUNICATION_INT128 = 12,
  MSPTI_ACTIVITY_COMMUNICATION_HIF8 = 14,
  MSPTI_ACTIVITY_COMMUNICATION_FP8E4M3 = 15,
  MSPTI_ACTIVITY_COMMUNICATION_FP8E5M2 = 16,
  MSPTI_ACTIVITY_COMMUNICATION_FP8E8M0 = 17,
  MSPTI_ACTIVITY_COMMUNICATION_INVALID_TYPE = 0x0000FFFF
} msptiCommunicationDataType;

// Records are packed, and each begins at a multiple of eight bytes. Times are nanoseconds since the epoch.
#define MSPTI_RECORD __attribute__((__packed__)) __attribute__((aligned(8)))

typedef struct MSPTI_RECORD {
  msptiActivityKind kind;
} msptiActivity;

typedef union __attribute__((__packed__)) {
  struct {
    uint32_t processId;
    uint32_t threadId;
  } pt;
  struct {
    uint32_t deviceId;
    uint32_t streamId;
  } ds;
} msptiObjectId;

typedef struct MSPTI_RECORD {
  msptiActivityKind kind;
  msptiActivityFlag flag;
  msptiActivitySourceKind sourceKind;
  uint64_t timestamp;
  uint64_t id;
  msptiObjectId objectId;
  const char* name;
  const char* domain;
} msptiActivityMarker;

typedef struct MSPTI_RECORD {
  msptiActivityKind kind;
  uint64_t start;
  uint64_t end;
  struct {
    uint32_t processId;
    uint32_t threadId;
  } pt;
  uint64_t correlationId;
  const char* name;
} msptiActivityApi;

typedef struct MSPTI_RECORD {
  msptiActivityKind kind;
  uint64_t start;
  uint64_t end;
  struct {
    uint32_t deviceId;
    uint32_t streamId;
  } ds;
  uint64_t correlationId;
  const char* type;
  const char* name;
} msptiActivityKernel;

typedef struct MSPTI_RECORD {
  msptiActivityKind kind;
  uint64_t start;
  uint64_t end;
  struct {
    uint32_t deviceId;
    uint32_t streamId;
  } ds;
  double bandWidth;
  const char* name;
  const char* commName;
} msptiActivityHccl;

typedef struct MSPTI_RECORD {
  msptiActivityKind kind;
  msptiExternalCorrelationKind externalKind;
  uint64_t externalId;
  uint64_t correlationId;
} msptiActivityExternalCorrelation;

typedef struct MSPTI_RECORD {
  msptiActivityKind kind;
  msptiCommunicationDataType dataType;
  uint64_t count;
  struct {
    uint32_t deviceId;
    uint32_t streamId;
  } ds;
  uint64_t start;
  uint64_t end;
  const char* algType;
  const char* name;
  const char* commName;
  uint64_t correlationId;
} msptiActivityCommunication;

typedef void (*msptiBuffersCallbackRequestFunc)(uint8_t** buffer, size_t* size, size_t* maxNumRecords);
typedef void (*msptiBuffersCallbackCompleteFunc)(uint8_t* buffer, size_t size, size_t validSize);

msptiResult msptiSubscribe(msptiSubscriberHandle* subscriber, msptiCallbackFunc callback, void* userdata);
msptiResult msptiUnsubscribe(msptiSubscriberHandle subscriber);
msptiResult msptiEnableCallback(uint32_t enable, msptiSubscriberHandle subscriber, msptiCallbackDomain domain,
                                msptiCallbackId cbid);
msptiResult msptiEnableDomain(uint32_t enable, msptiSubscriberHandle subscriber, msptiCallbackDomain domain);

msptiResult msptiActivityRegisterCallbacks(msptiBuffersCallbackRequestFunc funcBufferRequested,
                                           msptiBuffersCallbackCompleteFunc funcBufferCompleted);
msptiResult msptiActivityEnable(msptiActivityKind kind);
msptiResult msptiActivityDisable(msptiActivityKind kind);
bool msptiActivityIsEnabled(msptiActivityKind kind);
msptiResult msptiActivityEnableMarkerDomain(const char* name);
msptiResult msptiActivityDisableMarkerDomain(const char* name);
msptiResult msptiActivityGetNextRecord(uint8_t* buffer, size_t validBufferSizeBytes, msptiActivity** record);
msptiResult msptiActivityFlushAll(uint32_t flag);
msptiResult msptiActivityFlushPeriod(uint32_t time);
msptiResult msptiActivityPushExternalCorrelationId(msptiExternalCorrelationKind kind, uint64_t id);
msptiResult msptiActivityPopExternalCorrelationId(msptiExternalCorrelationKind kind, uint64_t* lastId);
msptiResult msptiActivityGetNumDroppedRecords(void* context, uint32_t streamId, size_t* dropped);
msptiResult msptiGetTimestamp(uint64_t* timestamp);

#ifdef __cplusplus
}
#endif
