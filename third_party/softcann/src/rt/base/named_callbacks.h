// Functions of clients, by the names under which they are registered.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>

#include "rt/base/error.h"

namespace softcann {

template <class Function>
class NamedCallbacks {
 public:
  // A name has one; null ends it.
  aclError set(const char* entry, const char* name, Function function, void* argument) {
    if (name == nullptr || *name == 0) return fail(ACL_ERROR_INVALID_PARAM, "%s: regName is empty", entry);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (function != nullptr) {
      by_name_[name] = {function, argument};
    } else if (by_name_.erase(name) == 0) {
      return fail(ACL_ERROR_INVALID_PARAM, "%s: there is no callback '%s' to end", entry, name);
    }
    any_.store(!by_name_.empty(), std::memory_order_release);
    return ACL_SUCCESS;
  }

  // call(function, argument) for each, in the order of the names, without a lock: one may change the list.
  template <class Call>
  void each(Call&& call) {
    if (!any_.load(std::memory_order_acquire)) return;
    std::unique_lock<std::mutex> lock(mutex_);
    const auto now = by_name_;
    lock.unlock();
    for (const auto& [name, one] : now) call(one.function, one.argument);
  }

 private:
  struct Entry {
    Function function;
    void* argument;
  };
  std::mutex mutex_;
  std::map<std::string, Entry> by_name_;
  std::atomic<bool> any_{false};
};

}  // namespace softcann
