// Part of the published torch_npu's C++ names: docs/cpp_extension.md.
#pragma once

#include <ATen/MemoryOverlap.h>

namespace at_npu::native {

using at::assert_no_internal_overlap;
using at::assert_no_overlap;
using at::assert_no_partial_overlap;
using at::has_internal_overlap;

}  // namespace at_npu::native
