// Arithmetic of one device's memory: which parts of [0, capacity) are in use. Touches no device memory itself.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace softcann {

// Note [Never give back]
// The kernel takes 100 to 1000 us to hand out a MiB of shared memory, so a freed part stays committed and is preferred
// for the next allocation: parts that were never used lie above `top_` and are cut only when no freed part fits. Freed
// parts merge with their free neighbours, but not with the never-used rest.
class Arena {
 public:
  static constexpr uint64_t kGranule = 512;
  static constexpr uint64_t kNone = UINT64_MAX;

  explicit Arena(uint64_t capacity);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Offset of `bytes` (rounded up to kGranule) at a multiple of `alignment` (a power of two), or kNone.
  uint64_t allocate(uint64_t bytes, uint64_t alignment = kGranule);
  // Frees the allocation that starts at `offset`; returns its size, or 0 when there is none.
  uint64_t release(uint64_t offset);
  // The live allocation around `offset`: its start and size; false when there is none.
  bool find(uint64_t offset, uint64_t* start, uint64_t* size);
  // Forgets all allocations.
  void clear();

  uint64_t capacity() const { return capacity_; }
  uint64_t used();
  uint64_t peak();
  uint64_t touched();  // bytes below the never-used rest
  // From now on `word` always has what used() returns.
  void publish_used(std::atomic<uint64_t>* word);

 private:
  using Index = uint32_t;
  static constexpr Index kNil = UINT32_MAX;
  static constexpr int kSubBins = 16;
  static constexpr int kBins = 48 * kSubBins;
  static constexpr int kLevels = 5;

  // Neighbours in address order, and in the bin while free.
  struct Chunk {
    uint64_t start, size;  // in granules
    Index before, after, bin_before, bin_after;
    bool free;
  };

  static int bin_of(uint64_t granules);
  Index new_chunk(uint64_t start, uint64_t size, Index before, Index after);
  void drop_chunk(Index index);
  void push_bin(Index index);
  void pop_bin(Index index);
  Index find_fit(uint64_t granules, uint64_t align);
  Index cut_top(uint64_t granules, uint64_t align);
  void split(Index index, uint64_t granules);
  Index merge(Index left, Index right);
  void mark(uint64_t start, Index index);
  void unmark(uint64_t start);
  void set_used(uint64_t granules);
  uint64_t mark_before(uint64_t granule) const;

  const uint64_t capacity_;
  std::mutex mutex_;
  std::vector<Chunk> chunks_;
  Index unused_ = kNil;
  Index last_ = kNil;  // the chunk that ends at top_
  uint64_t top_ = 0;   // in granules
  uint64_t used_ = 0, peak_ = 0;
  std::atomic<uint64_t> unpublished_{0};
  std::atomic<uint64_t>* published_ = &unpublished_;
  Index bins_[kBins];
  uint64_t bin_bits_[kBins / 64];
  // One entry for each granule where a chunk starts, and a tree of bitmaps over them to find the nearest start at or
  // before an address. Address space only; pages appear as they are used.
  Index* starts_ = nullptr;
  uint64_t* bits_[kLevels] = {};
  void* tables_ = nullptr;
  size_t table_bytes_ = 0;
};

}  // namespace softcann
