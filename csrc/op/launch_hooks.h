// What runs around a launch: nothing in ordinary runs, where the whole list costs one flag.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include <c10/macros/Export.h>

#include "acl/acl.h"

namespace torch_npu::op {

using LaunchHook = std::function<void(const char* op, aclrtStream stream)>;

// Calls `hook` after each launch until remove_launch_hook(name). Blocking mode is such a hook.
C10_EXPORT void add_launch_hook(const std::string& name, LaunchHook hook);
C10_EXPORT void remove_launch_hook(const std::string& name);
C10_EXPORT void set_launch_blocking(bool on);

C10_EXPORT extern std::atomic<bool> any_launch_hook;
inline bool launch_hooks_active() { return any_launch_hook.load(std::memory_order_relaxed); }
C10_EXPORT void run_launch_hooks(const char* op, aclrtStream stream);

}  // namespace torch_npu::op
