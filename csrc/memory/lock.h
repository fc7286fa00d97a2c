// The lock of a device's heap: one exchange to take, one plain store to give back.
//
// Note [Lock order of the memory layer]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
//   1. the GIL (contexts of allocations are gathered before any lock below is taken)
//   2. Heap::routes_mutex_   which private pool a request goes to
//   3. Heap::poll_mutex_     who looks at the pending events
//   4. Heap::lock_           everything else of the heap; arithmetic only
// The GIL is first and yet given up by who waits for the device, and taken again afterwards; so a thread that waits for
// such a thread (DeviceApi::wait_until) must not hold it either.
// No device call is made under 4, and none that can wait for the device under 2 to 4: memory is
// taken out of the lists, the lock is given back, the device is called, the lock is taken again.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#include <c10/macros/Macros.h>

#include "core/thread_annotations.h"

namespace torch_npu::memory {

class NPU_CAPABILITY("mutex") SpinLock {
 public:
  void lock() noexcept NPU_ACQUIRE() {
    if (C10_UNLIKELY(held_.exchange(true, std::memory_order_acquire))) wait();
  }
  void unlock() noexcept NPU_RELEASE() { held_.store(false, std::memory_order_release); }

 private:
  // The holder does some tens of nanoseconds of arithmetic, unless it was preempted: spin a little,
  // then leave the core to it.
  C10_NOINLINE void wait() noexcept {
    constexpr int kSpins = 128;
    for (int spins = 0;; ++spins) {
      if (!held_.load(std::memory_order_relaxed) && !held_.exchange(true, std::memory_order_acquire)) return;
      if (spins < kSpins) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        asm volatile("yield");
#endif
      } else {
        std::this_thread::yield();
      }
    }
  }

  std::atomic<bool> held_{false};
};

// Holds the lock until the end of its block.
class NPU_SCOPED_CAPABILITY SpinGuard {
 public:
  explicit SpinGuard(SpinLock& lock) NPU_ACQUIRE(lock) : lock_(lock) { lock_.lock(); }
  ~SpinGuard() NPU_RELEASE() { lock_.unlock(); }
  SpinGuard(const SpinGuard&) = delete;
  SpinGuard& operator=(const SpinGuard&) = delete;

 private:
  SpinLock& lock_;
};

// The same, and the lock can be given back meanwhile.
class NPU_SCOPED_CAPABILITY HeapLock {
 public:
  explicit HeapLock(SpinLock& lock) NPU_ACQUIRE(lock) : lock_(lock) {}
  ~HeapLock() NPU_RELEASE() {}
  void lock() NPU_ACQUIRE() { lock_.lock(); }
  void unlock() NPU_RELEASE() { lock_.unlock(); }

 private:
  std::unique_lock<SpinLock> lock_;
};

}  // namespace torch_npu::memory
