// Objects that clients know by a handle.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace softcann {

// Note [Handles of the runtime]
// A handle is the address of an object, and above the bits that addresses have, how often that object was taken before: its
// generation. The objects lie in a few blocks, each twice as long as the one before, and are never freed. So before anything is
// read at an address that a client hands in, it is known to be one of an object of that kind; the object has the handle by which
// it is known now. A handle of another kind is at no such address, a stale one has another generation. Only after 2^15 lives of
// one object does a generation come back.
inline constexpr int kGenerationShift = 48;
inline constexpr uint64_t kAddressMask = (uint64_t{1} << kGenerationShift) - 1;
inline constexpr uint64_t kGenerations = uint64_t{1} << 15;  // so that handles are no negative numbers

// The base of such an object. Copies of it are others, or have a life of their own.
class Handled {
 public:
  Handled() = default;
  Handled(const Handled&) {}
  Handled& operator=(const Handled&) { return *this; }

  // The next life begins; its handle.
  void* begin_life() {
    const uint64_t handle = (reinterpret_cast<uint64_t>(this) & kAddressMask) | (lives_++ % kGenerations) << kGenerationShift;
    handle_.store(handle, std::memory_order_release);
    return reinterpret_cast<void*>(handle);
  }
  // The same, with the bare address for its handle.
  void begin_life_at_address() { handle_.store(reinterpret_cast<uint64_t>(this), std::memory_order_release); }
  // It ends; false where it had ended before, by another thread.
  bool end_life() { return handle_.exchange(0, std::memory_order_acq_rel) != 0; }
  bool alive() const { return handle_.load(std::memory_order_acquire) != 0; }
  void* handle() const { return reinterpret_cast<void*>(handle_.load(std::memory_order_acquire)); }
  bool known_as(const void* handle) const {
    return handle_.load(std::memory_order_acquire) == reinterpret_cast<uint64_t>(handle);
  }

 private:
  std::atomic<uint64_t> handle_{0};  // 0: not alive
  uint64_t lives_ = 0;
};

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

  // The object that is alive under this handle; null where there is none.
  T* find(const void* handle) const {
    T* object = object_at(reinterpret_cast<uintptr_t>(handle) & kAddressMask);
    return object != nullptr && object->known_as(handle) ? object : nullptr;
  }

 private:
  static constexpr size_t capacity(size_t block) { return size_t{64} << block; }
  // The one that add() has given out at this address, or will.
  T* object_at(uintptr_t address) const {
    for (size_t i = 0; i < blocks_.size(); ++i) {
      T* begin = blocks_[i].load(std::memory_order_acquire);
      if (begin == nullptr) return nullptr;
      const uintptr_t offset = address - reinterpret_cast<uintptr_t>(begin);
      if (offset < capacity(i) * sizeof(T)) return offset % sizeof(T) == 0 ? begin + offset / sizeof(T) : nullptr;
    }
    return nullptr;
  }

  std::array<std::atomic<T*>, 24> blocks_{};
  size_t block_ = 0, used_ = 0;
};

}  // namespace softcann
