// Part of the published torch_npu's C++ names: docs/cpp_extension.md.
#pragma once

#include <torch_npu/core/error.h>

#include "acl/acl.h"

// Throws c10::Error, with CANN's own report, where a call's status is not 0.
#define NPU_CHECK_ERROR(call, ...) NPU_CHECK(call)
#define NPU_CHECK_WARN_ERROR(call) NPU_CHECK_WARN(call)
