// Settings, statistics and snapshots of a heap, and what it says when memory is out.
#include <c10/util/Exception.h>

#include "memory/heap.h"

namespace torch_npu::memory {

void Heap::configure(const AllocatorConfig& config) {
  const SpinGuard lock(lock_);
  if (config.per_process_memory_fraction != config_.per_process_memory_fraction) {
    fraction_ = config.per_process_memory_fraction;
    limit_ = fraction_ < 1 ? static_cast<size_t>(fraction_ * static_cast<double>(total_)) : SIZE_MAX;
  }
  config_ = config;
  set_mode(kRounding, config_.rounds_to_power2());
}

AllocatorConfig Heap::config() const {
  const SpinGuard lock(lock_);
  return config_;
}

void Heap::set_memory_fraction(double fraction) {
  TORCH_CHECK_VALUE(fraction >= 0 && fraction <= 1, "the memory fraction must be from 0 to 1, but is ", fraction);
  const SpinGuard lock(lock_);
  fraction_ = fraction;
  limit_ = fraction < 1 ? static_cast<size_t>(fraction * static_cast<double>(total_)) : SIZE_MAX;
}

double Heap::memory_fraction() const {
  const SpinGuard lock(lock_);
  return fraction_;
}

void Heap::set_caching(bool enabled) {
  const SpinGuard lock(lock_);
  caching_ = enabled;
  set_mode(kNoCache, !enabled);
}

StatsReport Heap::statistics() {
  poll_events();
  const SpinGuard lock(lock_);
  return report(stats_, config_.max_split_size);
}

size_t Heap::allocated_bytes() const {
  const SpinGuard lock(lock_);
  return static_cast<size_t>(stats_.allocated_bytes.current());
}

size_t Heap::reserved_bytes() const {
  const SpinGuard lock(lock_);
  return static_cast<size_t>(stats_.reserved_bytes.current());
}

void Heap::reset_peak_stats() {
  const SpinGuard lock(lock_);
  stats_.reset_peak();
}

void Heap::reset_accumulated_stats() {
  const SpinGuard lock(lock_);
  stats_.reset_accumulated();
}

void Heap::add_observer(OutOfMemoryObserver observer) {
  const SpinGuard lock(lock_);
  observers_.push_back(std::move(observer));
}

std::pair<size_t, size_t> Heap::pool_bytes(MempoolId pool) {
  const SpinGuard lock(lock_);
  size_t held = 0, unused = 0;
  for (auto& [base, segment] : segments_) {
    if (pool_id(segment->pool) != pool) continue;
    held += segment->mapped;
    for (Block* block = segment->first; block; block = block->next) {
      if (block->inactive()) unused += block->size;
    }
  }
  return {held, unused};
}

void Heap::record_history(const HistorySettings& settings, bool clear) {
  const SpinGuard lock(lock_);
  gather_.store(settings.gather);
  stacks_.store(static_cast<uint8_t>(settings.gather ? settings.stacks : Stacks::never));
  if (clear || settings.max_entries != history_.max_entries) trace_.set_limit(settings.max_entries);
  history_ = settings;
  set_mode(kTracing, settings.entries || stacks_.load() != 0);
}

void Heap::clear_history() {
  const SpinGuard lock(lock_);
  trace_.clear();
}

std::optional<Heap::SegmentRange> Heap::segment_of(const void* ptr) {
  const SpinGuard lock(lock_);
  auto* address = const_cast<char*>(static_cast<const char*>(ptr));
  auto after = segments_.upper_bound(address);
  if (after == segments_.begin()) return std::nullopt;
  const auto& segment = *std::prev(after)->second;
  if (address >= segment.base + segment.size) return std::nullopt;
  return SegmentRange{segment.base, segment.size, segment.expandable != nullptr};
}

Context Heap::context_of(const void* ptr) {
  const SpinGuard lock(lock_);
  auto* address = const_cast<char*>(static_cast<const char*>(ptr));
  auto after = segments_.upper_bound(address);
  if (after == segments_.begin()) return nullptr;
  for (Block* block = std::prev(after)->second->first; block; block = block->next) {
    if (block->ptr == address) return block->context;
  }
  return nullptr;
}

namespace {

BlockInfo describe(const Block* block) {
  const bool allocated = block->state == BlockState::allocated, pending = block->state == BlockState::pending;
  return {reinterpret_cast<size_t>(block->ptr), block->size, allocated || pending ? block->requested : 0,
          allocated ? "active_allocated"
          : pending ? "active_pending_free"
                    : "inactive",
          block->context};
}

void add(SegmentInfo& info, const Block* block) {
  info.total_size += block->size;
  if (block->state == BlockState::allocated) {
    info.allocated_size += block->size;
    info.requested_size += block->requested;
  }
  if (block->state == BlockState::allocated || block->state == BlockState::pending) info.active_size += block->size;
  info.blocks.push_back(describe(block));
}

// A detached block is on its way to or from the device: neither reserved nor usable.
bool has_memory(const Block* block) { return block->state != BlockState::unmapped && block->state != BlockState::detached; }

}  // namespace

HeapSnapshot Heap::snapshot(std::optional<MempoolId> only, bool with_trace) {
  poll_events();
  const Context context = gather(Stacks::allocations);
  HeapSnapshot result;
  const SpinGuard lock(lock_);
  for (auto& [base, segment] : segments_) {
    const auto pool = pool_id(segment->pool);
    if (only && *only != pool) continue;
    // An expandable segment shows as one entry for each contiguous run of memory.
    bool in_run = false;
    for (Block* block = segment->first; block; block = block->next) {
      if (!has_memory(block)) {
        in_run = false;
        continue;
      }
      if (!in_run) {
        SegmentInfo info;
        info.device = device_;
        info.address = reinterpret_cast<size_t>(block->ptr);
        info.stream = segment->pool->stream;
        info.large = segment->type == kLarge;
        info.expandable = segment->expandable != nullptr;
        info.pool = pool;
        info.context = segment->context;
        result.segments.push_back(std::move(info));
        in_run = true;
      }
      add(result.segments.back(), block);
    }
  }
  trace(TraceAction::snapshot, nullptr, static_cast<size_t>(stats_.reserved_bytes.current()), 0, {0, 0}, context);
  if (with_trace) result.trace = trace_.in_order();
  return result;
}

// Out of memory: told to the profiler, the observers and the trace; and the text.
void Heap::throw_out_of_memory(HeapLock& lock, const Request& request, const Context& context) {
  ++stats_.ooms;
  const auto reserved = static_cast<size_t>(stats_.reserved_bytes.current());
  const auto allocated = static_cast<size_t>(stats_.allocated_bytes.current());
  size_t in_private_pools = 0;
  for (auto& [base, segment] : segments_) {
    if (segment->pool->owner) in_private_pools += segment->mapped;
  }
  const auto observers = observers_;
  const size_t limit = limit_;
  const bool expandable = config_.expandable_segments;
  give_up(lock);

  const auto [device_free, device_total] = api_.memory_info(device_);
  take_again(lock);
  trace(TraceAction::oom, reinterpret_cast<void*>(device_free), request.size, request.pool->stream, pool_id(request.pool),
        context);
  give_up(lock);
  const c10::Device device(c10::DeviceType::PrivateUse1, device_);
  c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(request.size), allocated, reserved, device);
  for (const auto& observer : observers) observer(device_, request.bytes, device_total, device_free);

  using c10::CachingAllocator::format_size;
  std::string text =
      c10::str("NPU out of memory. Tried to allocate ", format_size(request.bytes), " on npu:", static_cast<int>(device_),
               ", which has ", format_size(device_total), " in total and ", format_size(device_free), " free. ",
               "This process has ", format_size(allocated), " allocated by PyTorch and ", format_size(reserved - allocated),
               " reserved by PyTorch but unallocated.");
  if (in_private_pools) text += c10::str(" Private pools (graphs, MemPool) hold ", format_size(in_private_pools), ".");
  if (limit != SIZE_MAX) {
    text += c10::str(" The process may use at most ", format_size(limit), " (set_per_process_memory_fraction).");
  }
  if (!expandable && reserved - allocated >= request.size) {
    text += " Enough is reserved but in pieces: PYTORCH_NPU_ALLOC_CONF=expandable_segments:True keeps it together.";
  }
  TORCH_CHECK_WITH(OutOfMemoryError, false, text);
}

}  // namespace torch_npu::memory
