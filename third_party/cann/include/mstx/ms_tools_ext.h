// mstx, CANN's marks and ranges of a program's own (libms_tools_ext), declared anew from their names, types and order.
#pragma once

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef uint64_t mstxRangeId;
struct mstxDomainRegistration_st;
typedef struct mstxDomainRegistration_st mstxDomainRegistration_t;
typedef mstxDomainRegistration_t* mstxDomainHandle_t;

// With a stream also the time at which the device comes to it. A range's number is 0 where nobody records.
void mstxMarkA(const char* message, aclrtStream stream);
mstxRangeId mstxRangeStartA(const char* message, aclrtStream stream);
void mstxRangeEnd(mstxRangeId id);

mstxDomainHandle_t mstxDomainCreateA(const char* name);
void mstxDomainDestroy(mstxDomainHandle_t handle);
void mstxDomainMarkA(mstxDomainHandle_t handle, const char* message, aclrtStream stream);
mstxRangeId mstxDomainRangeStartA(mstxDomainHandle_t handle, const char* message, aclrtStream stream);
void mstxDomainRangeEnd(mstxDomainHandle_t handle, mstxRangeId id);

#ifdef __cplusplus
}
#endif
