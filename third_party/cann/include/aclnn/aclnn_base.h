// The descriptors of operators, by the other name that programs include them by.
#ifndef ACLNN_ACLNN_BASE_H_
#define ACLNN_ACLNN_BASE_H_

#include "aclnn/acl_meta.h"

#endif  // ACLNN_ACLNN_BASE_H_
