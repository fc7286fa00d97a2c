// Memory of the models that libge_executor runs.
#pragma once

#include <cstdint>

#include "rt/runtime.h"

namespace softcann::op {

// Note [Memory of models]
// What a model computes with comes from one range whose freed parts merge, so that it takes little more than the planned peak.
// The scratch cache keeps a list for each class of sizes instead, which suits an operator's few temporaries and not a network's
// many sizes. What a model keeps, its packed weights, is from torch's own allocator, in its exact size.
enum class MemorySource : uint8_t { scratch, model, torch };

// Where this thread's temporaries come from while it is in a kernel.
class SOFTCANN_API MemoryScope {
 public:
  explicit MemoryScope(MemorySource source);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  MemorySource saved_;
};

// Gives the range's pages back to the system, unless a model runs.
SOFTCANN_API void trim_model_memory();

}  // namespace softcann::op
