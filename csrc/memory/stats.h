// The heap's counters. Adding is a few plain instructions: this runs on every allocation and free.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace torch_npu::memory {

enum PoolType : uint8_t { kSmall = 0, kLarge = 1 };
constexpr int kPoolTypes = 2;

// What PyTorch shows of one statistic.
struct Figures {
  int64_t current = 0, peak = 0, allocated = 0, freed = 0;
};
// In PyTorch's order: all, small_pool, large_pool.
using FiguresByPool = std::array<Figures, 3>;

// One quantity, by pool. Only what came in and what went out is stored; the current value is the
// difference, so an addition or a subtraction writes one word.
class Counter {
 public:
  void add(PoolType type, int64_t amount) {
    auto& flow = flows_[type];
    flow.in += amount;
    const int64_t now = flow.in - flow.out;
    if (now > flow.peak) flow.peak = now;
    const auto& other = flows_[1 - type];
    const int64_t all = now + other.in - other.out;
    if (all > peak_) peak_ = all;
  }
  void sub(PoolType type, int64_t amount) { flows_[type].out += amount; }

  int64_t current(PoolType type) const { return flows_[type].in - flows_[type].out; }
  int64_t current() const { return current(kSmall) + current(kLarge); }
  int64_t in(PoolType type) const { return flows_[type].in; }
  int64_t out(PoolType type) const { return flows_[type].out; }
  int64_t peak(PoolType type) const { return flows_[type].peak; }
  int64_t peak() const { return peak_; }

  FiguresByPool figures() const;
  void reset_peak();
  void reset_accumulated();

 private:
  struct Flow {
    int64_t in = 0, out = 0, peak = 0, base_in = 0, base_out = 0;
  };
  std::array<Flow, kPoolTypes> flows_{};
  int64_t peak_ = 0;
};

// Note [Active memory]
// ~~~~~~~~~~~~~~~~~~~~
// A block is active while it is allocated, or freed but still waiting for another stream. So active =
// allocated + pending, and while nothing is pending the two have the same history: the allocation
// path need not count it. Only when something is pending (then every allocation takes the long way)
// are its peaks followed, by note_active().
struct HeapStats {
  Counter allocation, allocated_bytes, requested_bytes;
  Counter pending, pending_bytes;
  Counter segment, reserved_bytes;
  Counter inactive_split, inactive_split_bytes;
  Counter oversize_allocation, oversize_segment;  // only the large side is used
  int64_t alloc_retries = 0, ooms = 0, sync_all_streams = 0, device_allocs = 0, device_frees = 0;

  void note_active();
  FiguresByPool active() const { return combine(allocation, pending, active_peaks_, active_base_); }
  FiguresByPool active_bytes() const { return combine(allocated_bytes, pending_bytes, active_bytes_peaks_, active_bytes_base_); }
  void reset_peak();
  void reset_accumulated();

 private:
  struct Base {
    int64_t in = 0, out = 0;
  };
  using Peaks = std::array<int64_t, 3>;
  using Bases = std::array<Base, kPoolTypes>;
  static void note(Peaks& peaks, const Counter& allocated, const Counter& pending);
  static void set_base(Bases& bases, const Counter& allocated, const Counter& pending);
  static FiguresByPool combine(const Counter& allocated, const Counter& pending, const Peaks& peaks, const Bases& bases);
  Peaks active_peaks_{}, active_bytes_peaks_{};
  Bases active_base_{}, active_bytes_base_{};
};

// A copy of a heap's statistics, as readers outside see it.
struct StatsReport {
  struct Row {
    const char* name;  // PyTorch's key, such as "allocated_bytes"
    FiguresByPool figures;
  };
  struct Scalar {
    const char* name;
    int64_t value;
  };
  std::vector<Row> rows;
  std::array<Row, 2> oversize;  // single figures: only figures[0] is meaningful
  std::vector<Scalar> scalars;
};
StatsReport report(const HeapStats& stats, size_t max_split_size);

}  // namespace torch_npu::memory
