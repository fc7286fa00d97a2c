// Freed blocks kept whole by size, last in first out: the front of a stream's pool.
//
// Note [Size classes]
// ~~~~~~~~~~~~~~~~~~~
// A program that repeats itself asks for the sizes it has just freed. Such a request takes the block
// that was freed last (still in the cache), with no search, split or merge. Blocks here do not merge
// with their neighbours, so before the pool grows, and for a large request without an exact match, the
// heap moves them to the best-fit lists (drain), where they do. Memory in use is thus as compact as with
// best fit alone.
#pragma once

#include <array>

#include "memory/block.h"

namespace torch_npu::memory {

class SizeClasses {
 public:
  Block* pop(size_t units) {
    Block** head = find(units);
    if (!head || !*head) return nullptr;
    Block* block = *head;
    *head = block->next_cached;
    return block;
  }

  // False when another size occupies the block's place.
  bool push(Block* block) {
    Block** head = find(block->units);
    if (C10_UNLIKELY(!head)) {
      auto& bin = bin_of(block->units);
      if (bin.head) return false;
      bin.units = block->units;
      head = &bin.head;
    }
    block->next_cached = *head;
    *head = block;
    return true;
  }

  // Empties the classes of a pool type (or only the bin that `units` falls into) and returns the
  // blocks as a list.
  Block* drain(PoolType type) {
    Block* list = nullptr;
    if (type == kSmall) {
      for (auto& head : small_) append(list, head);
    } else {
      for (auto& bin : large_) append(list, bin.head);
    }
    return list;
  }
  Block* drain_bin(size_t units) {
    Block* list = nullptr;
    append(list, bin_of(units).head);
    return list;
  }

 private:
  static constexpr size_t kSmallClasses = kSmallLimit / kMinBlock + 1;
  static constexpr size_t kBins = 64;
  struct Bin {
    size_t units = 0;
    Block* head = nullptr;
  };

  Bin& bin_of(size_t units) { return large_[(units * 0x9E3779B97F4A7C15ull) >> 58]; }
  Block** find(size_t units) {
    if (C10_LIKELY(units < kSmallClasses)) return &small_[units];
    auto& bin = bin_of(units);
    return bin.units == units ? &bin.head : nullptr;
  }
  static void append(Block*& list, Block*& head) {
    while (head) {
      Block* block = head;
      head = block->next_cached;
      block->next_cached = list;
      list = block;
    }
  }

  std::array<Block*, kSmallClasses> small_{};
  std::array<Bin, kBins> large_{};
};

}  // namespace torch_npu::memory
