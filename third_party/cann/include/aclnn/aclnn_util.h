// What operators' own headers mark their functions with.
#ifndef ACLNN_ACLNN_UTIL_H_
#define ACLNN_ACLNN_UTIL_H_

#ifndef ACLNN_API
#define ACLNN_API __attribute__((visibility("default")))
#endif

#endif  // ACLNN_ACLNN_UTIL_H_
