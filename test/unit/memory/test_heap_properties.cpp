// Random programs against a heap: whatever they do, blocks in use never overlap, the snapshot tiles
// the segments, and every counter equals what the snapshot and a model say.
#include <algorithm>
#include <random>

#include "helpers.h"

namespace {

struct Program {
  Program(uint32_t seed, const std::string& settings) : random(seed), f(256 * kMiB, settings) {}
  std::mt19937 random;
  Fixture f;
  std::vector<Block*> live;
  std::map<Block*, size_t> asked;
  int refused = 0;

  size_t pick(size_t below) { return random() % below; }
  size_t size() {
    switch (pick(4)) {
      case 0:
        return 1 + pick(2000);
      case 1:
        return 1 + pick(2 * kMiB);
      case 2:
        return (1 + pick(8)) * 64 * kKiB;
      default:
        return 1 + pick(40 * kMiB);
    }
  }
  c10::StreamId stream() { return static_cast<c10::StreamId>(pick(3) * 8 + 1); }

  void step() {
    const auto dice = pick(100);
    if (dice < 50) {
      const size_t bytes = size();
      try {
        Block* block = f.heap.allocate(bytes, stream());
        EXPECT(block->size >= bytes && block->requested == bytes);
        live.push_back(block);
        asked[block] = bytes;
      } catch (const c10::OutOfMemoryError&) {
        ++refused;
      }
    } else if (dice < 92 && !live.empty()) {
      const size_t index = pick(live.size());
      Block* block = live[index];
      live[index] = live.back();
      live.pop_back();
      asked.erase(block);
      f.heap.free(block);
    } else if (dice < 96 && !live.empty()) {
      f.heap.record_stream(live[pick(live.size())], stream_on(stream()));
    } else if (dice < 98) {
      f.device.run(stream());
    } else if (dice < 99) {
      f.heap.empty_cache();
    }
  }

  void verify() {
    const auto snapshot = f.heap.snapshot();
    int64_t reserved = 0, active = 0, allocated = 0, requested = 0, split = 0, split_bytes = 0, count = 0;
    size_t end = 0;
    for (const auto& segment : snapshot.segments) {
      EXPECT(segment.address >= end);
      size_t at = segment.address;
      for (const auto& block : segment.blocks) {
        EXPECT_EQ(block.address, at);
        EXPECT(block.size > 0 && block.size % 512 == 0);
        at += block.size;
        const std::string state = block.state;
        const auto size = static_cast<int64_t>(block.size);
        if (state == "active_allocated") {
          allocated += size, active += size, ++count;
          requested += static_cast<int64_t>(block.requested_size);
        } else if (state == "active_pending_free") {
          active += size;
        } else if (segment.expandable || segment.blocks.size() > 1) {
          ++split, split_bytes += size;
        }
      }
      EXPECT_EQ(at, segment.address + segment.total_size);
      reserved += static_cast<int64_t>(segment.total_size);
      end = at;
    }
    EXPECT_EQ(f.now("reserved_bytes"), reserved);
    EXPECT_EQ(f.device.used, static_cast<size_t>(reserved));
    EXPECT_EQ(f.now("allocated_bytes"), allocated);
    EXPECT_EQ(f.now("active_bytes"), active);
    EXPECT_EQ(f.now("requested_bytes"), requested);
    EXPECT_EQ(f.now("allocation"), count);
    EXPECT_EQ(count, static_cast<int64_t>(live.size()));
    EXPECT_EQ(f.now("inactive_split"), split);
    EXPECT_EQ(f.now("inactive_split_bytes"), split_bytes);
    for (const char* name : {"reserved_bytes", "allocated_bytes", "active_bytes", "inactive_split_bytes"}) {
      const auto all = f.row(name, 0), small = f.row(name, 1), large = f.row(name, 2);
      EXPECT_EQ(all.current, small.current + large.current);
      EXPECT(all.peak >= all.current && all.peak <= small.peak + large.peak);
      EXPECT_EQ(all.allocated - all.freed, all.current);
    }
    int64_t wanted = 0;
    for (auto& [block, bytes] : asked) {
      EXPECT(block->requested == bytes && block->state == BlockState::allocated);
      wanted += static_cast<int64_t>(bytes);
    }
    EXPECT_EQ(requested, wanted);
    // No block in use shares a byte with another.
    auto sorted = live;
    std::sort(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return a->ptr < b->ptr; });
    for (size_t i = 1; i < sorted.size(); ++i) EXPECT(sorted[i - 1]->ptr + sorted[i - 1]->size <= sorted[i]->ptr);
    EXPECT_EQ(f.device.errors, 0);
  }

  void finish() {
    for (auto* block : live) f.heap.free(block);
    live.clear();
    asked.clear();
    f.heap.empty_cache();
    verify();
    EXPECT_EQ(f.now("reserved_bytes"), 0);
    EXPECT_EQ(f.device.used, size_t{0});
    EXPECT_EQ(f.device.reservations, 0);
  }
};

void random_programs(const std::string& settings) {
  int refused = 0;
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    Program program(seed, settings);
    for (int i = 0; i < 2000; ++i) {
      program.step();
      if (i % 50 == 0) program.verify();
      if (test::failed()) return;  // what follows would only repeat it
    }
    program.finish();
    refused += program.refused;
  }
  EXPECT(refused > 0);  // the programs did reach the capacity
}

}  // namespace

TEST(random_programs_default) { random_programs(""); }
TEST(random_programs_expandable) { random_programs("expandable_segments:True"); }
TEST(random_programs_max_split) { random_programs("max_split_size_mb:21,garbage_collection_threshold:0.7"); }
TEST(random_programs_power2) { random_programs("roundup_power2_divisions:8"); }
TEST(random_programs_fraction) { random_programs("per_process_memory_fraction:0.5"); }
