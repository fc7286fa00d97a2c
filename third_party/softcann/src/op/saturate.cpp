#include "op/saturate.h"

#include <ATen/CPUFunctions.h>
#include <ATen/Functions.h>
#include <algorithm>
#include <cmath>

#include "rt/device/overflow.h"

namespace softcann::op {
namespace {

at::Tensor parts(const at::Tensor& tensor) { return tensor.is_complex() ? at::view_as_real(tensor) : tensor; }

bool all_finite(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.numel() == 0 || at::isIntegralType(tensor.scalar_type(), true)) return true;
  return at::isfinite(parts(tensor)).all().item<bool>();
}

// Whether there was something to clamp.
bool clamp_nonfinite(const at::Tensor& tensor) {
  if (all_finite(tensor)) return false;
  at::Tensor result = parts(tensor);
  at::cpu::nan_to_num_out(result, result, 0.0, std::nullopt, std::nullopt);
  return true;
}

template <class F>
bool any_tensor(const aclOpExecutor& executor, int index, F&& function) {
  const Object* object = executor.slots[index].object;
  if (object == nullptr) return false;
  if (object->kind == Kind::tensor) return function(static_cast<const aclTensor*>(object)->tensor);
  bool any = false;
  for (const at::Tensor& tensor : static_cast<const aclTensorList*>(object)->values) any |= function(tensor);
  return any;
}

}  // namespace

bool reads_nonfinite(const aclOpExecutor& executor) {
  const OpInfo& info = *executor.op;
  for (int i = 0; i < info.count; ++i) {
    const uint64_t bit = uint64_t{1} << i;
    if ((info.tensors | info.tensor_lists) & bit) {
      if (info.read & bit && any_tensor(executor, i, [](const at::Tensor& t) { return !all_finite(t); })) return true;
    } else if (info.scalars & bit && executor.slots[i].object != nullptr) {
      const at::Scalar& value = static_cast<const aclScalar*>(executor.slots[i].object)->value;
      if (value.isFloatingPoint() && !std::isfinite(value.toDouble())) return true;
    }
  }
  return false;
}

void saturate_results(const aclOpExecutor& executor) {
  const OpInfo& info = *executor.op;
  bool clamped = false;
  for (int i = 0; i < info.count; ++i) {
    if (!((info.tensors | info.tensor_lists) & info.written & uint64_t{1} << i)) continue;
    clamped |= any_tensor(executor, i, clamp_nonfinite);
  }
  if (clamped) note_overflow();
}

bool reads_nonfinite(at::TensorList tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const at::Tensor& tensor) { return !all_finite(tensor); });
}

void saturate_results(at::TensorList tensors) {
  bool clamped = false;
  for (const at::Tensor& tensor : tensors) clamped |= clamp_nonfinite(tensor);
  if (clamped) note_overflow();
}

}  // namespace softcann::op
