// Many threads on one heap; run under the thread sanitizer this is the proof of the lock order.
#include <random>
#include <thread>

#include "helpers.h"

namespace {

void worker(Fixture& f, uint32_t seed, int steps) {
  std::mt19937 random(seed);
  std::vector<Block*> live;
  const auto own = static_cast<c10::StreamId>(seed % 2 * 8 + 1);
  for (int i = 0; i < steps; ++i) {
    const auto dice = random() % 100;
    if (dice < 50) {
      try {
        const size_t bytes = 1 + random() % (dice < 10 ? 30 * kMiB : 100000);
        live.push_back(f.heap.allocate(bytes, own));
      } catch (const c10::OutOfMemoryError&) {
      }
    } else if (dice < 95 && !live.empty()) {
      f.heap.free(live.back());
      live.pop_back();
    } else if (dice < 96 && !live.empty()) {
      f.heap.record_stream(live.back(), stream_on(own ^ 8));
    } else if (dice < 97) {
      f.device.run(own);
    } else if (dice < 98) {
      f.heap.statistics();
    } else if (dice < 99) {
      f.heap.snapshot();
    } else if (i % 8 == 0) {
      f.heap.empty_cache();
    }
  }
  for (auto* block : live) f.heap.free(block);
}

void run_threads(const std::string& settings) {
  Fixture f(128 * kMiB, settings);
  std::vector<std::thread> threads;
  for (uint32_t seed = 0; seed < 6; ++seed) threads.emplace_back(worker, std::ref(f), seed, 4000);
  for (auto& thread : threads) thread.join();
  f.heap.empty_cache();
  EXPECT_EQ(f.device.used, size_t{0});
  EXPECT_EQ(f.now("active_bytes"), 0);
  EXPECT_EQ(f.now("reserved_bytes"), 0);
  EXPECT_EQ(f.device.errors, 0);
}

}  // namespace

TEST(threads_default) { run_threads(""); }
TEST(threads_expandable) { run_threads("expandable_segments:True"); }
TEST(threads_history) {
  Fixture f(128 * kMiB);
  HistorySettings settings;
  settings.entries = true;
  settings.max_entries = 1000;
  std::thread switcher([&] {
    for (int i = 0; i < 200; ++i) {
      f.heap.record_history(i % 2 ? settings : HistorySettings(), i % 3 == 0);
      std::this_thread::yield();
    }
  });
  std::thread user([&] { worker(f, 1, 3000); });
  worker(f, 2, 3000);
  user.join();
  switcher.join();
  f.heap.empty_cache();
  EXPECT_EQ(f.device.used, size_t{0});
}
