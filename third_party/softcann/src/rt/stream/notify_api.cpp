// Notifies: flags that a stream raises and another waits for and lowers.
#include "rt/base/sync.h"
#include "rt/memory/check.h"
#include "rt/process/exit.h"
#include "rt/stream/notify.h"
#include "rt/stream/stream.h"

using namespace softcann;

namespace {

struct NotifyPool {
  std::mutex mutex;
  HandleBlocks<Notify> notifies;
  uint32_t next_id = 0;
};

NotifyPool& notify_pool() {
  static auto* instance = new NotifyPool;
  return *instance;
}

struct NotifyTask : Task {
  std::shared_ptr<NotifyState> state;
  int64_t timeout_ns = -1;
  int64_t deadline = 0;  // 0: it has not begun to wait
  Poll poll;

  NotifyTask(const char* entry, std::shared_ptr<NotifyState> of) : state(std::move(of)) {
    name = entry;
    discard = [](Task* self) { delete static_cast<NotifyTask*>(self); };
  }
};

// Whether the wait is over: *code is its result.
bool wait_ends(NotifyTask* task, aclError* code) {
  *code = ACL_SUCCESS;
  if (task->state->take()) return true;
  if (task->timeout_ns >= 0) {
    if (task->deadline == 0) task->deadline = now_ns() + task->timeout_ns;
    if (now_ns() >= task->deadline) {
      task_error("aclrtWaitAndResetNotify: nobody raised the notify within %lld s",
                 static_cast<long long>(task->timeout_ns / 1'000'000'000));
      *code = ACL_ERROR_RT_WAIT_TIMEOUT;
      return true;
    }
  }
  task->poll.pause();
  return false;
}

aclError wait_for_notify(Task* self, bool skip) {
  auto* task = static_cast<NotifyTask*>(self);
  aclError code = ACL_SUCCESS;
  if (!skip && !wait_ends(task, &code)) return kUnfinished;
  delete task;
  return code;
}

// As a node of a graph, whose execution is one task of the stream.
aclError wait_for_notify_in_graph(Task* self, bool skip) {
  auto* task = static_cast<NotifyTask*>(self);
  task->deadline = 0;
  aclError code = ACL_SUCCESS;
  while (!skip && !Stream::drops_this_task() && !wait_ends(task, &code)) {
  }
  task->poll.end();
  return code;
}

aclError raise_notify(Task* self, bool skip) {
  if (!skip) static_cast<NotifyTask*>(self)->state->set(1);
  return ACL_SUCCESS;
}

aclError launch_notify(aclrtStream stream, NotifyTask* task, uint32_t cost_ns) {
  const aclError code = submit(stream, task, cost_ns);
  if (code != ACL_SUCCESS) delete task;
  return code;
}

}  // namespace

namespace softcann {

void NotifyState::set(uint32_t value) {
  const std::lock_guard<std::mutex> lock(mutex_);
  shared_ != nullptr ? shared_->raised.store(value, std::memory_order_release) : void(own_ = value);
}

bool NotifyState::take() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (shared_ == nullptr) return std::exchange(own_, 0) != 0;
  uint32_t one = 1;
  return shared_->raised.compare_exchange_strong(one, 0, std::memory_order_acq_rel);
}

IpcNotify* NotifyState::share() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (shared_ == nullptr && (shared_ = new_ipc_notify()) != nullptr) shared_->raised.store(own_, std::memory_order_release);
  return shared_;
}

IpcNotify* NotifyState::shared() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return shared_;
}

aclrtNotify make_notify(std::shared_ptr<NotifyState> state, bool imported) {
  NotifyPool& pool = notify_pool();
  const std::lock_guard<std::mutex> lock(pool.mutex);
  Notify* made = pool.notifies.add();
  made->id = pool.next_id++;
  made->imported = imported;
  made->set_state(std::move(state));
  const aclrtNotify handle = made->begin_life();
  if (check::on(check::kLeak)) check::note_made("notify", handle);
  return handle;
}

