// Operators that the NPU does not have run on the CPU: visibly, counted, or not at all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <c10/macros/Export.h>

namespace torch_npu::native {

struct FallbackRecord {
  std::string op;        // "aten::name.overload"
  uint64_t calls = 0;
  uint64_t bytes = 0;    // of NPU tensors that were copied to the host
  double seconds = 0;    // wall time of the calls, copies included
};

C10_EXPORT std::vector<FallbackRecord> fallback_ledger();
C10_EXPORT void reset_fallback_ledger();

}  // namespace torch_npu::native
