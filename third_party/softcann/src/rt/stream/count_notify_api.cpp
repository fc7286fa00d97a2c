// Counting notifies: numbers that streams change, and for which others wait.
#include <atomic>
#include <memory>
#include <mutex>

#include "rt/base/handles.h"
#include "rt/base/sync.h"
#include "rt/memory/check.h"
#include "rt/process/exit.h"
#include "rt/stream/stream.h"

using namespace softcann;

namespace {

// What aclrtCntNotify stands for. Tasks keep the number, so that the notify can be destroyed while they are queued.
struct CountNotify : Handled {
  uint32_t id = 0;
  std::shared_ptr<std::atomic<uint32_t>> count;
};

struct CountNotifyPool {
  std::mutex mutex;
  HandleBlocks<CountNotify> notifies;
  uint32_t next_id = 0;
};

CountNotifyPool& count_notify_pool() {
  static auto* instance = new CountNotifyPool;
  return *instance;
}

struct CountTask : Task {
  std::shared_ptr<std::atomic<uint32_t>> count;
  aclrtCntNotifyRecordInfo change{};
  aclrtCntNotifyWaitInfo wait{};
  int64_t deadline = 0;  // 0: it has not begun to wait
  Poll poll;

  CountTask(const char* entry, const CountNotify* notify) : count(notify->count) {
    name = entry;
    discard = [](Task* self) { delete static_cast<CountTask*>(self); };
  }
};

aclError change(Task* self, bool skip) {
  const auto* task = static_cast<CountTask*>(self);
  if (skip) return ACL_SUCCESS;
  const uint32_t value = task->change.value;
  switch (task->change.mode) {
    case ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE:
      task->count->store(value, std::memory_order_release);
      break;
    case ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE:
      task->count->fetch_add(value, std::memory_order_acq_rel);
      break;
    case ACL_RT_CNT_NOTIFY_RECORD_BIT_OR_MODE:
      task->count->fetch_or(value, std::memory_order_acq_rel);
      break;
    case ACL_RT_CNT_NOTIFY_RECORD_BIT_AND_MODE:
      task->count->fetch_and(value, std::memory_order_acq_rel);
      break;
  }
  return ACL_SUCCESS;
}

bool reached(uint32_t count, const aclrtCntNotifyWaitInfo& info) {
  switch (info.mode) {
    case ACL_RT_CNT_NOTIFY_WAIT_LESS_MODE:
      return count < info.value;
    case ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE:
      return count == info.value;
    case ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE:
      return count > info.value;
    case ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE:
      return count >= info.value;
    case ACL_RT_CNT_NOTIFY_WAIT_EQUAL_WITH_BITMASK_MODE:
      return (count & info.value) == info.value;
  }
  return false;
}

// Whether the wait is over: *code is its result.
bool count_wait_ends(CountTask* task, aclError* code) {
  *code = ACL_SUCCESS;
  uint32_t count = task->count->load(std::memory_order_acquire);
  while (reached(count, task->wait)) {
    if (task->wait.isClear == 0 || task->count->compare_exchange_weak(count, 0, std::memory_order_acq_rel)) return true;
  }
  if (task->wait.timeout != 0) {
    if (task->deadline == 0) task->deadline = now_ns() + int64_t{task->wait.timeout} * 1'000'000'000;
    if (now_ns() >= task->deadline) {
      task_error("aclrtCntNotifyWaitWithTimeout: the count is %u, and was not what is waited for within %u s", count,
                 task->wait.timeout);
      *code = ACL_ERROR_RT_WAIT_TIMEOUT;
      return true;
    }
  }
  task->poll.pause();
  return false;
}

aclError wait_for_count(Task* self, bool skip) {
  auto* task = static_cast<CountTask*>(self);
  aclError code = ACL_SUCCESS;
  if (!skip && !count_wait_ends(task, &code)) return kUnfinished;
  delete task;
  return code;
}

// As a node of a graph, whose execution is one task of the stream.
aclError wait_for_count_in_graph(Task* self, bool skip) {
  auto* task = static_cast<CountTask*>(self);
  task->deadline = 0;
  aclError code = ACL_SUCCESS;
  while (!skip && !Stream::drops_this_task() && !count_wait_ends(task, &code)) {
  }
  task->poll.end();
  return code;
}

aclError launch_count(aclrtStream stream, CountTask* task, uint32_t cost_ns) {
  const aclError code = submit(stream, task, cost_ns);
  if (code != ACL_SUCCESS) delete task;
  return code;
}

aclError launch_change(const char* entry, const CountNotify* notify, aclrtStream stream, aclrtCntNotifyRecordInfo info) {
  auto* task = new CountTask(entry, notify);
  task->change = info;
  task->run = run_once;
  task->repeat = change;
  return launch_count(stream, task, 100);
}

}  // namespace

