// How the heap gets memory from the device.
#include <algorithm>
#include <exception>

#include <c10/util/Exception.h>

#include "memory/expandable_segment.h"
#include "memory/heap.h"

namespace torch_npu::memory {

namespace {

size_t segment_size(size_t request, PoolType type, size_t shared) {
  if (type == kSmall) return kSmallSegment;
  return request < kLargeSegment / 2 ? shared : round_up(request, kRoundLarge);
}

}  // namespace

bool Heap::within_limit(size_t more) const {
  return static_cast<size_t>(stats_.reserved_bytes.current()) + growing_ + more <= limit_;
}

void Heap::count_segment(PoolType type, size_t bytes) {
  stats_.reserved_bytes.add(type, static_cast<int64_t>(bytes));
  ++stats_.device_allocs;
}

Block* Heap::grow(HeapLock& lock, const Request& request, const Context& context) {
  const bool own_memory = request.owner && request.owner->options.allocator;
  if (config_.expandable_segments && !own_memory) return grow_expandable(lock, request, context);
  return grow_segment(lock, request, context);
}

Block* Heap::grow_segment(HeapLock& lock, const Request& request, const Context& context) {
  const size_t bytes = caching_ || request.owner ? segment_size(request.size, request.type, config_.large_segment) : request.size;
  if (!within_limit(bytes)) return nullptr;
  growing_ += bytes;
  if (request.owner) ++request.owner->segments;
  auto* raw = request.owner ? request.owner->options.allocator.get() : nullptr;
  give_up(lock);
  void* ptr = nullptr;
  std::exception_ptr failure;
  try {
    ptr = raw ? raw->allocate(bytes, device_, stream_of(request.pool->stream)) : api_.allocate(device_, bytes);
  } catch (...) {
    failure = std::current_exception();
  }
  take_again(lock);
  growing_ -= bytes;
  if (!ptr && request.owner) --request.owner->segments;
  if (failure) std::rethrow_exception(failure);
  if (!ptr) return nullptr;

  auto segment = std::make_unique<Segment>();
  segment->base = static_cast<char*>(ptr);
  segment->size = segment->mapped = bytes;
  segment->pool = request.pool;
  segment->type = request.type;
  segment->context = context;
  count_segment(request.type, bytes);
  stats_.segment.add(request.type, 1);
  if (bytes >= config_.max_split_size) stats_.oversize_segment.add(kLarge, 1);
  trace(TraceAction::segment_alloc, ptr, bytes, request.pool->stream, pool_id(request.pool), context);
  Block* block = blocks_.cover(segment.get());
  segments_.emplace(segment->base, std::move(segment));
  return block;
}

// An unmapped range that, with the free block before it, can hold the request; `bytes` is what must
// be mapped at its start.
Block* Heap::unmapped_room(const Request& request, size_t& bytes) {
  for (Block* room : request.pool->lists[request.type].unmapped) {
    const bool joins = room->prev && room->prev->state == BlockState::free;
    const size_t before = joins ? room->prev->size : 0;
    const size_t granule = room->segment->expandable->granule();
    bytes = round_up(request.size > before ? request.size - before : granule, granule);
    if (room->size >= bytes) return room;
  }
  return nullptr;
}

Segment* Heap::reserve_expandable(HeapLock& lock, const Request& request) {
  const size_t granule = request.type == kSmall ? kSmallSegment : config_.expandable_granule;
  // More than the device has, so that one range is enough even when some of it is fragmented.
  const size_t capacity = round_up(std::max(total_ + total_ / 8, request.size), granule);
  if (request.owner) ++request.owner->segments;
  give_up(lock);
  std::unique_ptr<ExpandableSegment> expandable;
  std::exception_ptr failure;
  try {
    expandable = std::make_unique<ExpandableSegment>(api_, device_, capacity, granule);
  } catch (...) {
    failure = std::current_exception();
  }
  take_again(lock);
  if (failure) {
    if (request.owner) --request.owner->segments;
    std::rethrow_exception(failure);
  }
  auto segment = std::make_unique<Segment>();
  segment->base = expandable->base();
  segment->size = expandable->capacity();
  segment->pool = request.pool;
  segment->type = request.type;
  segment->expandable = std::move(expandable);
  blocks_.release_unmapped(blocks_.cover(segment.get()));
  auto* result = segment.get();
  segments_.emplace(segment->base, std::move(segment));
  return result;
}

Block* Heap::grow_expandable(HeapLock& lock, const Request& request, const Context& context) {
  size_t bytes = 0;
  Block* room = unmapped_room(request, bytes);
  if (!within_limit(room ? bytes : round_up(request.size, kSmallSegment))) return nullptr;
  while (!room) {
    reserve_expandable(lock, request);
    room = unmapped_room(request, bytes);
  }
  Segment* segment = room->segment;
  // Nobody else may take the free block before the range while we are with the device.
  Block* before = room->prev && room->prev->state == BlockState::free ? room->prev : nullptr;
  if (before) blocks_.detach(before);
  blocks_.detach(room);
  if (room->size > bytes) blocks_.release_unmapped(blocks_.split(room, bytes));
  growing_ += bytes;
  give_up(lock);
  bool mapped = false;
  std::exception_ptr failure;
  try {
    mapped = segment->expandable->map(static_cast<size_t>(room->ptr - segment->base), bytes);
  } catch (...) {
    failure = std::current_exception();
  }
  take_again(lock);
  growing_ -= bytes;
  if (before) blocks_.release(before, searches_);
  if (!mapped) drop_expandable_if_empty(lock, blocks_.release_unmapped(room));
  if (failure) std::rethrow_exception(failure);
  if (!mapped) return nullptr;
  count_segment(request.type, bytes);
  if (segment->mapped == 0) stats_.segment.add(request.type, 1);
  segment->mapped += bytes;
  if (!segment->context) segment->context = context;
  trace(TraceAction::segment_map, room->ptr, bytes, request.pool->stream, pool_id(request.pool), context);
  Block* block = blocks_.release(room, searches_);
  blocks_.detach(block);
  return block;
}

}  // namespace torch_npu::memory
