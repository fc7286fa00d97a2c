// Part of the published torch_npu's C++ names: docs/cpp_extension.md.
#pragma once

#include <vector>

#include <ATen/ATen.h>

#include "torch_npu/csrc/core/npu/NPUFormat.h"
