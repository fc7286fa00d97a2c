#include "memory/heap.h"

#include <chrono>

#include <c10/util/Exception.h>

#include "memory/expandable_segment.h"

namespace torch_npu::memory {
namespace {

// Far above any device: a size from a negative number or an overflow.
constexpr size_t kAbsurd = size_t{1} << 60;

}  // namespace

Heap::Heap(c10::DeviceIndex device, DeviceApi& api, const AllocatorConfig& config)
    : device_(device), api_(api), total_(api.memory_info(device).second) {
  configure(config);
}

Heap::~Heap() {
  for (auto& [base, segment] : segments_) return_segment(*segment);
  for (auto& [key, queue] : pending_) {
    for (auto& entry : queue) api_.destroy_event(entry.device, entry.event);
  }
  for (auto& [device, events] : spare_events_) {
    for (auto event : events) api_.destroy_event(device, event);
  }
}

void Heap::set_mode(uint32_t mode, bool on) {
  const auto now = modes_.load(std::memory_order_relaxed);
  modes_.store(on ? now | mode : now & ~mode, std::memory_order_relaxed);
}

c10::Stream Heap::stream_of(c10::StreamId id) const {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::PrivateUse1, device_), id);
}

FitRule Heap::fit_rule(const PrivatePool* owner) const {
  return {config_.max_split_size, config_.max_non_split_rounding, owner && owner->options.no_split};
}

StreamPool* Heap::stream_pool(PrivatePool* owner, c10::StreamId stream) {
  auto& pool = (owner ? owner->streams : streams_)[stream];
  if (!pool) pool = std::make_unique<StreamPool>(this, owner, stream);
  if (!owner) known_[slot_of(stream)] = {stream, pool.get()};
  return pool.get();
}

std::shared_ptr<PrivatePool> Heap::route(c10::StreamId stream) {
  if (!(modes_.load(std::memory_order_relaxed) & kRouting)) return nullptr;
  const core::MutexLock guard(routes_mutex_);
  // The innermost of nested pools, a MemPool's within a capture too, is the one that was begun last.
  for (auto entry = routes_.rbegin(); entry != routes_.rend(); ++entry) {
    if (entry->accepts(stream_of(stream))) return entry->pool;
  }
  return nullptr;
}

Block* Heap::allocate_long(size_t bytes, c10::StreamId stream) {
  TORCH_CHECK_WITH(OutOfMemoryError, bytes < kAbsurd, "NPU out of memory. Tried to allocate ", bytes,
                   " bytes on npu:", static_cast<int>(device_), ", more than any device can have.");
  const Context context = gather(Stacks::live);
  poll_events();
  Request request{};
  request.bytes = bytes;
  request.owner = route(stream);

  HeapLock lock(lock_);
  ++searches_;
  // The pool may have been given up between the two locks.
  if (request.owner && !private_pools_.count(request.owner->id)) request.owner = nullptr;
  request.size = config_.rounded(bytes);
  request.type = pool_type(request.size);
  request.rule = fit_rule(request.owner.get());
  request.pool = stream_pool(request.owner.get(), stream);
  if (!caching_ && !request.owner) return allocate_uncached(lock, request, context);

  Block* block = find(request);
  if (!block && config_.garbage_collection_threshold > 0) collect_garbage(lock, request);
  if (!block) block = grow(lock, request, context);
  if (!block) block = reclaim_and_retry(lock, request, context);
  if (!block) throw_out_of_memory(lock, request, context);
  return commit(block, request, context);
}

// A detached block of at least the request's size from memory the process already has.
Block* Heap::find(const Request& request) {
  auto& pool = *request.pool;
  Block* block = pool.classes.pop(units_of(request.size));
  if (!block) {
    const auto& list = pool.lists[request.type];
    // Large blocks are few and cutting the wrong one is what fragments memory: let them merge first.
    if (request.type == kLarge) blocks_.drain(pool, kLarge, searches_);
    block = list.best_fit(request.size, request.rule);
    if (!block && request.type == kSmall && blocks_.drain(pool, kSmall, searches_)) {
      block = list.best_fit(request.size, request.rule);
    }
  }
  if (block) blocks_.detach(block);
  return block;
}

