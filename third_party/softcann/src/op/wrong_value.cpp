#include "op/wrong_value.h"

#include <ATen/Functions.h>

#include "fault/lifecycle.h"
#include "op/executor.h"

namespace softcann::op {
namespace {

bool fill_last_element(at::Tensor tensor, double value) {
  if (!tensor.defined() || tensor.numel() == 0) return false;
  while (tensor.dim() != 0) tensor = tensor.select(0, -1);
  tensor.fill_(value);
  return true;
}

}  // namespace

void inject_wrong_value(const aclOpExecutor& executor) {
  const OpInfo& info = *executor.op;
  double value = 0;
  if (!fault::wrong_value(info.name, &value)) return;
  for (int i = 0; i < info.count; ++i) {
    const uint64_t bit = uint64_t{1} << i;
    const Object* object = (info.tensors | info.tensor_lists) & info.written & bit ? executor.slots[i].object : nullptr;
    if (object == nullptr) continue;
    if (object->kind == Kind::tensor) {
      if (fill_last_element(static_cast<const aclTensor*>(object)->tensor, value)) return;
      continue;
    }
    for (const at::Tensor& tensor : static_cast<const aclTensorList*>(object)->values) {
      if (fill_last_element(tensor, value)) return;
    }
  }
}

}  // namespace softcann::op
