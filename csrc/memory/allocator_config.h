// The allocator's settings: PYTORCH_NPU_ALLOC_CONF, PYTORCH_ALLOC_CONF and setAllocatorSettings.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <unordered_set>

#include "memory/block.h"

namespace torch_npu::memory {

struct AllocatorConfig {
  // Powers of two from 1 MiB to 64 GiB and more; 0 or 1: round to 512 bytes.
  static constexpr size_t kRoundupIntervals = 16;

  size_t max_split_size = SIZE_MAX;
  size_t max_non_split_rounding = kLargeSegment;
  size_t large_segment = kLargeSegment;       // what requests of 1 to 10 MiB share
  size_t expandable_granule = kLargeSegment;  // by which an expandable segment of the large pool grows
  double garbage_collection_threshold = 0;    // 0: off
  bool expandable_segments = false;
  double per_process_memory_fraction = 1;
  std::array<size_t, kRoundupIntervals> roundup_divisions{};
  // Keys that are PyTorch's own (pinned memory), to be handed to it as they are.
  std::string for_torch;
  // Of the published keys that are taken, those from which nothing follows here, and why.
  std::string without_effect;

  // The published keys besides max_split_size_mb and the others of PyTorch.
  static std::unordered_set<std::string> published_keys();
  // "key:value,key:[a:1,b:2]". Throws c10::ValueError naming the key, what was given and what is allowed.
  static AllocatorConfig parse(const std::string& text);

  bool rounds_to_power2() const;
  // The size of the block a request of `bytes` gets at least.
  size_t rounded(size_t bytes) const;
};

// Where it comes from (allocator_config_source.cpp): the two variables, and PyTorch's own interface to them.

// The settings of new heaps, read from the options at the first call. Throws c10::ValueError when they
// are wrong, or when both variables are set and differ.
const AllocatorConfig& common_config();
// Replaces them. `tell_torch`: hand PyTorch its part, unless the text came from there.
const AllocatorConfig& change_common_config(const std::string& text, bool tell_torch);

}  // namespace torch_npu::memory
