// Objects that clients know by their address.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace softcann {

// Note [Handles of the runtime]
// Clients hand in addresses. Before anything is read there, the address must be one of those that were ever handed out: the
// objects lie in a few blocks, each twice as long as the one before, and are never freed. Whether an object is alive it says
// itself.
template <class T>
class HandleBlocks {
 public:
  // A new object. The caller holds a lock against others that add.
  T* add() {
    if (used_ == capacity(block_)) {
      ++block_;
      used_ = 0;
    }
    T* begin = blocks_.at(block_).load(std::memory_order_relaxed);
    if (begin == nullptr) {
      begin = new T[capacity(block_)];
      blocks_[block_].store(begin, std::memory_order_release);
    }
    return begin + used_++;
  }

  // Whether add() has given out this address, or will next.
  bool has(const void* p) const {
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const T* begin = blocks_[i].load(std::memory_order_acquire);
      if (begin == nullptr) return false;
      const uintptr_t offset = reinterpret_cast<uintptr_t>(p) - reinterpret_cast<uintptr_t>(begin);
      if (offset < capacity(i) * sizeof(T)) return offset % sizeof(T) == 0;
    }
    return false;
  }

 private:
  static constexpr size_t capacity(size_t block) { return size_t{64} << block; }
  std::array<std::atomic<T*>, 24> blocks_{};
  size_t block_ = 0, used_ = 0;
};

}  // namespace softcann
