// What happened, in the schema of PyTorch's memory snapshots: trace entries with stacks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

namespace torch_npu::memory {

using Context = std::shared_ptr<c10::GatheredContext>;
using MempoolId = std::pair<unsigned long long, unsigned long long>;

// When the stack of a call is kept. Each includes the ones before.
enum class Stacks : uint8_t { never, live, allocations, all };

enum class TraceAction : uint8_t {
  alloc,
  free_requested,
  free_completed,
  segment_alloc,
  segment_free,
  segment_map,
  segment_unmap,
  snapshot,
  oom,
};
constexpr const char* kTraceActionNames[] = {"alloc",         "free_requested", "free_completed",
                                             "segment_alloc", "segment_free",   "segment_map",
                                             "segment_unmap", "snapshot",       "oom"};

struct TraceEntry {
  TraceAction action = TraceAction::alloc;
  c10::DeviceIndex device = 0;
  size_t address = 0;  // for oom: the bytes the device still had
  size_t size = 0;
  c10::StreamId stream = 0;
  MempoolId pool{0, 0};
  int64_t time_us = 0;  // since 1970
  Context context;
  std::string user_metadata;
};

struct HistorySettings {
  bool entries = false;  // keep trace entries
  Stacks stacks = Stacks::never;
  Context (*gather)() = nullptr;  // makes a context of the calling thread
  size_t max_entries = 1;
  uint32_t skipped_actions = 0;  // bit per TraceAction
};

// The last max_entries entries. The heap's lock guards it.
class TraceRing {
 public:
  void set_limit(size_t entries) {
    limit_ = entries ? entries : 1;
    clear();
  }
  void clear() {
    entries_.clear();
    entries_.shrink_to_fit();
    next_ = 0;
  }
  void add(TraceEntry entry) {
    if (entries_.size() < limit_) {
      entries_.push_back(std::move(entry));
    } else {
      entries_[next_] = std::move(entry);
      next_ = (next_ + 1) % limit_;
    }
  }
  std::vector<TraceEntry> in_order() const {
    std::vector<TraceEntry> result;
    result.reserve(entries_.size());
    for (size_t i = 0; i < entries_.size(); ++i) result.push_back(entries_[(next_ + i) % entries_.size()]);
    return result;
  }

 private:
  size_t limit_ = 1, next_ = 0;
  std::vector<TraceEntry> entries_;
};

struct BlockInfo {
  size_t address = 0, size = 0, requested_size = 0;
  const char* state = "";  // active_allocated, active_pending_free, inactive
  Context context;
};

struct SegmentInfo {
  c10::DeviceIndex device = 0;
  size_t address = 0, total_size = 0, requested_size = 0, allocated_size = 0, active_size = 0;
  c10::StreamId stream = 0;
  bool large = false, expandable = false;
  MempoolId pool{0, 0};
  std::vector<BlockInfo> blocks;
  Context context;
};

struct HeapSnapshot {
  std::vector<SegmentInfo> segments;
  std::vector<TraceEntry> trace;
};

}  // namespace torch_npu::memory
