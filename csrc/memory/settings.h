// Where the allocator's settings come from: the two variables, and PyTorch's own interface to them.
#pragma once

#include <string>

#include "memory/config.h"

namespace torch_npu::memory {

// The settings of new heaps, read from the options at the first call. Throws c10::ValueError when they
// are wrong, or when both variables are set and differ.
const AllocatorConfig& common_settings();
// Replaces them. `tell_torch`: hand PyTorch its part, unless the text came from there.
const AllocatorConfig& change_common_settings(const std::string& text, bool tell_torch);

}  // namespace torch_npu::memory
