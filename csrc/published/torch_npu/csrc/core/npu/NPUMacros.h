// Part of the published torch_npu's C++ names: docs/cpp_extension.md.
#pragma once

#include <c10/macros/Macros.h>

#define TORCH_NPU_API C10_IMPORT
#define C10_NPU_API C10_IMPORT
