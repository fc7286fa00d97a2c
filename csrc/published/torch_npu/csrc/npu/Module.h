// Part of the published torch_npu's C++ names: docs/cpp_extension.md.
#pragma once

// Extensions include it and use what it brings: nothing of the bindings themselves.
#include "torch_npu/csrc/core/npu/NPUStream.h"
