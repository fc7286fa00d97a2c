// The pools of one stream: their segments and their free blocks, of which the best fit is taken (block_split.h splits and merges
// them). No device calls, no locks: everything here runs under the heap's lock and is tested without a device.
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

}  // namespace torch_npu::memory
