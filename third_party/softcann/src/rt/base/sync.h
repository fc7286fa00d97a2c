// Waiting: futex, pause, and a bounded spin that leaves the CPU to others.
#pragma once

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

namespace softcann {

inline int64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}

inline void cpu_relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Sleeps while *word == expected, at most timeout_ns (negative: without limit). May return early. `shared`: the word
// lies in memory shared with other processes.
inline void futex_wait(std::atomic<uint32_t>* word, uint32_t expected, int64_t timeout_ns, bool shared = false) {
  const timespec limit{static_cast<time_t>(timeout_ns / 1000000000), static_cast<long>(timeout_ns % 1000000000)};
  syscall(SYS_futex, word, shared ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE, expected, timeout_ns < 0 ? nullptr : &limit, nullptr, 0);
}

inline void futex_wake_all(std::atomic<uint32_t>* word, bool shared = false) {
  syscall(SYS_futex, word, shared ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

// Calls `ready` until it returns true or `budget_ns` have passed; returns what it returned last. sched_yield comes
// often, so that with fewer CPUs than threads the thread which is waited for gets its turn.
template <class Ready>
bool spin_until(Ready&& ready, int64_t budget_ns) {
  if (ready()) return true;
  if (budget_ns <= 0) return false;
  const int64_t deadline = now_ns() + budget_ns;
  for (;;) {
    for (int i = 0; i < 24; ++i) {
      cpu_relax();
      if (ready()) return true;
    }
    if (now_ns() >= deadline) return false;
    sched_yield();
  }
}

}  // namespace softcann
