#include "op/dumping.h"

#include <c10/util/Exception.h>

#include <utility>

#include "op/collective.h"
#include "op/executor.h"
#include "op/names.h"
#include "rt/dump/dump_values.h"
#include "rt/recording/call_record.h"

namespace softcann::op {

struct DumpedCall {
  dump::Call call;
  std::vector<dump::Tensor> tensors;
};

namespace {

void take(const aclTensor& made, bool written, const std::string& name, std::vector<dump::Tensor>* to) {
  if (!made.tensor.defined()) return;
  to->push_back(dumped_tensor(made.tensor, written, name, made.type, dump::format_name(made.format)));
}

// The tensors that the operator reads, or those that it writes.
void take_all(const aclOpExecutor& executor, bool written, std::vector<dump::Tensor>* to) {
  const OpInfo& info = *executor.op;
  for (int i = 0; i < info.count; ++i) {
    const uint64_t bit = uint64_t{1} << i;
    const Object* object = (info.tensors | info.tensor_lists) & bit ? executor.slots[i].object : nullptr;
    const bool reads = (info.read & bit) != 0 || (info.written & bit) == 0;
    if (object == nullptr || !(written ? (info.written & bit) != 0 : reads)) continue;
    const std::string name = parameter_name(info, i);
    if (object->kind == Kind::tensor) {
      take(*static_cast<const aclTensor*>(object), written, name, to);
      continue;
    }
    int place = 0;
    for (const aclTensor* one : static_cast<const aclTensorList*>(object)->elements) {
      if (one != nullptr) take(*one, written, name + '[' + std::to_string(place) + ']', to);
      ++place;
    }
  }
}

// Null where the call is not dumped.
std::unique_ptr<DumpedCall> dumped_call(const aclOpExecutor& executor) {
  auto made = std::make_unique<DumpedCall>();
  made->call.name = executor.op->name;
  made->call.device = call_record::device();
  made->call.stream = call_record::stream();
  return dump::begin(&made->call, &executor) ? std::move(made) : nullptr;
}

// Of an operator that communicates the first stage reads, and the last one has the results.
bool is_first(const aclOpExecutor& executor) { return executor.stage == 0; }
bool is_last(const aclOpExecutor& executor) {
  return executor.plan == nullptr || executor.stage == executor.plan->exchanges.size();
}

}  // namespace

dump::Tensor dumped_tensor(const at::Tensor& tensor, bool written, std::string name, aclDataType type, const char* format) {
  dump::Tensor made;
  made.written = written;
  made.name = std::move(name);
  made.type = type;
  made.format = format;
  made.dims = tensor.sizes().vec();
  made.strides = tensor.strides().vec();
  const at::ScalarType type_of_values = tensor.scalar_type();
  const bool is_eight = type_of_values == at::kFloat8_e4m3fn || type_of_values == at::kFloat8_e5m2;
  at::ScalarType as = type_of_values;
  if (as == at::kBFloat16 || is_eight) as = at::kFloat;
  if (as == at::kComplexHalf) as = at::kComplexFloat;
  // A copy in any case: the operator may write where it reads, and the client where it has written. Of types without arithmetic
  // it is bytes.
  at::Tensor copy = tensor.contiguous();
  copy = as != type_of_values ? copy.to(as) : copy.clone();
  auto values = std::make_shared<at::Tensor>(std::move(copy));
  made.stored = acl_type_of(as);
  made.bytes = values->nbytes();
  made.data = std::shared_ptr<const void>(values, values->const_data_ptr());
  return made;
}

DumpedCall* begin_dump(const aclOpExecutor& executor) {
  if (!is_first(executor) && !is_last(executor)) return nullptr;
  auto made = dumped_call(executor);
  if (made == nullptr) return nullptr;
  try {
    if (made->call.wants_read && is_first(executor)) take_all(executor, false, &made->tensors);
  } catch (const std::exception& error) {
    dump::give_up(made->call, error.what());
    return nullptr;
  }
  return made.release();
}

void dump_failure(const aclOpExecutor& executor) {
  // Of an operator that communicates each stage reads what the client gave.
  const auto made = dumped_call(executor);
  if (made == nullptr) return;
  try {
    take_all(executor, false, &made->tensors);
  } catch (const std::exception& error) {
    return dump::give_up(made->call, error.what());
  }
  dump::end(made->call, made->tensors, true);
}

void end_dump(DumpedCall* call, const aclOpExecutor& executor, bool failed) {
  const std::unique_ptr<DumpedCall> owner(call);
  try {
    if (call->call.wants_written && is_last(executor) && !failed) take_all(executor, true, &call->tensors);
    dump::end(call->call, call->tensors, failed);
  } catch (const std::exception& error) {
    dump::give_up(call->call, error.what());
  }
}

}  // namespace softcann::op
