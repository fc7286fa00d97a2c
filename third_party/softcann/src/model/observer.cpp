#include "model/observer.h"

#include <exception>
#include <utility>

#include "op/descriptor.h"
#include "op/dumping.h"
#include "rt/recording/call_record.h"
#include "rt/profile/operator_profile.h"
#include "rt/profile/collector.h"
#include "rt/base/sync.h"

namespace softcann::model {
namespace {

void take(const std::vector<NamedTensor>& found, bool written, std::vector<dump::Tensor>* to) {
  for (const auto& [name, tensor] : found) {
    to->push_back(op::dumped_tensor(tensor, written, name, op::acl_type_of(tensor.scalar_type()), "ND"));
  }
}

// The model goes on where a dump cannot.
template <class Work>
void guarded(const dump::Call& call, const Work& work) {
  try {
    work();
  } catch (const std::exception& error) {
    dump::give_up(call, error.what());
  }
}

dump::Call dumped_call(const Instruction& instruction, const ModelCall& call, const ModelInfo& info) {
  dump::Call made;
  made.name = instruction.name;
  made.model = info.name;
  made.type = instruction.type;
  made.device = call.device;
  made.stream = call_record::stream();
  return made;
}

}  // namespace

Observer::Observer(const ModelCall& call, const ModelInfo& info) : call_(call), info_(info), dumps_(dump::is_active()) {
  if (dumps_) run_ = dump::next_run(call.id);
}

void Observer::begin(const Machine& machine, const Instruction& instruction) {
  if (dumps_) {
    dumped_ = std::make_unique<dump::Call>(dumped_call(instruction, call_, info_));
    dumped_->run = run_;
    dumped_->ranges = &ranges_;
    if (!dump::begin(dumped_.get())) dumped_.reset();
    tensors_.clear();
    if (dumped_ != nullptr && dumped_->wants_read) {
      guarded(*dumped_, [&] { take(machine.operands(instruction), false, &tensors_); });
    }
  }
  begin_ns_ = now_ns();
}

void Observer::end(const Machine& machine, const Instruction& instruction, bool done) {
  const int64_t end_ns = now_ns();
  const std::unique_ptr<dump::Call> dumped = std::move(dumped_);
  if (!done) return;
  if (operator_profile::is_subscribed(call_.id)) {
    operator_profile::tell(call_.id, instruction.name.c_str(), instruction.type.c_str(), begin_ns_, end_ns);
  }
  if (recorder::is_active()) {
    recorder::add_operator({instruction.name.c_str(), instruction.type.c_str(), call_.id, call_.device, call_record::stream()},
                           begin_ns_, end_ns);
  }
  if (dumped == nullptr) return;
  guarded(*dumped, [&] {
    if (dumped->wants_written) take(machine.results(instruction), true, &tensors_);
    dump::end(*dumped, tensors_, false);
  });
}

void Observer::fail() {
  if (const std::unique_ptr<dump::Call> dumped = std::move(dumped_)) dump::end(*dumped, tensors_, true);
}

void dump_failure(const Machine& machine, const ModelCall& call, const ModelInfo& info) {
  if (!dump::watches_failures.load() || machine.failed() == nullptr) return;
  const Instruction& failed = *machine.failed();
  dump::Call dumped = dumped_call(failed, call, info);
  if (!dump::begin(&dumped)) return;
  guarded(dumped, [&] {
    std::vector<dump::Tensor> tensors;
    take(machine.operands(failed), false, &tensors);
    dump::end(dumped, tensors, true);
  });
}

std::unique_ptr<Observer> observe(const ModelCall& call, const ModelInfo& info) {
  const bool wanted = dump::is_active() || recorder::is_active() || operator_profile::is_subscribed(call.id);
  return wanted ? std::make_unique<Observer>(call, info) : nullptr;
}

}  // namespace softcann::model
