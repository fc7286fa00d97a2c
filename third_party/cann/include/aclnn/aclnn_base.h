// The descriptors of operators, by the name that most programs include them by, and what begins and ends their use.
#ifndef ACLNN_ACLNN_BASE_H_
#define ACLNN_ACLNN_BASE_H_

#include "aclnn/acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

// For programs that do not call aclInit. configPath: a file as for aclInit, or null.
aclnnStatus aclnnInit(const char* configPath);
aclnnStatus aclnnFinalize(void);

#ifdef __cplusplus
}
#endif

#endif  // ACLNN_ACLNN_BASE_H_
