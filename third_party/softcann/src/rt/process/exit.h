// What happens to work in flight when the process exits.
#pragma once

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

}  // namespace softcann
