#include "op/launch.h"

#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "core/capture.h"
#include "core/device.h"
#include "core/error.h"
#include "core/options.h"

namespace torch_npu::op {
namespace {

struct Hooks {
  std::shared_mutex mutex;
  std::map<std::string, LaunchHook> entries;
};

Hooks& hooks() {
  static auto* instance = new Hooks();
  return *instance;
}

const bool blocking_from_environment = [] {
  try {
    if (core::options().launch_blocking) set_launch_blocking(true);
  } catch (const c10::Error&) {  // while the library is loaded nobody could catch it: options() throws again at first use
  }
  return true;
}();

// Extensions open libopapi.so by its name, which the loader knows once it is open. A CANN without it: operators say so.
void open_operators() {
  try {
    acl::find_symbol(acl::Library::opapi, "");
  } catch (const c10::Error&) {
  }
}
const bool opens_operators = (core::at_first_use(open_operators), true);

}  // namespace

std::atomic<bool> any_launch_hook{false};

void throw_operator_error(const char* name, int status) { core::throw_cann_error(status, name, __FILE__, __LINE__); }

void* require_operator_symbol(const char* name, const char* suffix) {
  return acl::require_symbol(acl::Library::opapi, (std::string(name) + suffix).c_str());
}

bool has_operator(const char* name) { return acl::find_symbol(acl::Library::opapi, name) != nullptr; }

c10::DataPtr allocate_workspace(uint64_t bytes) { return c10::GetAllocator(c10::DeviceType::PrivateUse1)->allocate(bytes); }

void wait_for_operator(const char* name, aclrtStream stream) {
  const int status = acl::aclrtSynchronizeStream(stream);
  if (status != 0) throw_operator_error(name, status);
}

at::DimVector view_shape(const aclTensor* tensor) {
  if (!tensor) return {};
  int64_t* dims = nullptr;
  uint64_t rank = 0;
  NPU_CHECK(acl::aclGetViewShape(tensor, &dims, &rank));
  const std::unique_ptr<int64_t[]> owner(dims);  // CANN hands the array over
  return at::DimVector(dims, dims + rank);
}

void add_launch_hook(const std::string& name, LaunchHook hook) {
  std::unique_lock<std::shared_mutex> lock(hooks().mutex);
  hooks().entries[name] = std::move(hook);
  any_launch_hook.store(true);
}

void remove_launch_hook(const std::string& name) {
  std::unique_lock<std::shared_mutex> lock(hooks().mutex);
  hooks().entries.erase(name);
  any_launch_hook.store(!hooks().entries.empty());
}

void set_launch_blocking(bool on) {
  if (on) {
    add_launch_hook("blocking", {nullptr, [](const Launch& launch) {
                                   // Copies block anyway unless they were asked not to; a rank that waits for another would keep
                                   // it from its turn.
                                   if (launch.kind != Launch::Kind::compute || core::is_capturing(core::current_stream())) return;
                                   wait_for_operator(launch.name, launch.stream);
                                 }});
  } else {
    remove_launch_hook("blocking");
  }
}

void run_hooks_before(const Launch& launch) {
  std::shared_lock<std::shared_mutex> lock(hooks().mutex);
  for (const auto& [name, hook] : hooks().entries) {
    if (hook.before) hook.before(launch);
  }
}

void run_hooks_after(const Launch& launch) {
  std::shared_lock<std::shared_mutex> lock(hooks().mutex);
  for (const auto& [name, hook] : hooks().entries) {
    if (hook.after) hook.after(launch);
  }
}

}  // namespace torch_npu::op
