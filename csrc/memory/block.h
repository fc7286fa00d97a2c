// A block: a range of device memory inside a segment, and the arithmetic of sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

#include "memory/stats.h"

namespace torch_npu::memory {

// The sizes PyTorch's users expect to see in memory_allocated and memory_reserved.
constexpr size_t kMinBlock = 512;                // every block is a multiple of this
constexpr size_t kSmallLimit = size_t{1} << 20;  // largest request the small pool serves
constexpr size_t kSmallSegment = size_t{2} << 20;
constexpr size_t kLargeSegment = size_t{20} << 20;  // requests below half of it share such a segment
constexpr size_t kRoundLarge = size_t{2} << 20;     // larger ones get a segment rounded to this

inline size_t round_up(size_t value, size_t multiple) { return (value + multiple - 1) / multiple * multiple; }
inline size_t round_down(size_t value, size_t multiple) { return value / multiple * multiple; }
// Size classes count blocks in units of kMinBlock.
inline size_t units_of(size_t bytes) { return (bytes + kMinBlock - 1) / kMinBlock; }
inline PoolType pool_type(size_t rounded) { return rounded <= kSmallLimit ? kSmall : kLarge; }

enum class BlockState : uint8_t {
  free,    // in the best-fit list, merged with its neighbours
  cached,  // in a size class, kept whole for the next request of its size
  allocated,
  pending,   // freed, but other streams have not passed their events
  unmapped,  // address range without memory, in an expandable segment
  detached,  // one thread has taken it out of all lists and is in a device call with it
};

class Heap;
struct StreamPool;
struct Segment;

// Why a block must take the long way when it is freed; none for most.
enum BlockMark : uint8_t {
  kUsedElsewhere = 1,  // record_stream
  kHasContext = 2,     // a stack trace of its allocation is kept
  kOversize = 4,       // at or above max_split_size
  kUncached = 8,       // caching was off when it was allocated
  kRawPointer = 16,    // handed out as a bare address; see Heap::raw_
};

struct alignas(64) Block {
  // The first cache line is all that a warm allocation or free touches.
  char* ptr = nullptr;
  size_t size = 0;
  size_t requested = 0;          // what the caller asked for
  Block* next_cached = nullptr;  // link in a size class or in the slab of unused blocks
  StreamPool* pool = nullptr;
  Block* prev = nullptr;  // neighbours in the segment, by address
  Block* next = nullptr;
  uint32_t units = 0;  // its size class: the rounded request it last served
  BlockState state = BlockState::detached;
  PoolType type = kSmall;
  uint8_t marks = 0;  // BlockMark

  // The second is for the long way.
  Segment* segment = nullptr;
  std::unique_ptr<std::vector<c10::Stream>> uses;  // other streams it was used on
  std::shared_ptr<c10::GatheredContext> context;
  uint64_t freed_at = 0;  // the heap's search count when it became free, for garbage collection
  uint32_t events = 0;    // outstanding, while pending

  bool is_split() const { return prev || next; }
  bool inactive() const { return state == BlockState::free || state == BlockState::cached; }
};
static_assert(offsetof(Block, segment) == 64, "the hot fields must fill exactly one cache line");

struct BySizeThenAddress {
  using is_transparent = void;
  bool operator()(const Block* a, const Block* b) const { return a->size != b->size ? a->size < b->size : a->ptr < b->ptr; }
  bool operator()(const Block* a, size_t size) const { return a->size < size; }
};
struct ByAddress {
  bool operator()(const Block* a, const Block* b) const { return a->ptr < b->ptr; }
};

// Blocks come from slabs and go back to a list: a split costs no malloc.
class BlockSlab {
 public:
  Block* make() {
    if (!unused_) refill();
    Block* block = unused_;
    unused_ = block->next_cached;
    *block = Block();
    return block;
  }
  void recycle(Block* block) {
    *block = Block();
    block->next_cached = unused_;
    unused_ = block;
  }

 private:
  void refill() {
    constexpr size_t kBlocksPerSlab = 256;
    slabs_.push_back(std::make_unique<Block[]>(kBlocksPerSlab));
    for (size_t i = kBlocksPerSlab; i-- > 0;) {
      slabs_.back()[i].next_cached = unused_;
      unused_ = &slabs_.back()[i];
    }
  }
  std::vector<std::unique_ptr<Block[]>> slabs_;
  Block* unused_ = nullptr;
};

}  // namespace torch_npu::memory