// Hands a detached block out, cut to size.
Block* Heap::commit(Block* block, const Request& request, const Context& context) {
  if (BlockSplitter::should_split(block, request.size, request.rule)) {
    blocks_.release(blocks_.split(block, request.size), searches_);
  }
  block->state = BlockState::allocated;
  block->requested = request.bytes;
  block->units = static_cast<uint32_t>(units_of(request.size));
  if (context) {
    block->context = context;
    block->marks |= kHasContext;
  }
  if (block->size >= config_.max_split_size) {
    block->marks |= kOversize;
    stats_.oversize_allocation.add(kLarge, 1);
  }
  stats_.allocation.add(block->type, 1);
  stats_.allocated_bytes.add(block->type, static_cast<int64_t>(block->size));
  stats_.requested_bytes.add(block->type, static_cast<int64_t>(request.bytes));
  stats_.note_active();
  trace(TraceAction::alloc, block, context);
  return block;
}

Block* Heap::allocate_uncached(HeapLock& lock, const Request& request, const Context& context) {
  Request exact = request;
  exact.rule.no_split = true;
  Block* block = grow_segment(lock, exact, context);
  if (!block) block = reclaim_and_retry(lock, exact, context);
  if (!block) throw_out_of_memory(lock, exact, context);
  block = commit(block, exact, context);
  if (!block->is_split() && !block->segment->expandable) block->marks |= kUncached;
  return block;
}

void Heap::free_long(Block* block) noexcept {
  const Context context = gather(Stacks::all);
  Context dead;  // released after the lock
  std::unique_ptr<std::vector<c10::Stream>> uses;
  {
    HeapLock lock(lock_);
    dead = std::move(block->context);
    trace(TraceAction::free_requested, block, context);
    count_free(block);
    if (block->marks & kOversize) stats_.oversize_allocation.sub(kLarge, 1);
    if (block->marks & kUncached) return free_uncached(lock, block);
    if (!(block->marks & kUsedElsewhere)) return finish_free(block);
    block->state = BlockState::pending;
    stats_.pending.add(block->type, 1);
    stats_.pending_bytes.add(block->type, static_cast<int64_t>(block->size));
    set_mode(kPending, true);
    if (captures_ > 0) {
      deferred_.push_back(block);
      return;
    }
    uses = std::move(block->uses);
    block->events = static_cast<uint32_t>(uses->size());
  }
  record_uses(block, *uses);
}

// The block's memory is free for its stream from here on.
void Heap::finish_free(Block* block) {
  trace(TraceAction::free_completed, block, nullptr);
  const bool oversize = block->marks & kOversize;
  block->marks = 0;
  block->context = nullptr;
  block->uses = nullptr;
  if (!oversize) {
    if (blocks_.cache(block)) return;
    blocks_.release_chain(block->pool->classes.drain_bin(block->units), searches_);
    if (blocks_.cache(block)) return;
  }
  blocks_.release(block, searches_);
}

void Heap::record_stream(Block* block, c10::Stream stream) {
  if (stream.device_index() == device_ && stream.id() == block->pool->stream) return;
  const SpinGuard lock(lock_);
  if (!block->uses) block->uses = std::make_unique<std::vector<c10::Stream>>();
  for (const auto& known : *block->uses) {
    if (known == stream) return;
  }
  block->uses->push_back(stream);
  block->marks |= kUsedElsewhere;
}

void* Heap::allocate_raw(size_t bytes, c10::StreamId stream) {
  Block* block = allocate(bytes, stream);
  const SpinGuard lock(lock_);
  block->marks |= kRawPointer;
  raw_[block->ptr] = block;
  return block->ptr;
}

bool Heap::free_raw(void* ptr) {
  Block* block = nullptr;
  {
    const SpinGuard lock(lock_);
    auto found = raw_.find(ptr);
    if (found == raw_.end()) return false;
    block = found->second;
    raw_.erase(found);
    block->marks &= static_cast<uint8_t>(~kRawPointer);
  }
  free(block);
  return true;
}

Context Heap::gather(Stacks needed) const noexcept {
  if (!wants(needed)) return nullptr;
  auto* make = gather_.load();
  try {
    return make ? make() : nullptr;
  } catch (...) {
    return nullptr;  // a missing stack must not fail an allocation
  }
}

void Heap::trace(TraceAction action, const void* address, size_t size, c10::StreamId stream, MempoolId pool, Context context) {
  if (!history_.entries || (history_.skipped_actions >> static_cast<int>(action) & 1)) return;
  const auto now = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch());
  if (action != TraceAction::oom && !wants(Stacks::allocations)) context = nullptr;
  trace_.add({action, device_, reinterpret_cast<size_t>(address), size, stream, pool, now.count(), std::move(context), {}});
}

void Heap::trace(TraceAction action, const Block* block, Context context) {
  if (C10_LIKELY(!history_.entries)) return;
  trace(action, block->ptr, block->size, block->pool->stream, pool_id(block->pool), std::move(context));
}

}  // namespace torch_npu::memory
