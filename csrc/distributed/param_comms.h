// What torch.profiler is told of a collective, in PyTorch's own form: its group, ranks, elements and dtype (record_param_comms),
// and a range with the backend's name for it ("hccl:all_reduce"), as c10d's own backends have. So is every wait for one.
#pragma once

#include <optional>
#include <utility>

#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include "distributed/flight_recorder.h"

namespace torch_npu::distributed {

// Lasts as long as the collective is launched: what is launched meanwhile belongs to it. Nothing but a look where nobody records.
class ParametersRecord {
 public:
  ParametersRecord(const RecordedGroup& group, const Operation& operation, at::TensorList inputs, at::TensorList outputs) {
    auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION);
    if (C10_UNLIKELY(callbacks.has_value())) begin(std::move(*callbacks), group, operation, inputs, outputs);
    auto range_callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE);
    if (C10_UNLIKELY(range_callbacks.has_value()))
      begin_range(std::move(*range_callbacks), operation, inputs.empty() ? outputs : inputs);
  }
  explicit ParametersRecord(const RecordedGroup& group) {  // of a wait
    auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION);
    if (C10_UNLIKELY(callbacks.has_value())) begin(std::move(*callbacks), group, {c10d::OpType::UNKNOWN, "wait"}, {}, {});
  }
  ParametersRecord(const ParametersRecord&) = delete;
  ParametersRecord& operator=(const ParametersRecord&) = delete;

 private:
  void begin(at::StepCallbacks&& callbacks, const RecordedGroup& group, const Operation& operation, at::TensorList inputs,
             at::TensorList outputs);
  void begin_range(at::StepCallbacks&& callbacks, const Operation& operation, at::TensorList tensors);

  std::optional<c10::DebugInfoGuard> information_;  // outlives the function, whose end may read it
  std::optional<at::RecordFunction> function_, range_;
};

}  // namespace torch_npu::distributed
