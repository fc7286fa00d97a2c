#include "rt/stream/state_callbacks.h"

#include <map>
#include <mutex>
#include <string>

#include "rt/base/error.h"

using namespace softcann;

namespace {

struct Callback {
  aclrtStreamStateCallback function;
  void* argument;
};

struct Callbacks {
  std::mutex mutex;
  std::map<std::string, Callback> by_name;
  std::atomic<bool> any{false};
};

Callbacks& callbacks() {
  static auto* all = new Callbacks;
  return *all;
}

}  // namespace

void softcann::tell_stream_state(aclrtStream stream, aclrtStreamState state) {
  Callbacks& all = callbacks();
  if (!all.any.load(std::memory_order_acquire)) return;
  std::unique_lock<std::mutex> lock(all.mutex);
  const auto now = all.by_name;  // one may change the list
  lock.unlock();
  for (const auto& [name, callback] : now) callback.function(stream, state, callback.argument);
}

extern "C" {

// A name has one callback; none ends it.
aclError aclrtRegStreamStateCallback(const char* regName, aclrtStreamStateCallback callback, void* args) {
  SOFTCANN_ENTRY(aclrtRegStreamStateCallback);
  SOFTCANN_REQUIRE(regName, "regName");
  Callbacks& all = callbacks();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (callback != nullptr) {
    all.by_name[regName] = {callback, args};
  } else if (all.by_name.erase(regName) == 0) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtRegStreamStateCallback: there is no callback '%s' to end", regName);
  }
  all.any.store(!all.by_name.empty(), std::memory_order_release);
  return ACL_SUCCESS;
}
}
