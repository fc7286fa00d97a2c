// How the heap gives memory back to the device, and what happens when there is none left.
#include <algorithm>

#include <c10/util/Exception.h>

#include "memory/expandable_segment.h"
#include "memory/heap.h"

namespace torch_npu::memory {

// Memory on its way back to the device; no list knows it any more.
struct Heap::Detached {
  std::vector<std::unique_ptr<Segment>> segments;
  std::vector<Block*> ranges;  // whole granules of expandable segments
  bool empty() const { return segments.empty() && ranges.empty(); }
};

namespace {

bool whole_segment(const Block* block) { return !block->is_split() && !block->segment->expandable; }

}  // namespace

// Memory went out although the device refused: give back what is unused, in growing circles.
Block* Heap::reclaim_and_retry(HeapLock& lock, const Request& request, const Context& context) {
  if (release_oversize(lock, request)) {
    if (Block* block = grow(lock, request, context)) return block;
  }
  if (captures_ == 0) {
    ++stats_.alloc_retries;
    wait_events(lock);
    if (Block* block = find(request)) return block;
    release_unused(lock, {0, 0});
    if (Block* block = grow(lock, request, context)) return block;
  }
  // Another thread may be on its way to the device with memory that is enough for us, or have come back from it while
  // this one was there.
  while (reclaiming_ > 0 || growing_ > 0) {
    give_up(lock);
    api_.wait_until([this] {
      const SpinGuard look(lock_);
      return reclaiming_ == 0 && growing_ == 0;
    });
    take_again(lock);
  }
  if (Block* block = find(request)) return block;
  if (Block* block = grow(lock, request, context)) return block;
  return borrow_from_pools(request);
}

Block* Heap::borrow_from_pools(const Request& request) {
  for (auto& [id, owner] : private_pools_) {
    if (!owner->options.use_on_oom) continue;
    auto found = owner->streams.find(request.pool->stream);
    if (found == owner->streams.end()) continue;
    Request there = request;
    there.pool = found->second.get();
    there.rule = fit_rule(owner.get());
    if (Block* block = find(there)) return block;
  }
  return nullptr;
}

// Gives back the segments that have been unused for longest, until the process holds no more than
// the threshold allows.
void Heap::collect_garbage(HeapLock& lock, const Request&) {
  const auto allowed = static_cast<double>(std::min(limit_, total_));
  const auto target = static_cast<int64_t>(config_.garbage_collection_threshold * allowed);
  int64_t excess = stats_.reserved_bytes.current() - target;
  if (excess <= 0 || captures_ > 0) return;
  std::vector<Block*> unused;
  for (auto& [id, pool] : streams_) {
    blocks_.drain(*pool, kLarge, searches_);
    for (Block* block : pool->lists[kLarge].blocks()) {
      if (whole_segment(block)) unused.push_back(block);
    }
  }
  std::sort(unused.begin(), unused.end(), [](auto* a, auto* b) { return a->freed_at < b->freed_at; });
  Detached out;
  for (Block* block : unused) {
    if (excess <= 0) break;
    excess -= static_cast<int64_t>(block->size);
    detach_segment(block, out);
  }
  give_back(lock, out);
}

// With max_split_size set, oversize blocks are whole segments: one that is larger than asked, or
// several smaller ones, make room for a new one.
bool Heap::release_oversize(HeapLock& lock, const Request& request) {
  if (config_.max_split_size == SIZE_MAX || request.type == kSmall || captures_ > 0) return false;
  auto& list = request.pool->lists[kLarge];
  const size_t wanted = std::max(request.size, config_.max_split_size);
  Detached out;
  if (Block* block = list.at_least(wanted); block && whole_segment(block)) {
    detach_segment(block, out);
  } else {
    std::vector<Block*> largest_first(list.blocks().rbegin(), list.blocks().rend());
    size_t found = 0;
    for (Block* candidate : largest_first) {
      if (found >= wanted || candidate->size < config_.max_split_size) break;
      if (!whole_segment(candidate)) continue;
      found += candidate->size;
      detach_segment(candidate, out);
    }
    if (found < request.size) {
      give_back(lock, out);
      return false;
    }
  }
  give_back(lock, out);
  return true;
}

void Heap::detach_segment(Block* block, Detached& out) {
  Segment* segment = block->segment;
  blocks_.detach(block);
  stats_.segment.sub(segment->type, 1);
  stats_.reserved_bytes.sub(segment->type, static_cast<int64_t>(segment->size));
  ++stats_.device_frees;
  if (segment->size >= config_.max_split_size) stats_.oversize_segment.sub(kLarge, 1);
  trace(TraceAction::segment_free, segment->base, segment->size, block->pool->stream, pool_id(block->pool), segment->context);
  blocks_.recycle(block);
  segment->first = nullptr;
  auto found = segments_.find(segment->base);
  out.segments.push_back(std::move(found->second));
  segments_.erase(found);
}

// The whole granules inside a free block.
void Heap::detach_granules(Block* block, Detached& out) {
  Segment* segment = block->segment;
  const size_t granule = segment->expandable->granule();
  const auto offset = static_cast<size_t>(block->ptr - segment->base);
  const size_t start = round_up(offset, granule), end = round_down(offset + block->size, granule);
  if (start >= end) return;
  blocks_.detach(block);
  Block* middle = block;
  if (start > offset) {
    middle = blocks_.split(block, start - offset);
    blocks_.release(block, searches_);
  }
  if (middle->size > end - start) blocks_.release(blocks_.split(middle, end - start), searches_);
  stats_.reserved_bytes.sub(segment->type, static_cast<int64_t>(middle->size));
  ++stats_.device_frees;
  segment->mapped -= middle->size;
  if (segment->mapped == 0) stats_.segment.sub(segment->type, 1);
  trace(TraceAction::segment_unmap, middle->ptr, middle->size, block->pool->stream, pool_id(block->pool), nullptr);
  out.ranges.push_back(middle);
}

void Heap::return_segment(Segment& segment) noexcept {
  if (segment.expandable) {
    segment.expandable = nullptr;
  } else if (auto* owner = segment.pool->owner; owner && owner->options.allocator) {
    owner->options.allocator->free(segment.base, segment.size, device_, stream_of(segment.pool->stream));
  } else {
    api_.free(device_, segment.base, segment.size);
  }
}

void Heap::give_back(HeapLock& lock, Detached& out) {
  if (out.empty()) return;
  ++reclaiming_;
  give_up(lock);
  // The memory was free for its stream, which says nothing about the work still running there.
  api_.quiesce(device_);
  for (auto& segment : out.segments) return_segment(*segment);
  for (Block* range : out.ranges) {
    range->segment->expandable->unmap(static_cast<size_t>(range->ptr - range->segment->base), range->size);
  }
  take_again(lock);
  for (Block* range : out.ranges) drop_expandable_if_empty(lock, blocks_.release_unmapped(range));
  for (auto& segment : out.segments) {
    if (segment->pool->owner) --segment->pool->owner->segments;
  }
  --reclaiming_;
  forget_empty_pools();
}

// Gives up the address range of an expandable segment that has no memory left.
void Heap::drop_expandable_if_empty(HeapLock& lock, Block* unmapped) {
  if (unmapped->is_split()) return;
  blocks_.detach(unmapped);
  auto found = segments_.find(unmapped->segment->base);
  auto segment = std::move(found->second);
  segments_.erase(found);
  blocks_.recycle(unmapped);
  give_up(lock);
  segment->expandable = nullptr;
  take_again(lock);
  if (segment->pool->owner) --segment->pool->owner->segments;
}

void Heap::free_uncached(HeapLock& lock, Block* block) noexcept {
  trace(TraceAction::free_completed, block, nullptr);
  Detached out;
  detach_segment(block, out);
  give_back(lock, out);
}

void Heap::release_pool_memory(StreamPool& pool, Detached& out) {
  for (auto type : {kSmall, kLarge}) {
    blocks_.drain(pool, type, searches_);
    const auto& free = pool.lists[type].blocks();
    for (Block* block : std::vector<Block*>(free.begin(), free.end())) {
      if (block->segment->expandable) {
        detach_granules(block, out);
      } else if (whole_segment(block)) {
        detach_segment(block, out);
      }
    }
  }
}

void Heap::release_unused(HeapLock& lock, MempoolId only) {
  Detached out;
  const bool everything = only == MempoolId{0, 0};
  if (everything) {
    for (auto& [id, pool] : streams_) release_pool_memory(*pool, out);
  }
  for (auto& [id, owner] : private_pools_) {
    if (owner->uses > 0 || (!everything && id != only)) continue;
    for (auto& [stream, pool] : owner->streams) release_pool_memory(*pool, out);
  }
  if (out.empty()) {
    forget_empty_pools();
  } else {
    give_back(lock, out);
  }
}

void Heap::forget_empty_pools() {
  for (auto it = private_pools_.begin(); it != private_pools_.end();) {
    const bool gone = it->second->uses == 0 && it->second->segments == 0;
    it = gone ? private_pools_.erase(it) : std::next(it);
  }
}

void Heap::empty_cache(MempoolId pool) {
  HeapLock lock(lock_);
  if (captures_ == 0) wait_events(lock);
  release_unused(lock, pool);
}

}  // namespace torch_npu::memory
