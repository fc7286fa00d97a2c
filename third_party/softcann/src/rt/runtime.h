// What libascendcl offers to its sister libraries (libopapi, libhccl): running work on streams, reaching device memory,
// reporting errors. Clients of CANN never see this header; they use the C interface only.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

// Whatever the contract declares is exported by the library that defines it.
#pragma GCC visibility push(default)
#include "acl/acl.h"
#include "acl/acl_op_compiler.h"
#include "acl/acl_rt_memory_soma.h"
#pragma GCC visibility pop

#include "fault/fault.h"
#include "rt/base/options.h"

#define SOFTCANN_API __attribute__((visibility("default")))

namespace softcann {

// Unit of work on a stream; intrusive, owned by the submitter until submit() returns ACL_SUCCESS.
struct Task {
  Task* next = nullptr;
  // Does the work; returns ACL_SUCCESS or an error code that becomes the stream's error (its text comes from
  // task_error()). Frees or recycles itself. `skip`: the stream has failed before, or SOFTCANN_NOOP is set: do not
  // compute, only release.
  aclError (*run)(Task* self, bool skip) = nullptr;
  // The two halves of `run`, of a task that can be captured into a graph: does the work and stays as it is, to do it again;
  // frees or recycles it.
  aclError (*repeat)(Task* self, bool skip) = nullptr;
  void (*discard)(Task* self) = nullptr;
  // Shown in error messages and traces; must outlive the task.
  const char* name = "";
};

// `run` of a task that has both halves and nothing to add.
inline aclError run_once(Task* self, bool skip) {
  const aclError code = self->repeat(self, skip);
  self->discard(self);
  return code;
}

// What a task returns whose arguments were wrong, but nothing else: aclnn's code for that. The stream tells it once and goes on.
inline constexpr aclError kRefused = 161002;

// Runs `task` after everything that was submitted to `stream` before (nullptr: the current context's default stream).
// When the stream is idle and cost_ns is at most the option inline_ns, the task runs on the caller's thread before
// submit() returns; otherwise it is queued for the stream's worker. A cost of kNeverInline always queues.
// A stream that is being captured takes the task into its graph instead, if it can be repeated.
// On an error (invalid stream, no context, cannot be captured) the task was not taken and still belongs to the caller.
SOFTCANN_API aclError submit(aclrtStream stream, Task* task, uint32_t cost_ns);
inline constexpr uint32_t kNeverInline = UINT32_MAX;

// Note [Double mapping]
// Clients get addresses inside one large reserved range (the window) that is never readable. The same bytes appear a
// constant distance (delta) further on, in the view, where kernels may touch them. The distance is the same for every
// device, for mapped virtual memory and for memory imported from other processes, so translating costs one subtraction,
// one compare and one addition, without a lookup. Until the first device is opened `size` is 0 and nothing is
// translated.
struct DeviceWindow {
  std::atomic<uintptr_t> base{0};
  std::atomic<uintptr_t> delta{0};
  std::atomic<uintptr_t> size{0};  // written last, read first
};
SOFTCANN_API extern DeviceWindow device_window;

inline bool is_device_pointer(const void* p) {
  const uintptr_t size = device_window.size.load(std::memory_order_acquire);
  return reinterpret_cast<uintptr_t>(p) - device_window.base.load(std::memory_order_relaxed) < size;
}

// Device address -> the address kernels may touch. nullptr and host pointers are returned unchanged.
inline void* device_view(const void* p) {
  const auto address = reinterpret_cast<uintptr_t>(p);
  const uintptr_t size = device_window.size.load(std::memory_order_acquire);
  const uintptr_t delta = address - device_window.base.load(std::memory_order_relaxed) < size
                              ? device_window.delta.load(std::memory_order_relaxed)
                              : 0;
  return reinterpret_cast<void*>(address + delta);
}

// The reverse: an address inside the view -> the client's address for it. Others are returned unchanged.
inline void* client_address(const void* view) {
  const auto address = reinterpret_cast<uintptr_t>(view);
  const uintptr_t size = device_window.size.load(std::memory_order_acquire);
  const uintptr_t delta = device_window.delta.load(std::memory_order_relaxed);
  const uintptr_t offset = address - delta - device_window.base.load(std::memory_order_relaxed);
  return reinterpret_cast<void*>(offset < size ? address - delta : address);
}

// ACL_SUCCESS when [p, p + bytes) lies inside one live device allocation; otherwise an error code, with its text
// recorded. Costs about 20 ns.
SOFTCANN_API aclError check_device_range(const void* p, size_t bytes);

// Counts up whenever device memory has been given back or unmapped: what was found out about addresses before that may no
// longer be so.
SOFTCANN_API extern std::atomic<uint64_t> memory_epoch;
// The live memory that [p, p + bytes) lies in: its first address and size. False when it lies in none, or not in one.
SOFTCANN_API bool live_memory(const void* p, size_t bytes, uintptr_t* begin, size_t* size);

// Records `text` as this thread's aclGetRecentErrMsg() and returns `code`: `return fail(ACL_ERROR_INVALID_PARAM, ...)`.
SOFTCANN_API int fail(int code, const char* format, ...) __attribute__((format(printf, 2, 3)));
// Text for the failure of the task that is running on this thread; shown where the stream is synchronized.
SOFTCANN_API void task_error(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Device of the calling thread's current context, or -1; device of a stream, or -1 when the handle is not a stream.
SOFTCANN_API int current_device();
SOFTCANN_API int stream_device(aclrtStream stream);

// A process-wide switch that clients set, for kernels to respect.
SOFTCANN_API bool saturating();  // aclrtSetDeviceSatMode: true = overflow saturates, false = IEEE inf/nan

}  // namespace softcann
