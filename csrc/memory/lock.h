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

namespace torch_npu::memory {

class SpinLock {
 public:
  void lock() noexcept {
    if (C10_UNLIKELY(held_.exchange(true, std::memory_order_acquire))) wait();
  }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

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

using HeapLock = std::unique_lock<SpinLock>;

}  // namespace torch_npu::memory
