#include "rt/memory/check.h"
#include "rt/device/overflow.h"

#include <cstring>

#include "rt/memory/memory.h"
#include "rt/stream/stream.h"

using namespace softcann;

namespace {

// What clients get: a block of this size, its first word not 0 after an overflow.
constexpr size_t kStatusBytes = 64;

std::atomic<bool> flags[64];  // one for each device a process can have

struct StatusTask : Task {
  std::atomic<bool>* flag;
  void* out;  // nullptr: reset the flag
};

aclError read_or_reset(Task* self, bool skip) {
  auto* task = static_cast<StatusTask*>(self);
  if (!skip && task->out != nullptr) {
    const uint32_t status[kStatusBytes / sizeof(uint32_t)] = {task->flag->load(std::memory_order_relaxed) ? 1u : 0u};
    std::memcpy(task->out, status, kStatusBytes);
  } else if (!skip) {
    task->flag->store(false, std::memory_order_relaxed);
  }
  return ACL_SUCCESS;
}

aclError submit_status(const char* entry, void* out, aclrtStream handle) {
  aclError error = ACL_SUCCESS;
  Stream* stream = Stream::from_handle(handle, &error);
  if (stream == nullptr) return error;
  auto* task = new StatusTask;
  task->name = entry;
  task->repeat = &read_or_reset;
  task->discard = [](Task* self) { delete static_cast<StatusTask*>(self); };
  task->run = &run_once;
  task->flag = &flags[stream->context->device->id];
  task->out = out;
  constexpr uint32_t cost_ns = 20;
  stream->submit(task, cost_ns);
  return ACL_SUCCESS;
}

aclError read_status(const char* entry, void* out, uint64_t bytes, aclrtStream stream) {
  SOFTCANN_REQUIRE(out, "outputAddr");
  if (bytes != kStatusBytes) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: outputSize is %llu, the status has %zu bytes", entry,
                static_cast<unsigned long long>(bytes), kStatusBytes);
  }
  if (!is_device_pointer(out)) return fail(ACL_ERROR_INVALID_PARAM, "%s: outputAddr is not device memory", entry);
  if (const aclError code = check_device_range(out, bytes)) return code;
  check::mark_written_elsewhere(out, bytes);
  return submit_status(entry, device_view(out), stream);
}

aclError check_mode(const char* entry, uint32_t mode) {
  return mode == 0 ? ACL_SUCCESS : fail(ACL_ERROR_INVALID_PARAM, "%s: checkMode %u; 0 is the only one", entry, mode);
}

}  // namespace

namespace softcann {

void note_overflow() {
  const Stream* stream = Stream::running();
  if (stream == nullptr || stream->overflow_switch.load(std::memory_order_relaxed) == 0) return;
  flags[stream->context->device->id].store(true, std::memory_order_relaxed);
}

bool overflow_noted() {
  const Stream* stream = Stream::running();
  return stream != nullptr && flags[stream->context->device->id].load(std::memory_order_relaxed);
}

void reset_overflow() {
  const Stream* stream = Stream::running();
  if (stream != nullptr) flags[stream->context->device->id].store(false, std::memory_order_relaxed);
}

}  // namespace softcann

extern "C" {

aclError aclrtGetOverflowStatus(void* outputAddr, size_t outputSize, aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtGetOverflowStatus);
  return read_status("aclrtGetOverflowStatus", outputAddr, outputSize, stream);
}

// A device has one such flag: CANN's other names lead to it, too.
aclError aclrtGetFloatOverflowStatus(void* outputAddr, uint64_t outputSize, aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtGetFloatOverflowStatus);
  return read_status("aclrtGetFloatOverflowStatus", outputAddr, outputSize, stream);
}

aclError aclrtResetFloatOverflowStatus(aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtResetFloatOverflowStatus);
  return submit_status("aclrtResetFloatOverflowStatus", nullptr, stream);
}

aclError aclrtNpuGetFloatOverFlowStatus(void* outputAddr, uint64_t outputSize, uint32_t checkMode, aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtNpuGetFloatOverFlowStatus);
  if (const aclError code = check_mode("aclrtNpuGetFloatOverFlowStatus", checkMode)) return code;
  return read_status("aclrtNpuGetFloatOverFlowStatus", outputAddr, outputSize, stream);
}

aclError aclrtNpuClearFloatOverFlowStatus(uint32_t checkMode, aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtNpuClearFloatOverFlowStatus);
  if (const aclError code = check_mode("aclrtNpuClearFloatOverFlowStatus", checkMode)) return code;
  return submit_status("aclrtNpuClearFloatOverFlowStatus", nullptr, stream);
}

aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag) {
  SOFTCANN_ENTRY(aclrtSetStreamOverflowSwitch);
  if (flag > 1) return fail(ACL_ERROR_INVALID_PARAM, "aclrtSetStreamOverflowSwitch: flag %u is neither 0 nor 1", flag);
  aclError error = ACL_SUCCESS;
  Stream* found = Stream::from_handle(stream, &error);
  if (found == nullptr) return error;
  found->overflow_switch.store(flag, std::memory_order_relaxed);
  return ACL_SUCCESS;
}

aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t* flag) {
  SOFTCANN_ENTRY(aclrtGetStreamOverflowSwitch);
  SOFTCANN_REQUIRE(flag, "flag");
  aclError error = ACL_SUCCESS;
  const Stream* found = Stream::from_handle(stream, &error);
  if (found == nullptr) return error;
  *flag = found->overflow_switch.load(std::memory_order_relaxed);
  return ACL_SUCCESS;
}

aclError aclrtResetOverflowStatus(aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtResetOverflowStatus);
  return submit_status("aclrtResetOverflowStatus", nullptr, stream);
}
}
