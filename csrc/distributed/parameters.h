// What torch.profiler is told of a collective: its group, ranks, elements and dtype, in PyTorch's own form (record_param_comms).
#pragma once

#include <optional>
#include <utility>

#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include "distributed/recorder.h"

namespace torch_npu::distributed {

// Lasts as long as the collective is launched: what is launched meanwhile belongs to it. Nothing but a look where nobody records.
class ParametersRecord {
 public:
  ParametersRecord(const RecordedGroup& group, const Operation& operation, at::TensorList inputs, at::TensorList outputs) {
    auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION);
    if (C10_UNLIKELY(callbacks.has_value())) begin(std::move(*callbacks), group, operation, inputs, outputs);
  }
  ParametersRecord(const ParametersRecord&) = delete;
  ParametersRecord& operator=(const ParametersRecord&) = delete;

 private:
  void begin(at::StepCallbacks&& callbacks, const RecordedGroup& group, const Operation& operation, at::TensorList inputs,
             at::TensorList outputs);

  std::optional<c10::DebugInfoGuard> information_;  // outlives the function, whose end may read it
  std::optional<at::RecordFunction> function_;
};

}  // namespace torch_npu::distributed
