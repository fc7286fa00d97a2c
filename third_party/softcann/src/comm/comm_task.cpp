#include "comm/comm_task.h"

#include <cstring>
#include <utility>

#include "comm/communicator.h"
#include "rt/recording/call_record.h"
#include "rt/process/exit.h"

namespace softcann {

CommTask::CommTask() { run = &CommTask::execute; }

aclError CommTask::execute(Task* self, bool skip) {
  auto* task = static_cast<CommTask*>(self);
  aclError code = ACL_SUCCESS;
  if (!skip) {
    code = task->advance();
    if (code == kUnfinished) return code;
  } else if (!options().noop) {
    // The others would wait in vain.
    task->transport->fail(HCCL_E_REMOTE, describe(task->operation.call) + " was not carried out by rank " +
                                             std::to_string(task->rank) +
                                             ", because its stream had failed before or was aborted");
  }
  delete task;
  return code;
}

aclError CommTask::advance() {
  const WaitOutside outside;
  if (!tried) copy_staged(true);
  if (dump::is_active() && !tried) dumped = CommDump::begin(name, operation, this);
  const aclError code = transport->run(operation, !tried);
  tried = true;
  if (code == ACL_SUCCESS) copy_staged(false);
  if (__builtin_expect(dumped != nullptr, 0) && code != kUnfinished)
    std::exchange(dumped, nullptr)->end(operation, code != ACL_SUCCESS);
  if (code != ACL_SUCCESS && code != kUnfinished && dump::watches_failures.load()) {
    if (const auto failed = CommDump::begin(name, operation, this)) failed->end(operation, true);
  }
  if (call_record::on && code == ACL_SUCCESS) record_received();
  return code;
}

void CommTask::record_received() const {
  call_record::outside(name, operation.receive.data, operation.receive.bytes);
  for (const Message& message : operation.messages) {
    if (!message.send) call_record::outside(name, message.buffer.data, message.buffer.bytes);
  }
}

void CommTask::copy_staged(bool in) {
  for (const Staged& buffer : staged) {
    char* memory = static_cast<char*>(device_view(buffer.memory.get()));
    if (in && buffer.in) std::memcpy(memory, buffer.original, buffer.bytes);
    if (!in && buffer.out) std::memcpy(buffer.original, memory, buffer.bytes);
  }
}

namespace {

struct CapturedCall : RenewedTask {
  std::unique_ptr<CommTask> call;

  explicit CapturedCall(std::unique_ptr<CommTask> captured) : call(std::move(captured)) {
    name = call->name;
    renew = [](const RenewedTask& self) -> Task* {
      auto task = std::make_unique<CommTask>(*static_cast<const CapturedCall&>(self).call);
      task->transport->number(task->operation);
      return task.release();
    };
    discard = [](Task* self) { delete static_cast<CapturedCall*>(self); };
  }
};

HcclResult capture(std::unique_ptr<CommTask> task, aclrtStream stream) {
  auto captured = std::make_unique<CapturedCall>(std::move(task));
  if (const aclError code = softcann::submit(stream, captured.get(), kNeverInline)) return hccl_fail_last(code);
  captured.release();
  return HCCL_SUCCESS;
}

}  // namespace

HcclResult submit(std::unique_ptr<CommTask> task, aclrtStream stream) {
  if (is_captured(stream)) return capture(std::move(task), stream);
  task->transport->number(task->operation);
  if (dump::is_active()) dump::note_line(task.get());
  const uint32_t cost = task->staged.empty() ? task->transport->cost(task->operation) : kNeverInline;
  const aclError code = softcann::submit(stream, task.get(), cost);
  if (code != ACL_SUCCESS) {
    // The number is used up here, but not at the other ranks.
    task->transport->fail(HCCL_E_RUNTIME, std::string(task->name) + ": rank " + std::to_string(task->rank) +
                                              " has called it with a stream that cannot take it");
    return hccl_fail_last(code);
  }
  task.release();
  return HCCL_SUCCESS;
}

}  // namespace softcann
