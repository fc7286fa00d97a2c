// The pools of one stream, and the arithmetic that splits, merges and finds blocks. No device calls,
// no locks: everything here runs under the heap's lock and is tested without a device.
#pragma once

#include <set>

#include "memory/size_classes.h"

namespace torch_npu::memory {

class ExpandableSegment;
struct PrivatePool;

// A contiguous piece of device address space that came from one device call.
struct Segment {
  char* base = nullptr;
  size_t size = 0;    // address range; for an expandable one, what is reserved
  size_t mapped = 0;  // memory behind it; equals size unless expandable
  StreamPool* pool = nullptr;
  PoolType type = kSmall;
  Block* first = nullptr;
  std::unique_ptr<ExpandableSegment> expandable;  // set if expandable
  std::shared_ptr<c10::GatheredContext> context;

  Segment();
  ~Segment();
};

// The limits of best fit for one request.
struct FitRule {
  size_t max_split = SIZE_MAX;                    // blocks from this size on are not split
  size_t max_non_split_rounding = kLargeSegment;  // how much larger than asked such a block may be
  bool no_split = false;                          // a private pool may ask for whole segments
};

class FreeList {
 public:
  void insert(Block* block) { blocks_.insert(block); }
  void erase(Block* block) { blocks_.erase(block); }
  // The smallest block that holds `size` and that the rule allows; stays in the list.
  Block* best_fit(size_t size, const FitRule& rule) const;
  // Smallest block of at least `size`, whatever the rule.
  Block* at_least(size_t size) const;
  const std::set<Block*, BySizeThenAddress>& blocks() const { return blocks_; }

  // Unmapped ranges of this pool's expandable segments.
  std::set<Block*, ByAddress> unmapped;

 private:
  std::set<Block*, BySizeThenAddress> blocks_;
};

// What one stream owns in the default pool or in a private one. Blocks never change stream.
struct StreamPool {
  StreamPool(Heap* heap, PrivatePool* owner, c10::StreamId stream) : heap(heap), owner(owner), stream(stream) {}
  Heap* const heap;
  PrivatePool* const owner;  // null: the default pool
  const c10::StreamId stream;
  SizeClasses classes;
  std::array<FreeList, kPoolTypes> lists;
  FreeList& list(const Block* block) { return lists[block->type]; }
};

// Splits and merges; keeps the inactive-split counters true.
class BlockArithmetic {
 public:
  explicit BlockArithmetic(HeapStats& stats) : stats_(stats) {}

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
