#include "distributed/param_comms.h"

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>

#include "distributed/types.h"

namespace torch_npu::distributed {
namespace {

// Between the global ranks of a group; 0 where they are not evenly apart, for which PyTorch has no form.
int stride(const std::vector<uint64_t>& ranks) {
  if (ranks.size() < 2) return 1;
  const auto step = static_cast<int64_t>(ranks[1]) - static_cast<int64_t>(ranks[0]);
  for (size_t i = 1; i < ranks.size(); ++i) {
    if (static_cast<int64_t>(ranks[i]) - static_cast<int64_t>(ranks[i - 1]) != step) return 0;
  }
  return static_cast<int>(step);
}

// What PyTorch calls it in its records, which is not always what it says in the titles of ranges.
std::string collective_name(const Operation& operation) {
  switch (operation.type) {
    case c10d::OpType::ALLREDUCE:
      return "allreduce";
    case c10d::OpType::_ALLGATHER_BASE:
      return "_allgather_base";
    default:
      return operation.name;
  }
}

}  // namespace

void ParametersRecord::begin(at::StepCallbacks&& callbacks, const RecordedGroup& group, const Operation& operation,
                             at::TensorList inputs, at::TensorList outputs) {
  const auto& some = outputs.empty() ? inputs : outputs;
  const auto dtype = some.empty() ? at::ScalarType::Byte : some[0].scalar_type();
  // Of a message, the other rank.
  const auto rank = static_cast<int>(group.ranks.at(operation.is_message() ? operation.peer : group.rank));
  information_.emplace(c10::DebugInfoKind::PARAM_COMMS_INFO,
                       std::make_shared<torch::ParamCommsDebugInfo>(
                           std::make_tuple(group.name, group.description()), rank, collective_name(operation), elements(inputs),
                           elements(outputs), dtype, std::vector<int64_t>(), std::vector<int64_t>(),
                           static_cast<int>(group.ranks[0]), stride(group.ranks), static_cast<int>(group.ranks.size())));
  function_.emplace(std::move(callbacks));
  if (!function_->isActive()) return;
  const std::vector<c10::IValue> arguments{inputs.vec(), outputs.vec()};
  function_->before(at::kParamCommsCallName, c10::ArrayRef<const c10::IValue>(arguments.data(), arguments.size()));
}

void ParametersRecord::begin_range(at::StepCallbacks&& callbacks, const Operation& operation, at::TensorList tensors) {
  range_.emplace(std::move(callbacks));
  if (!range_->isActive()) return;
  range_->_setAsync();  // it is no parent of the operators that are called meanwhile
  const std::vector<c10::IValue> arguments(tensors.begin(), tensors.end());
  const auto title = std::string("hccl:") + operation.name;
  range_->before(title.c_str(), c10::ArrayRef<const c10::IValue>(arguments.data(), arguments.size()));
}

}  // namespace torch_npu::distributed
