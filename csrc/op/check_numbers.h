// TORCH_NPU_CHECK_NAN_INF: finds the operator that first made a NaN or an infinity.
//
// Note [Checking numbers]
// Results are looked at only where all operands, tensors and numbers, were finite before the launch: so the operator that
// made the first bad number is named, not the ones that pass it on, and a mask filled with -inf is no error. Each launch
// waits for the device and copies its tensors to the host. The error is thrown out of the call itself, so Python's
// traceback ends at the line that made it.
#pragma once

#include <atomic>
#include <cmath>

#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

namespace torch_npu::op {

// Who looks at the arguments of launches; 0 in ordinary runs.
enum ArgumentWatcher : unsigned { kNumbers = 1, kOperands = 2 };  // this check; a profile, see op/operands.h
C10_EXPORT extern std::atomic<unsigned> argument_watchers;
inline bool arguments_are_watched() { return argument_watchers.load(std::memory_order_relaxed) != 0; }
void set_argument_watcher(ArgumentWatcher watcher, bool on);
C10_EXPORT void set_check_numbers(bool on);

// One argument of a launch: tensors of it, or a number.
struct NumberSource {
  c10::SmallVector<at::Tensor, 1> tensors;
  bool finite = true;  // of a number
};

// Shows the arguments to those who watch. True if the results are to be looked at, too: numbers are checked, and every operand is
// finite.
C10_EXPORT bool watch_arguments(const char* op, c10::ArrayRef<NumberSource> sources);
// Throws if a written tensor holds a NaN or an infinity.
C10_EXPORT void check_results(const char* op, c10::ArrayRef<NumberSource> sources);

template <class A>
NumberSource number_source(const A& argument) {
  NumberSource source;
  if constexpr (std::is_same_v<A, at::Tensor>) {
    source.tensors.push_back(argument);
  } else if constexpr (std::is_same_v<A, std::optional<at::Tensor>>) {
    if (argument) source.tensors.push_back(*argument);
  } else if constexpr (std::is_convertible_v<A, at::TensorList>) {
    for (const auto& tensor : at::TensorList(argument)) source.tensors.push_back(tensor);
  } else if constexpr (std::is_same_v<A, at::ITensorListRef>) {
    for (const auto& tensor : argument) source.tensors.push_back(tensor);
  } else if constexpr (requires { source.tensors.push_back(argument.tensor); }) {
    source.tensors.push_back(argument.tensor);  // AsType, of op/descriptor.h
  } else if constexpr (std::is_same_v<A, at::Scalar>) {
    source.finite = !argument.isFloatingPoint() || std::isfinite(argument.toDouble());
  } else if constexpr (std::is_floating_point_v<A>) {
    source.finite = std::isfinite(argument);
  }
  return source;
}

}  // namespace torch_npu::op
