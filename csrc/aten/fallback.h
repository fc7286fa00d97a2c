// Operators that the NPU does not have run on the CPU: visibly, counted, or not at all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/stack.h>
#include <c10/macros/Export.h>

namespace c10 {
class OperatorHandle;
}

namespace torch_npu::native {

struct FallbackRecord {
  std::string op;  // "aten::name.overload"
  uint64_t calls = 0;
  uint64_t bytes = 0;  // of NPU tensors that were copied to the host, and of results that were copied back
  double seconds = 0;  // wall time of the calls, copies included
};

using BoxedRun = void (*)(const c10::OperatorHandle&, torch::jit::Stack*);

// Runs the operator on the CPU by `run`, which copies the tensors there and back: warned of and counted, or an error where
// that is forbidden.
void run_counted(const c10::OperatorHandle& op, torch::jit::Stack* stack, BoxedRun run);

C10_EXPORT std::vector<FallbackRecord> fallback_ledger();
C10_EXPORT void reset_fallback_ledger();

// Sends the operators of the option fallback_ops to the CPU from now on: "aten::mm" means all overloads of mm, "mm.out" one.
// Throws c10::ValueError for a name that no operator has, a view, or an operator that is made of others on every device.
C10_EXPORT void apply_fallback_ops();

}  // namespace torch_npu::native
