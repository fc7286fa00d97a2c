// When a block is split and how, and how neighbours become one again. As in pool.h, the heap's lock is held.
#pragma once

#include "memory/pool.h"

namespace torch_npu::memory {

// Splits and merges; keeps the inactive-split counters true.
class BlockSplitter {
 public:
  explicit BlockSplitter(HeapStats& stats) : stats_(stats) {}

  // The whole of a new segment, detached.
  Block* cover(Segment* segment);

  // Whether a block found for `size` should be cut to it.
  static bool should_split(const Block* block, size_t size, const FitRule& rule);
  // Cuts a detached block; the rest (at higher addresses) is returned detached.
  Block* split(Block* block, size_t size);

  // Detached -> free: merges with free neighbours and enters the best-fit list.
  Block* release(Block* block, uint64_t now);
  // Detached -> unmapped: merges with unmapped neighbours.
  Block* release_unmapped(Block* block);
  // Detached -> cached; false if its size class has no room (the block stays detached).
  bool cache(Block* block);
  // Free, cached or unmapped -> detached. A cached block must already be out of its class.
  void detach(Block* block);
  // Moves the cached blocks of a type to the best-fit list. True if there were any.
  bool drain(StreamPool& pool, PoolType type, uint64_t now);
  void release_chain(Block* cached, uint64_t now);

  void recycle(Block* block) { slab_.recycle(block); }

  // Counting of inactive blocks; the warm path calls these directly.
  void count_inactive(const Block* block) {
    if (!block->is_split()) return;
    stats_.inactive_split.add(block->type, 1);
    stats_.inactive_split_bytes.add(block->type, static_cast<int64_t>(block->size));
  }
  void discount_inactive(const Block* block) {
    if (!block->is_split()) return;
    stats_.inactive_split.sub(block->type, 1);
    stats_.inactive_split_bytes.sub(block->type, static_cast<int64_t>(block->size));
  }

 private:
  void absorb(Block* block, Block* neighbour);

  HeapStats& stats_;
  BlockSlab slab_;
};

}  // namespace torch_npu::memory
