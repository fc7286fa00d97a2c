#include "memory/pool.h"

#include "memory/expandable_segment.h"

namespace torch_npu::memory {

Segment::Segment() = default;
Segment::~Segment() = default;

Block* FreeList::at_least(size_t size) const {
  auto found = blocks_.lower_bound(size);
  return found == blocks_.end() ? nullptr : *found;
}

Block* FreeList::best_fit(size_t size, const FitRule& rule) const {
  Block* block = at_least(size);
  if (!block) return nullptr;
  const bool whole = block->size >= rule.max_split;
  // A block that may not be split would be wasted on a request that is not itself oversize, or that
  // is much smaller.
  if (whole && size < rule.max_split) return nullptr;
  if (whole && block->size - size >= rule.max_non_split_rounding) return nullptr;
  return block;
}

}  // namespace torch_npu::memory
