// Executors in the client's hands: repeatable ones, and the addresses of their tensors.
#include "op/executor.h"

#include <bit>
#include <utility>

#include "op/kernel.h"
#include "op/pool.h"
#include "op/tensor.h"
#include "rt/base/error.h"

namespace softcann::op {
namespace {

// The n-th parameter among those in `mask`; -1 when there are fewer.
int nth(uint64_t mask, size_t n) {
  for (; mask && n; --n) mask &= mask - 1;
  return mask ? std::countr_zero(mask) : -1;
}

void replace(Slot& slot, Object* fresh) {
  hold(fresh);
  release(std::exchange(slot.object, fresh), false);
  destroy(fresh);
}

aclnnStatus set_address(const char* function, aclOpExecutor* executor, bool inputs, bool outputs, size_t index, aclTensor* tensor,
                        void* address) {
  if (!executor || !tensor) return fail(ACLNN_ERR_PARAM_NULLPTR, "%s: executor or tensor is null", function);
  if (const aclnnStatus status = require_live(function, executor, Kind::executor)) return status;
  if (const aclnnStatus status = require_live(function, tensor, Kind::tensor)) return status;
  const OpInfo& info = *executor->op;
  const uint64_t mask = (inputs ? info.tensors & ~info.written : 0) | (outputs ? info.tensors & info.written : 0);
  const int i = nth(mask, index);
  if (i < 0 || !executor->slots[i].object) {
    return fail(ACLNN_ERR_PARAM_INVALID, "%s: %s has no tensor with index %zu", function, info.name, index);
  }
  replace(executor->slots[i], clone_tensor(static_cast<aclTensor*>(executor->slots[i].object), address));
  return set_address_of(tensor, address);
}

aclnnStatus set_list_address(const char* function, aclOpExecutor* executor, bool inputs, bool outputs, size_t index,
                             size_t element, aclTensorList* tensors, void* address) {
  if (!executor || !tensors) return fail(ACLNN_ERR_PARAM_NULLPTR, "%s: executor or list is null", function);
  if (const aclnnStatus status = require_live(function, executor, Kind::executor)) return status;
  if (const aclnnStatus status = require_live(function, tensors, Kind::tensor_list)) return status;
  const OpInfo& info = *executor->op;
  const uint64_t any = info.tensors | info.tensor_lists;
  const int i = nth((inputs ? any & ~info.written : 0) | (outputs ? any & info.written : 0), index);
  auto* list = i < 0 || !(info.tensor_lists >> i & 1) ? nullptr : static_cast<aclTensorList*>(executor->slots[i].object);
  if (!list || element >= list->elements.size() || element >= tensors->elements.size()) {
    return fail(ACLNN_ERR_PARAM_INVALID, "%s: %s has no list with index %zu and element %zu", function, info.name, index,
                element);
  }
  aclTensorList* fresh = clone_list(list);
  aclTensor*& place = fresh->elements[element];
  aclTensor* changed = clone_tensor(place, address);
  fresh->values[element] = changed->tensor;
  fresh->tags[element] = changed->tag;
  destroy(std::exchange(place, changed));
  replace(executor->slots[i], fresh);
  return set_address_of(tensors->elements[element], address);
}

}  // namespace
}  // namespace softcann::op

using softcann::fail;

extern "C" {

SOFTCANN_API aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
  SOFTCANN_ENTRY(aclSetAclOpExecutorRepeatable);
  if (!executor) return fail(ACLNN_ERR_PARAM_NULLPTR, "aclSetAclOpExecutorRepeatable: executor is null");
  if (const auto status = softcann::op::require_live("aclSetAclOpExecutorRepeatable", executor, softcann::op::Kind::executor)) {
    return status;
  }
  executor->repeatable = true;
  return ACLNN_SUCCESS;
}

SOFTCANN_API aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  SOFTCANN_ENTRY(aclDestroyAclOpExecutor);
  if (!executor) return ACLNN_SUCCESS;
  if (const auto status = softcann::op::require_live("aclDestroyAclOpExecutor", executor, softcann::op::Kind::executor)) {
    return status;
  }
  executor->discard(executor);
  return ACLNN_SUCCESS;
}

#define SET_ADDRESS(NAME, INPUTS, OUTPUTS)                                                              \
  SOFTCANN_API aclnnStatus NAME(aclOpExecutor* executor, size_t index, aclTensor* tensor, void* addr) { \
    SOFTCANN_ENTRY(NAME);                                                                               \
    return softcann::op::set_address(#NAME, executor, INPUTS, OUTPUTS, index, tensor, addr);            \
  }
#define SET_LIST_ADDRESS(NAME, INPUTS, OUTPUTS)                                                                        \
  SOFTCANN_API aclnnStatus NAME(aclOpExecutor* executor, size_t irIndex, size_t relativeIndex, aclTensorList* tensors, \
                                void* addr) {                                                                          \
    SOFTCANN_ENTRY(NAME);                                                                                              \
    return softcann::op::set_list_address(#NAME, executor, INPUTS, OUTPUTS, irIndex, relativeIndex, tensors, addr);    \
  }
SET_ADDRESS(aclSetInputTensorAddr, true, false)
SET_ADDRESS(aclSetOutputTensorAddr, false, true)
SET_ADDRESS(aclSetTensorAddr, true, true)
SET_ADDRESS(AclSetInputTensorAddr, true, false)
SET_ADDRESS(AclSetOutputTensorAddr, false, true)
SET_ADDRESS(AclSetTensorAddr, true, true)
SET_LIST_ADDRESS(aclSetDynamicInputTensorAddr, true, false)
SET_LIST_ADDRESS(aclSetDynamicOutputTensorAddr, false, true)
SET_LIST_ADDRESS(aclSetDynamicTensorAddr, true, true)
SET_LIST_ADDRESS(AclSetDynamicInputTensorAddr, true, false)
SET_LIST_ADDRESS(AclSetDynamicOutputTensorAddr, false, true)
SET_LIST_ADDRESS(AclSetDynamicTensorAddr, true, true)

}  // extern "C"
