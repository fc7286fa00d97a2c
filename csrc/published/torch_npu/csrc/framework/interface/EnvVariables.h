// Part of the published torch_npu's C++ names: docs/cpp_extension.md.
#pragma once

#include "torch_npu/csrc/core/npu/NPUMacros.h"
