#include "memory/stats.h"

#include <algorithm>

namespace torch_npu::memory {

FiguresByPool Counter::figures() const {
  FiguresByPool result;
  for (int type = 0; type < kPoolTypes; ++type) {
    const auto& flow = flows_[type];
    result[type + 1] = {flow.in - flow.out, flow.peak, flow.in - flow.base_in, flow.out - flow.base_out};
    result[0].current += result[type + 1].current;
    result[0].allocated += result[type + 1].allocated;
    result[0].freed += result[type + 1].freed;
  }
  result[0].peak = peak_;
  return result;
}

void Counter::reset_peak() {
  for (auto& flow : flows_) flow.peak = flow.in - flow.out;
  peak_ = current();
}

void Counter::reset_accumulated() {
  for (auto& flow : flows_) {
    flow.base_in = flow.in;
    flow.base_out = flow.out;
  }
}

void HeapStats::note(Peaks& peaks, const Counter& allocated, const Counter& pending) {
  int64_t all = 0;
  for (auto type : {kSmall, kLarge}) {
    const auto now = allocated.current(type) + pending.current(type);
    peaks[type + 1] = std::max(peaks[type + 1], now);
    all += now;
  }
  peaks[0] = std::max(peaks[0], all);
}

void HeapStats::note_active() {
  note(active_peaks_, allocation, pending);
  note(active_bytes_peaks_, allocated_bytes, pending_bytes);
}

void HeapStats::set_base(Bases& bases, const Counter& allocated, const Counter& pending) {
  for (auto type : {kSmall, kLarge}) bases[type] = {allocated.in(type), allocated.out(type) - pending.current(type)};
}

FiguresByPool HeapStats::combine(const Counter& allocated, const Counter& pending, const Peaks& peaks, const Bases& bases) {
  FiguresByPool result;
  for (auto type : {kSmall, kLarge}) {
    auto& mine = result[type + 1];
    mine.current = allocated.current(type) + pending.current(type);
    mine.peak = std::max(peaks[type + 1], allocated.peak(type));
    mine.allocated = allocated.in(type)-bases[type].in;
    mine.freed = allocated.out(type) - pending.current(type) - bases[type].out;
    result[0].current += mine.current;
    result[0].allocated += mine.allocated;
    result[0].freed += mine.freed;
  }
  result[0].peak = std::max(peaks[0], allocated.peak());
  return result;
}

void HeapStats::reset_peak() {
  for (auto* counter : {&allocation, &allocated_bytes, &requested_bytes, &pending, &pending_bytes, &segment, &reserved_bytes,
                        &inactive_split, &inactive_split_bytes, &oversize_allocation, &oversize_segment}) {
    counter->reset_peak();
  }
  active_peaks_ = {};
  active_bytes_peaks_ = {};
  note_active();
}

void HeapStats::reset_accumulated() {
  for (auto* counter : {&allocation, &allocated_bytes, &requested_bytes, &pending, &pending_bytes, &segment, &reserved_bytes,
                        &inactive_split, &inactive_split_bytes, &oversize_allocation, &oversize_segment}) {
    counter->reset_accumulated();
  }
  set_base(active_base_, allocation, pending);
  set_base(active_bytes_base_, allocated_bytes, pending_bytes);
  alloc_retries = ooms = sync_all_streams = device_allocs = device_frees = 0;
}

StatsReport report(const HeapStats& stats, size_t max_split_size) {
  const auto limit = max_split_size == SIZE_MAX ? int64_t{-1} : static_cast<int64_t>(max_split_size);
  return {
      {{"allocation", stats.allocation.figures()},
       {"segment", stats.segment.figures()},
       {"active", stats.active()},
       {"inactive_split", stats.inactive_split.figures()},
       {"allocated_bytes", stats.allocated_bytes.figures()},
       {"reserved_bytes", stats.reserved_bytes.figures()},
       {"active_bytes", stats.active_bytes()},
       {"inactive_split_bytes", stats.inactive_split_bytes.figures()},
       {"requested_bytes", stats.requested_bytes.figures()}},
      {{{"oversize_allocations", stats.oversize_allocation.figures()}, {"oversize_segments", stats.oversize_segment.figures()}}},
      {{"num_alloc_retries", stats.alloc_retries},
       {"num_ooms", stats.ooms},
       {"num_sync_all_streams", stats.sync_all_streams},
       {"num_device_alloc", stats.device_allocs},
       {"num_device_free", stats.device_frees},
       {"max_split_size", limit},
       // PyTorch counts what it refuses before it gave cached memory back; this allocator does that first, always.
       {"num_oom_rejections", 0}}};
}

}  // namespace torch_npu::memory
