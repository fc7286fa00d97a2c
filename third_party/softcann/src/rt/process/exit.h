// What happens to work in flight when the process exits.
#pragma once

#include <time.h>

#include <optional>

#include "rt/runtime.h"

namespace softcann {

// To be called by each thread that may be the one which ends the process by exit(); costs a look at a thread-local flag.
void watch_exit();

// Tasks that are waiting for somebody outside this process's kernels: a peer, a function of the client.
SOFTCANN_API extern std::atomic<int> waits_outside;
struct WaitOutside {
  WaitOutside() { waits_outside.fetch_add(1, std::memory_order_relaxed); }
  ~WaitOutside() { waits_outside.fetch_sub(1, std::memory_order_relaxed); }
  WaitOutside(const WaitOutside&) = delete;
};

// Such a wait of a task that looks again and again.
class Poll {
 public:
  // Before the next look.
  void pause() {
    if (!outside_) outside_.emplace();
    constexpr timespec length{0, 50'000};
    nanosleep(&length, nullptr);
  }
  // The task stays, to wait another time.
  void end() { outside_.reset(); }

 private:
  std::optional<WaitOutside> outside_;
};

}  // namespace softcann
