// The allocator's settings: PYTORCH_NPU_ALLOC_CONF, PYTORCH_ALLOC_CONF and setAllocatorSettings.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "memory/block.h"

namespace torch_npu::memory {

struct AllocatorConfig {
  // Powers of two from 1 MiB to 64 GiB and more; 0 or 1: round to 512 bytes.
  static constexpr size_t kRoundupIntervals = 16;

  size_t max_split_size = SIZE_MAX;
  size_t max_non_split_rounding = kLargeSegment;
  double garbage_collection_threshold = 0;  // 0: off
  bool expandable_segments = false;
  double per_process_memory_fraction = 1;
  std::array<size_t, kRoundupIntervals> roundup_divisions{};
  // Keys that are PyTorch's own (pinned memory), to be handed to it as they are.
  std::string for_torch;

  // "key:value,key:[a:1,b:2]". Throws c10::ValueError naming the key, what was given and what is allowed.
  static AllocatorConfig parse(const std::string& text);

  bool rounds_to_power2() const;
  // The size of the block a request of `bytes` gets at least.
  size_t rounded(size_t bytes) const;
};

}  // namespace torch_npu::memory