#define COUNT_NOTIFY_OR_RETURN(variable, entry, handle) \
  ALIVE_OR_RETURN(variable, count_notify_pool().notifies, entry, "counting notify", handle)

extern "C" {

aclError aclrtCntNotifyCreate(aclrtCntNotify* cntNotify, uint64_t flag) {
  SOFTCANN_ENTRY(aclrtCntNotifyCreate);
  SOFTCANN_REQUIRE(cntNotify, "cntNotify");
  SOFTCANN_CONTEXT(context, "aclrtCntNotifyCreate");
  if (flag != 0) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtCntNotifyCreate: flag %llu; 0 is the only one",
                static_cast<unsigned long long>(flag));
  }
  CountNotifyPool& pool = count_notify_pool();
  const std::lock_guard<std::mutex> lock(pool.mutex);
  CountNotify* made = pool.notifies.add();
  made->id = pool.next_id++;
  made->count = std::make_shared<std::atomic<uint32_t>>(0);
  *cntNotify = made->begin_life();
  if (check::on(check::kLeak)) check::note_made("counting notify", *cntNotify);
  return ACL_SUCCESS;
}

aclError aclrtCntNotifyDestroy(aclrtCntNotify cntNotify) {
  SOFTCANN_ENTRY(aclrtCntNotifyDestroy);
  COUNT_NOTIFY_OR_RETURN(n, "aclrtCntNotifyDestroy", cntNotify);
  if (!n->end_life()) {
    return fail(ACL_ERROR_RT_INVALID_HANDLE, "aclrtCntNotifyDestroy: another thread destroyed %p", cntNotify);
  }
  if (check::on(check::kLeak)) check::note_gone(cntNotify);
  return ACL_SUCCESS;
}

aclError aclrtCntNotifyGetId(aclrtCntNotify cntNotify, uint32_t* notifyId) {
  SOFTCANN_ENTRY(aclrtCntNotifyGetId);
  SOFTCANN_REQUIRE(notifyId, "notifyId");
  COUNT_NOTIFY_OR_RETURN(n, "aclrtCntNotifyGetId", cntNotify);
  *notifyId = n->id;
  return ACL_SUCCESS;
}

aclError aclrtCntNotifyRecord(aclrtCntNotify cntNotify, aclrtStream stream, aclrtCntNotifyRecordInfo* info) {
  SOFTCANN_ENTRY(aclrtCntNotifyRecord);
  SOFTCANN_REQUIRE(info, "info");
  COUNT_NOTIFY_OR_RETURN(n, "aclrtCntNotifyRecord", cntNotify);
  switch (info->mode) {
    case ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE:
    case ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE:
    case ACL_RT_CNT_NOTIFY_RECORD_BIT_OR_MODE:
    case ACL_RT_CNT_NOTIFY_RECORD_BIT_AND_MODE:
      return launch_change("aclrtCntNotifyRecord", n, stream, *info);
  }
  return fail(ACL_ERROR_INVALID_PARAM, "aclrtCntNotifyRecord: mode %d is not known", static_cast<int>(info->mode));
}

aclError aclrtCntNotifyReset(aclrtCntNotify cntNotify, aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtCntNotifyReset);
  COUNT_NOTIFY_OR_RETURN(n, "aclrtCntNotifyReset", cntNotify);
  return launch_change("aclrtCntNotifyReset", n, stream, {ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, 0});
}

aclError aclrtCntNotifyWaitWithTimeout(aclrtCntNotify cntNotify, aclrtStream stream, aclrtCntNotifyWaitInfo* info) {
  SOFTCANN_ENTRY(aclrtCntNotifyWaitWithTimeout);
  SOFTCANN_REQUIRE(info, "info");
  COUNT_NOTIFY_OR_RETURN(n, "aclrtCntNotifyWaitWithTimeout", cntNotify);
  if (info->mode < ACL_RT_CNT_NOTIFY_WAIT_LESS_MODE || info->mode > ACL_RT_CNT_NOTIFY_WAIT_EQUAL_WITH_BITMASK_MODE ||
      info->isClear > 1) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtCntNotifyWaitWithTimeout: mode %d or isClear %u is not known",
                static_cast<int>(info->mode), info->isClear);
  }
  auto* task = new CountTask("aclrtCntNotifyWaitWithTimeout", n);
  task->wait = *info;
  task->run = wait_for_count;
  task->repeat = wait_for_count_in_graph;
  return launch_count(stream, task, kNeverInline);
}
}
