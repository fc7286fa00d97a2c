// CANN's interface, declared anew from its names, types, order and values: pools of memory, in the order of streams.
#pragma once

#include "acl_rt.h"

typedef void* aclrtMemPool;
typedef struct aclrtMemPoolProps {
  aclrtMemAllocationType allocType;
  aclrtMemHandleType handleType;
  aclrtMemLocation location;
  size_t maxSize;
  unsigned char reserved[32];
} aclrtMemPoolProps;

typedef enum aclrtMemPoolAttr {
  ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES = 1,
  ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC = 2,
  ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES = 3,
  ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD = 4,
  ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT = 5,
  ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH = 6,
  ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT = 7,
  ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH = 8,
} aclrtMemPoolAttr;

#ifdef __cplusplus
extern "C" {
#endif

aclError aclrtMemPoolCreate(aclrtMemPool* memPool, const aclrtMemPoolProps* poolProps);
aclError aclrtMemPoolDestroy(aclrtMemPool memPool);
aclError aclrtMemPoolFreeAsync(void* ptr, aclrtStream stream);
aclError aclrtMemPoolGetAttr(aclrtMemPool memPool, aclrtMemPoolAttr attr, void* value);
aclError aclrtMemPoolMallocAsync(void** ptr, size_t size, aclrtMemPool memPool, aclrtStream stream);
aclError aclrtMemPoolSetAttr(aclrtMemPool memPool, aclrtMemPoolAttr attr, void* value);
aclError aclrtMemPoolTrimTo(aclrtMemPool memPool, size_t minBytesToKeep);

#ifdef __cplusplus
}
#endif
