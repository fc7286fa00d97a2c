// Devices and contexts.
//
// Lock order: registry (device.cpp) -> Device::mutex -> Stream/Event internals -> Arena. No lock is held while waiting
// for work.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "rt/memory/arena.h"
#include "rt/base/error.h"
#include "rt/base/handles.h"
#include "rt/runtime.h"
#include "rt/memory/window.h"

namespace softcann {

class Stream;
struct Device;

// What aclrtContext stands for. One that was destroyed is not used again, as threads may have it as their current one still.
struct Context : Handled {
  Device* device = nullptr;
  bool primary = false;
  Stream* default_stream = nullptr;  // none once it is destroyed
};

struct Device {
  explicit Device(int id, int physical, uint64_t capacity);

  const int id;        // as clients count
  const int physical;  // as ASCEND_RT_VISIBLE_DEVICES counts
  int memory_fd = -1;
  Region* region = nullptr;
  Arena arena;
  Context primary;

  std::mutex mutex;
  std::vector<Stream*> streams;  // alive
  int users = 0;                 // aclrtSetDevice calls less aclrtResetDevice calls

  std::atomic<int32_t> failure{0};  // the first code that a stream failed with, until the device's tasks are aborted

  uintptr_t base() const { return region->begin; }
};

int device_count();
// ACL_SUCCESS where a client's index names a device, else the code, recorded in the name of the entry point.
aclError check_device(const char* entry, int64_t id);
// What is wrong with the variables that softcann reads; empty when nothing is.
const std::string& configuration_error();
// Physical index of a client index that exists.
int physical_device(int id);

// The device if it was opened, else nullptr.
Device* find_device(int id);
// Opens the device when needed; nullptr with the reason recorded and its code in *error.
Device* open_device(int id, aclError* error);
// Whether there is such a device, by the settings; records why not.
aclError check_configured(int id);

// Note [Thread-local variables]
// Two pointers are looked at for each task. The initial-exec model reads them with one instruction instead of a call; a
// library that is loaded late may have a little of that, and two pointers are little.
#define SOFTCANN_FAST_TLS __attribute__((tls_model("initial-exec")))

// The calling thread's context; nullptr when none is set.
extern constinit thread_local Context* this_context SOFTCANN_FAST_TLS;
inline Context* current_context() { return this_context; }
inline void set_current_context(Context* context) { this_context = context; }

// The calling thread's context, or returns 107002 from the entry point.
#define SOFTCANN_CONTEXT(variable, entry)                        \
  ::softcann::Context* variable = ::softcann::current_context(); \
  if (variable == nullptr || !variable->alive()) return ::softcann::no_context(entry)
aclError no_context(const char* entry);

// The current context's device, or the first one where a thread has none: some calls come before aclrtSetDevice. nullptr with the
// reason recorded and its code in *error where that cannot be opened.
Device* device_or_first(aclError* error);

// All alive streams of a device, in the order of their creation.
std::vector<Stream*> streams_of(Device* device);

}  // namespace softcann
