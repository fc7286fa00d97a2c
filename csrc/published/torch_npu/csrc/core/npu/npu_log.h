// Part of the published torch_npu's C++ names: docs/cpp_extension.md. The macros write to CANN's log.
#pragma once

#include "acl/acl.h"

#define NPU_PUBLISHED_LOG(level, ...) aclAppLog(level, __func__, __FILE__, __LINE__, __VA_ARGS__)
#define ASCEND_LOGE(...) NPU_PUBLISHED_LOG(ACL_ERROR, __VA_ARGS__)
#define ASCEND_LOGW(...) NPU_PUBLISHED_LOG(ACL_WARNING, __VA_ARGS__)
#define ASCEND_LOGI(...) NPU_PUBLISHED_LOG(ACL_INFO, __VA_ARGS__)
#define ASCEND_LOGD(...) NPU_PUBLISHED_LOG(ACL_DEBUG, __VA_ARGS__)
