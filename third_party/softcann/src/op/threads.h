// How many threads kernels use: a worker as many as the thread that submitted its task, which keeps its own setting. And what
// libge_executor computes in, which calls the same kernels.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstdint>

#include "rt/runtime.h"

namespace softcann::op {

// A thread that launches operators (and may run queued ones while it synchronizes) keeps its own setting.
inline constexpr int client_thread = -1;

// A worker computes with as many threads as the submitting thread would, or as SOFTCANN_THREADS says.
void follow_threads(int threads);
uint16_t wanted_threads();

// What a task takes along from its launch, in 16 bits: how many threads, and whether ACL_OPT_STRONG_CONSISTENCY was set.
inline constexpr uint16_t consistent_bit = 0x8000;
uint16_t settings_of_launch(bool parallel);
void follow_settings(uint16_t settings, bool parallel);
// Whether the task that runs on this thread is to compute products that are strongly consistent.
bool wants_consistency();

// From now on the calling thread is one that launches; how many threads its tasks are to use.
SOFTCANN_API uint16_t threads_of_launch();

// KernelScope for others than libopapi: plain backend code, temporaries from the scratch cache, `threads` on a worker.
class SOFTCANN_API ComputeScope {
 public:
  explicit ComputeScope(uint16_t threads);
  ~ComputeScope();
  ComputeScope(const ComputeScope&) = delete;
  ComputeScope& operator=(const ComputeScope&) = delete;

 private:
  c10::impl::PODLocalDispatchKeySet saved_;
  bool was_in_kernel_;
};

}  // namespace softcann::op
