#include "rt/process/init_callbacks.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <vector>

#include "rt/base/error.h"

using namespace softcann;

namespace {

template <class Function>
struct Registration {
  aclRegisterCallbackType type;
  Function function;
  void* user_data;
};

// In the order in which they came. Functions run without the lock: one may register another.
struct InitCallbacks {
  std::mutex mutex;
  std::vector<Registration<aclInitCallbackFunc>> at_init;
  std::vector<Registration<aclFinalizeCallbackFunc>> at_finalize;
  std::optional<std::string> config;  // of aclInit, between it and aclFinalize
};

InitCallbacks& init_callbacks() {
  static auto* instance = new InitCallbacks;
  return *instance;
}

bool is_type(aclRegisterCallbackType type) {
  return (type >= ACL_REG_TYPE_ACL_MODEL && type <= ACL_REG_TYPE_ACL_RETR) || type == ACL_REG_TYPE_OTHER;
}

// Parts of CANN have one each; of ACL_REG_TYPE_OTHER there may be many. *config: that of aclInit, where it came before.
template <class Function>
aclError add(const char* entry, std::vector<Registration<Function>>* all, aclRegisterCallbackType type, Function function,
             void* user_data, std::optional<std::string>* config = nullptr) {
  SOFTCANN_REQUIRE(function, "cbFunc");
  if (!is_type(type)) return fail(ACL_ERROR_INVALID_PARAM, "%s: type %d does not exist", entry, static_cast<int>(type));
  const std::lock_guard<std::mutex> lock(init_callbacks().mutex);
  const auto same = [&](const auto& one) { return one.type == type && type != ACL_REG_TYPE_OTHER; };
  if (std::any_of(all->begin(), all->end(), same)) {
    return fail(ACL_ERROR_INTERNAL_ERROR, "%s: type %d has its function already", entry, static_cast<int>(type));
  }
  all->push_back({type, function, user_data});
  if (config != nullptr) *config = init_callbacks().config;
  return ACL_SUCCESS;
}

template <class Function>
aclError take_out(const char* entry, std::vector<Registration<Function>>* all, aclRegisterCallbackType type, Function function) {
  SOFTCANN_REQUIRE(function, "cbFunc");
  const std::lock_guard<std::mutex> lock(init_callbacks().mutex);
  const auto same = [&](const auto& one) { return one.type == type && one.function == function; };
  if (std::erase_if(*all, same) != 0) return ACL_SUCCESS;
  return fail(ACL_ERROR_INVALID_PARAM, "%s: type %d has no such function", entry, static_cast<int>(type));
}

}  // namespace

namespace softcann {

aclError tell_init(const std::string& config) {
  std::unique_lock<std::mutex> lock(init_callbacks().mutex);
  init_callbacks().config = config;
  const auto now = init_callbacks().at_init;
  lock.unlock();
  for (const auto& one : now) {
    if (const aclError code = one.function(config.c_str(), config.size(), one.user_data)) {
      return fail(code, "aclInit: the function of type %d that was registered for it gave %d", static_cast<int>(one.type), code);
    }
  }
  return ACL_SUCCESS;
}

void forget_init() {
  const std::lock_guard<std::mutex> lock(init_callbacks().mutex);
  init_callbacks().config.reset();
}

aclError tell_finalize() {
  std::unique_lock<std::mutex> lock(init_callbacks().mutex);
  const auto now = init_callbacks().at_finalize;
  lock.unlock();
  aclError first = ACL_SUCCESS;
  for (const auto& one : now) {
    const aclError code = one.function(one.user_data);
    if (first == ACL_SUCCESS && code != ACL_SUCCESS) {
      first =
          fail(code, "aclFinalize: the function of type %d that was registered for it gave %d", static_cast<int>(one.type), code);
    }
  }
  return first;
}

}  // namespace softcann

extern "C" {

aclError aclInitCallbackRegister(aclRegisterCallbackType type, aclInitCallbackFunc cbFunc, void* userData) {
  SOFTCANN_ENTRY(aclInitCallbackRegister);
  std::optional<std::string> config;
  if (const aclError code = add("aclInitCallbackRegister", &init_callbacks().at_init, type, cbFunc, userData, &config))
    return code;
  // Its code has nobody to go to: aclInit has returned.
  if (config.has_value()) (void)cbFunc(config->c_str(), config->size(), userData);
  return ACL_SUCCESS;
}

aclError aclInitCallbackUnRegister(aclRegisterCallbackType type, aclInitCallbackFunc cbFunc) {
  SOFTCANN_ENTRY(aclInitCallbackUnRegister);
  return take_out("aclInitCallbackUnRegister", &init_callbacks().at_init, type, cbFunc);
}

aclError aclFinalizeCallbackRegister(aclRegisterCallbackType type, aclFinalizeCallbackFunc cbFunc, void* userData) {
  SOFTCANN_ENTRY(aclFinalizeCallbackRegister);
  return add("aclFinalizeCallbackRegister", &init_callbacks().at_finalize, type, cbFunc, userData);
}

aclError aclFinalizeCallbackUnRegister(aclRegisterCallbackType type, aclFinalizeCallbackFunc cbFunc) {
  SOFTCANN_ENTRY(aclFinalizeCallbackUnRegister);
  return take_out("aclFinalizeCallbackUnRegister", &init_callbacks().at_finalize, type, cbFunc);
}
}
