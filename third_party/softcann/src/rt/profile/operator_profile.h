// Subscriptions to the operators of a model (aclprofModelSubscribe): a record of fixed size for each goes into a client's pipe.
#pragma once

#include <atomic>
#include <cstdint>

#include "rt/runtime.h"

namespace softcann::operator_profile {

// Note [Subscribed operators]
// A pipe that nobody reads must not stop the model. So records wait here where the pipe is full, up to 64 MiB, and are written
// with later ones, or when the client unsubscribes; then it is waited for as long as the reader makes progress. What exceeds
// that is dropped, and unsubscribing is an error that says how much.

// Stands for the operators that are called one by one, as in the "Model ID" of Ascend's tables.
inline constexpr uint32_t kNoModel = UINT32_MAX;

SOFTCANN_API extern std::atomic<int> subscriptions;
SOFTCANN_API bool has_subscription(uint32_t model);
inline bool is_subscribed(uint32_t model) {
  return __builtin_expect(subscriptions.load(std::memory_order_relaxed) != 0, 0) && has_subscription(model);
}

// Times are nanoseconds.
SOFTCANN_API void tell(uint32_t model, const char* name, const char* type, int64_t begin, int64_t end);

}  // namespace softcann::operator_profile
