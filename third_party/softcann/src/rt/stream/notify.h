// What a notify is, in this process or shared with others.
#pragma once

#include <memory>
#include <mutex>

#include "rt/base/handles.h"
#include "rt/memory/ipc.h"

namespace softcann {

// Whether a notify is raised. Tasks keep the state, so that the notify can be destroyed while they are queued. Once it is shared,
// the flag lies in the table of the process that made it.
class NotifyState {
 public:
  NotifyState() = default;
  explicit NotifyState(IpcNotify* shared) : shared_(shared) {}
  ~NotifyState() {
    if (shared_ != nullptr) release_ipc(shared_);
  }
  NotifyState(const NotifyState&) = delete;
  NotifyState& operator=(const NotifyState&) = delete;

  void set(uint32_t value);
  // Lowers it; false where it was not raised.
  bool take();
  // Shares it; null when the table is full.
  IpcNotify* share();
  // Null where it is not.
  IpcNotify* shared();

 private:
  std::mutex mutex_;
  uint32_t own_ = 0;
  IpcNotify* shared_ = nullptr;
};

// What aclrtNotify stands for.
struct Notify : Handled {
  uint32_t id = 0;
  bool imported = false;

  // Null once it is destroyed.
  std::shared_ptr<NotifyState> state() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return state_;
  }
  void set_state(std::shared_ptr<NotifyState> state) {
    const std::lock_guard<std::mutex> lock(mutex_);
    state_.swap(state);  // what it had ends behind the lock
  }

 private:
  mutable std::mutex mutex_;  // another thread may destroy it meanwhile
  std::shared_ptr<NotifyState> state_;
};

// A new one, with its handle; the one that a handle is of, or null.
aclrtNotify make_notify(std::shared_ptr<NotifyState> state, bool imported);
Notify* find_notify(const void* handle);
// Its state, or null with the error recorded where another thread has destroyed it.
std::shared_ptr<NotifyState> state_of(const char* entry, const Notify* notify);

}  // namespace softcann
