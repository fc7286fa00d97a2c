// What libascendcl offers to libhccl besides runtime.h: device memory as other processes can map it, and tasks that wait
// for other processes.
#pragma once

#include "rt/runtime.h"

namespace softcann {

// Returned by a run function in place of a result: the task waits for another process, and the little time it may take
// on the submitter's thread is over. `run` is called again, before any later task of the stream, by the stream's worker
// or by a thread that waits for the stream.
inline constexpr aclError kUnfinished = INT32_MIN + 1;

// Whether the stream takes tasks into a graph now.
SOFTCANN_API bool is_captured(aclrtStream stream);

// A captured task that cannot be repeated, since all ranks count their calls together: each execution of its graph makes one
// anew, at the time of the client's call.
SOFTCANN_API aclError repeat_renewed(Task* self, bool skip);
struct RenewedTask : Task {
  RenewedTask() { repeat = &repeat_renewed; }
  // Makes what is to be run once.
  Task* (*renew)(const RenewedTask& self) = nullptr;
};
inline const RenewedTask* as_renewed(const Task* task) {
  return task->repeat == &repeat_renewed ? static_cast<const RenewedTask*>(task) : nullptr;
}

// `capacity` bytes of the file `fd`, which is at `view` in this process.
struct DeviceMemory {
  int fd = -1;
  uint64_t capacity = 0;
  char* view = nullptr;
};
// False when the device was not opened.
SOFTCANN_API bool device_memory(int device, DeviceMemory* memory);
// Where in its device's memory file [p, p + bytes) lies; false when it is not in one piece there (memory that a client
// mapped piece by piece, or imported from another process).
SOFTCANN_API bool locate(const void* p, size_t bytes, int* device, uint64_t* offset);

}  // namespace softcann
