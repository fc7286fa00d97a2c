// Streams that write a number to device memory, and streams that wait for one.
#include <atomic>

#include "rt/memory/check.h"
#include "rt/process/exit.h"
#include "rt/exchange.h"
#include "rt/stream/stream.h"

using namespace softcann;

namespace {

// When a wait is over: the number in memory, compared as `flag` says with the one given.
enum Condition : uint32_t { not_less, equal, common_bit, missing_bit, conditions };

bool met(uint32_t condition, uint64_t found, uint64_t value) {
  switch (condition) {
    case not_less:  // of numbers that may run over
      return static_cast<int64_t>(found - value) >= 0;
    case equal:
      return found == value;
    case common_bit:
      return (found & value) != 0;
    default:
      return ~(found | value) != 0;
  }
}

struct ValueTask : Task {
  std::atomic_ref<uint64_t> memory;
  uint64_t value;
  uint32_t condition;
  Poll poll;

  ValueTask(void* address, uint64_t value, uint32_t condition)
      : memory(*static_cast<uint64_t*>(device_view(address))), value(value), condition(condition) {
    discard = [](Task* self) { delete static_cast<ValueTask*>(self); };
  }
};

aclError write(Task* self, bool skip) {
  auto* task = static_cast<ValueTask*>(self);
  if (!skip) task->memory.store(task->value, std::memory_order_release);
  return ACL_SUCCESS;
}
bool waits_still(ValueTask* task) {
  if (met(task->condition, task->memory.load(std::memory_order_acquire), task->value)) return false;
  task->poll.pause();
  return true;
}
aclError wait(Task* self, bool skip) {
  auto* task = static_cast<ValueTask*>(self);
  if (!skip && waits_still(task)) return kUnfinished;
  delete task;
  return ACL_SUCCESS;
}
// As a node of a graph, whose execution is one task of the stream.
aclError wait_in_graph(Task* self, bool skip) {
  auto* task = static_cast<ValueTask*>(self);
  while (!skip && !Stream::drops_this_task() && waits_still(task)) {
  }
  task->poll.end();
  return ACL_SUCCESS;
}

aclError check_address(const char* entry, void* address) {
  if (address == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "%s: devAddr is null", entry);
  if (reinterpret_cast<uintptr_t>(address) % sizeof(uint64_t) != 0) {
    return fail(ACL_ERROR_MEMORY_ADDRESS_UNALIGNED, "%s: devAddr %p is no multiple of 8", entry, address);
  }
  softcann::check::mark_written_elsewhere(address, sizeof(uint64_t));
  return check_device_range(address, sizeof(uint64_t));
}

aclError launch(aclrtStream stream, ValueTask* task, uint32_t cost_ns) {
  const aclError code = submit(stream, task, cost_ns);
  if (code != ACL_SUCCESS) delete task;
  return code;
}

}  // namespace

extern "C" {

aclError aclrtValueWrite(void* devAddr, uint64_t value, uint32_t flag, aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtValueWrite);
  if (const aclError code = check_address("aclrtValueWrite", devAddr)) return code;
  if (flag != 0) return fail(ACL_ERROR_INVALID_PARAM, "aclrtValueWrite: flag %u; 0 is the only one", flag);
  auto* task = new ValueTask(devAddr, value, 0);
  task->name = "aclrtValueWrite";
  task->run = run_once;
  task->repeat = write;
  return launch(stream, task, 100);
}

aclError aclrtValueWait(void* devAddr, uint64_t value, uint32_t flag, aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtValueWait);
  if (const aclError code = check_address("aclrtValueWait", devAddr)) return code;
  if (flag >= conditions) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtValueWait: flag %u is not one of 0 (not less), 1 (equal), 2 (and), 3 (nor)", flag);
  }
  auto* task = new ValueTask(devAddr, value, flag);
  task->name = "aclrtValueWait";
  task->run = wait;
  task->repeat = wait_in_graph;
  return launch(stream, task, kNeverInline);
}
}