Notify* find_notify(const void* handle) { return notify_pool().notifies.find(handle); }

std::shared_ptr<NotifyState> state_of(const char* entry, const Notify* notify) {
  auto state = notify->state();
  if (state == nullptr) fail(ACL_ERROR_RT_INVALID_HANDLE, "%s: another thread has destroyed the notify", entry);
  return state;
}

}  // namespace softcann

#define NOTIFY_OR_RETURN(variable, entry, handle) ALIVE_OR_RETURN(variable, notify_pool().notifies, entry, "notify", handle)

extern "C" {

aclError aclrtCreateNotify(aclrtNotify* notify, uint64_t flag) {
  SOFTCANN_ENTRY(aclrtCreateNotify);
  SOFTCANN_REQUIRE(notify, "notify");
  SOFTCANN_CONTEXT(context, "aclrtCreateNotify");
  if (flag != 0) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtCreateNotify: flag %llu; 0 is the only one",
                static_cast<unsigned long long>(flag));
  }
  *notify = make_notify(std::make_shared<NotifyState>(), false);
  return ACL_SUCCESS;
}

aclError aclrtDestroyNotify(aclrtNotify notify) {
  SOFTCANN_ENTRY(aclrtDestroyNotify);
  NOTIFY_OR_RETURN(n, "aclrtDestroyNotify", notify);
  if (!n->end_life()) return fail(ACL_ERROR_RT_INVALID_HANDLE, "aclrtDestroyNotify: another thread destroyed %p", notify);
  n->set_state(nullptr);  // the entry that others share is free once none of them has it
  if (check::on(check::kLeak)) check::note_gone(notify);
  return ACL_SUCCESS;
}

aclError aclrtGetNotifyId(aclrtNotify notify, uint32_t* notifyId) {
  SOFTCANN_ENTRY(aclrtGetNotifyId);
  SOFTCANN_REQUIRE(notifyId, "notifyId");
  NOTIFY_OR_RETURN(n, "aclrtGetNotifyId", notify);
  *notifyId = n->id;
  return ACL_SUCCESS;
}

aclError aclrtRecordNotify(aclrtNotify notify, aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtRecordNotify);
  NOTIFY_OR_RETURN(n, "aclrtRecordNotify", notify);
  auto state = state_of("aclrtRecordNotify", n);
  if (state == nullptr) return ACL_ERROR_RT_INVALID_HANDLE;
  auto* task = new NotifyTask("aclrtRecordNotify", std::move(state));
  task->run = run_once;
  task->repeat = raise_notify;
  return launch_notify(stream, task, 100);
}

aclError aclrtWaitAndResetNotify(aclrtNotify notify, aclrtStream stream, uint32_t timeout) {
  SOFTCANN_ENTRY(aclrtWaitAndResetNotify);
  NOTIFY_OR_RETURN(n, "aclrtWaitAndResetNotify", notify);
  auto state = state_of("aclrtWaitAndResetNotify", n);
  if (state == nullptr) return ACL_ERROR_RT_INVALID_HANDLE;
  auto* task = new NotifyTask("aclrtWaitAndResetNotify", std::move(state));
  if (timeout != 0) task->timeout_ns = int64_t{timeout} * 1'000'000'000;
  task->run = wait_for_notify;
  task->repeat = wait_for_notify_in_graph;
  return launch_notify(stream, task, kNeverInline);
}

aclError aclrtNotifyBatchReset(aclrtNotify* notifies, size_t num) {
  SOFTCANN_ENTRY(aclrtNotifyBatchReset);
  SOFTCANN_REQUIRE(notifies, "notifies");
  for (size_t i = 0; i < num; ++i) {
    NOTIFY_OR_RETURN(n, "aclrtNotifyBatchReset", notifies[i]);
    const auto state = state_of("aclrtNotifyBatchReset", n);
    if (state == nullptr) return ACL_ERROR_RT_INVALID_HANDLE;
    state->set(0);
  }
  return ACL_SUCCESS;
}
}
