// The arena's arithmetic against a plain model, without a device.
#include <map>
#include <random>

#include "harness.h"
#include "rt/memory/arena.h"

using softcann::Arena;

namespace {

// What the arena should hold: start -> size.
struct Model {
  std::map<uint64_t, uint64_t> live;
  uint64_t used = 0;

  bool overlaps(uint64_t start, uint64_t size) const {
    auto next = live.lower_bound(start);
    if (next != live.end() && next->first < start + size) return true;
    return next != live.begin() && std::prev(next)->first + std::prev(next)->second > start;
  }
};

uint64_t random_size(std::mt19937_64& random) {
  const uint64_t scale = uint64_t{1} << (random() % 21);
  return 1 + random() % scale;
}

}  // namespace

TEST(arena_agrees_with_a_model) {
  constexpr uint64_t kCapacity = uint64_t{32} << 20;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    std::mt19937_64 random(seed);
    Arena arena(kCapacity);
    Model model;
    for (int step = 0; step < 20000; ++step) {
      if (random() % 2 == 0 || model.live.empty()) {
        const uint64_t size = random_size(random), alignment = uint64_t{512} << (random() % 4 == 0 ? random() % 12 : 0);
        const uint64_t rounded = (size + 511) / 512 * 512;
        const uint64_t start = arena.allocate(size, alignment);
        if (start == Arena::kNone) continue;
        EXPECT_EQ(start % alignment, 0U);
        EXPECT(start + rounded <= kCapacity);
        EXPECT(!model.overlaps(start, rounded));
        model.live[start] = rounded;
        model.used += rounded;
      } else {
        auto it = std::next(model.live.begin(), static_cast<long>(random() % std::min<size_t>(model.live.size(), 50)));
        EXPECT_EQ(arena.release(it->first), it->second);
        EXPECT_EQ(arena.release(it->first), uint64_t{0});
        model.used -= it->second;
        model.live.erase(it);
      }
      EXPECT_EQ(arena.used(), model.used);
      const uint64_t probe = random() % kCapacity;
      uint64_t start = 0, size = 0;
      auto next = model.live.upper_bound(probe);
      const bool inside = next != model.live.begin() && std::prev(next)->first + std::prev(next)->second > probe;
      EXPECT_EQ(arena.find(probe, &start, &size), inside);
      if (inside) EXPECT(start == std::prev(next)->first && size == std::prev(next)->second);
      if (test::failed()) return;
    }
    // Everything freed is one piece again.
    for (const auto& [start, size] : model.live) arena.release(start);
    EXPECT_EQ(arena.used(), uint64_t{0});
    EXPECT_EQ(arena.allocate(kCapacity), uint64_t{0});
  }
}

TEST(arena_prefers_what_was_touched) {
  Arena arena(uint64_t{1} << 30);
  const uint64_t a = arena.allocate(1 << 20), b = arena.allocate(1 << 20), c = arena.allocate(1 << 20);
  EXPECT_EQ(arena.touched(), uint64_t{3} << 20);
  arena.release(b);
  EXPECT_EQ(arena.allocate(1 << 19), b);
  EXPECT_EQ(arena.allocate(1 << 19), b + (1 << 19));
  EXPECT_EQ(arena.touched(), uint64_t{3} << 20);
  arena.release(a);
  arena.release(c);
  arena.clear();
  EXPECT_EQ(arena.allocate(3 << 20), uint64_t{0});
  EXPECT_EQ(arena.touched(), uint64_t{3} << 20);
}
