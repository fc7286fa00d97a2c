// What runs around a launch: nothing in ordinary runs, where the whole list costs one flag.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include <c10/macros/Export.h>

#include "acl/acl.h"

namespace torch_npu::op {

struct Launch {
  enum class Kind : uint8_t { compute, copy, collective };

  const char* name;    // the operator's, or that of CANN's function
  aclrtStream stream;  // the current one
  Kind kind = Kind::compute;
  uint64_t bytes = 0;  // of a copy
};

// Either may be empty. `after` is called when CANN has taken the launch, not if it refused it.
struct LaunchHook {
  std::function<void(const Launch&)> before, after;
};

// In force until remove_launch_hook(name). Blocking mode is such a hook, and so is the profiler.
C10_EXPORT void add_launch_hook(const std::string& name, LaunchHook hook);
C10_EXPORT void remove_launch_hook(const std::string& name);
C10_EXPORT void set_launch_blocking(bool on);

C10_EXPORT extern std::atomic<bool> any_launch_hook;
inline bool launch_hooks_active() { return any_launch_hook.load(std::memory_order_relaxed); }
C10_EXPORT void run_hooks_before(const Launch& launch);
C10_EXPORT void run_hooks_after(const Launch& launch);

// Calls `enqueue`, which throws where CANN refuses, with the hooks around it.
template <class Enqueue>
void launch_with_hooks(const Launch& launch, const Enqueue& enqueue) {
  const bool hooked = launch_hooks_active();
  if (C10_UNLIKELY(hooked)) run_hooks_before(launch);
  enqueue();
  if (C10_UNLIKELY(hooked)) run_hooks_after(launch);
}

}  // namespace torch_npu::op
