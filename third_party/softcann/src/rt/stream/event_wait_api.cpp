// Waits for events with a limit, and events through which a graph meets work outside it.
#include <utility>

#include "rt/base/sync.h"
#include "rt/graph/capture.h"
#include "rt/process/exit.h"
#include "rt/stream/event.h"

using namespace softcann;

namespace {

struct LimitedWait : Task {
  Event* event;
  EventRecord* record;   // null: of an event that has none in this process
  uint64_t version = 0;  // then, of an event of several processes
  uint32_t seconds;
  int64_t deadline = 0;  // 0: it has not begun to wait
  Poll poll;

  ~LimitedWait() {
    if (record != nullptr) record->release();
    event->waits.fetch_sub(1, std::memory_order_release);
    event->release();
  }
  bool over() const {
    if (record != nullptr) return record->done();
    if (event->shared != nullptr) return event->shared->completed.load(std::memory_order_acquire) >= version;
    return event->signal.load(std::memory_order_acquire) != Event::kLowered;
  }
  aclError failure() const {
    if (record == nullptr || record->failure == nullptr) return ACL_SUCCESS;
    task_error("%s", record->failure->second.c_str());
    return record->failure->first;
  }
};

aclError wait_limited(Task* self, bool skip) {
  auto* task = static_cast<LimitedWait*>(self);
  aclError code = ACL_SUCCESS;
  if (!skip && !task->over()) {
    if (task->deadline == 0) task->deadline = now_ns() + int64_t{task->seconds} * 1'000'000'000;
    if (now_ns() < task->deadline) {
      task->poll.pause();
      return kUnfinished;
    }
    task_error("%s: the event was not complete within %u s", task->name, task->seconds);
    code = ACL_ERROR_RT_WAIT_TIMEOUT;
  } else if (!skip) {
    code = task->failure();
  }
  delete task;
  return code;
}

// In a graph a wait is an edge, which has no limit.
aclError wait_with_limit(const char* entry, Stream* stream, Event* event, uint32_t seconds) {
  if (seconds == 0 || stream->capture() != nullptr || event->in_capture.load(std::memory_order_acquire)) {
    return event->wait_on(stream);
  }
  EventRecord* record = event->take_latest();
  if (record == nullptr && event->shared == nullptr && !event->external()) return ACL_SUCCESS;  // never recorded
  auto* task = new LimitedWait;
  task->name = entry;
  task->event = event;
  task->record = record;
  if (event->shared != nullptr) task->version = event->shared->recorded.load(std::memory_order_acquire);
  task->seconds = seconds;
  task->run = &wait_limited;
  event->retain();
  event->waits.fetch_add(1, std::memory_order_relaxed);
  stream->submit(task, kNeverInline);
  return ACL_SUCCESS;
}

// Note [Records and waits that a graph shows]
// An execution of the graph records the event anew, or waits for the latest record, and which these are is settled when the
// client asks for the execution, as if it recorded or waited itself.
struct ShownRecord : Task {
  EventRecord* record;
};
struct ShownWait : Task {
  EventRecord* record;  // null: it was never recorded
};
struct Shown : RenewedTask {
  Event* event;
};

aclError complete_record(Task* self, bool skip) {
  auto* task = static_cast<ShownRecord*>(self);
  if (skip) {
    task->record->failure = std::make_unique<std::pair<aclError, std::string>>(
        ACL_ERROR_RT_MODEL_ABORT_NORMAL, "the event was recorded in a graph behind work that had failed");
  }
  task->record->complete();
  task->record->release();
  delete task;
  return ACL_SUCCESS;
}

// Unfinished now and then, as nobody wakes it when its stream is aborted.
aclError wait_for_record(Task* self, bool skip) {
  constexpr int64_t kLookNs = 1'000'000;
  auto* task = static_cast<ShownWait*>(self);
  aclError code = ACL_SUCCESS;
  if (task->record != nullptr) {
    if (!skip) {
      const WaitOutside outside;
      if (!task->record->wait(kLookNs)) return kUnfinished;
      if (task->record->failure != nullptr) {
        code = task->record->failure->first;
        task_error("%s", task->record->failure->second.c_str());
      }
    }
    task->record->release();
  }
  delete task;
  return code;
}

Task* renew_record(const RenewedTask& self) {
  auto* task = new ShownRecord;
  task->name = self.name;
  task->run = &complete_record;
  task->record = static_cast<const Shown&>(self).event->new_record(nullptr);
  return task;
}

Task* renew_wait(const RenewedTask& self) {
  auto* task = new ShownWait;
  task->name = self.name;
  task->run = &wait_for_record;
  task->record = static_cast<const Shown&>(self).event->take_latest();
  return task;
}

// Whether the event may be used that way, now and by what was done with it before.
aclError check_shown(const char* entry, Event* event, Stream* stream, std::shared_ptr<Graph>* graph) {
  if (!event->extended || event->flags != ACL_EVENT_SYNC) {
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "%s: an event that a graph shows is one of aclrtCreateEventExWithFlag with ACL_EVENT_SYNC alone", entry);
  }
  bool valid = false;
  *graph = Capture::graph_of(stream, &valid);
  if (*graph == nullptr) {
    return fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, "%s: stream %d is not being captured into a graph", entry, stream->id);
  }
  if ((*graph)->is_branch) {
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s: the branch of a conditional task shows no events", entry);
  }
  if (!(*graph)->show(event->id)) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: the graph records the event, or waits for it, already", entry);
  }
  return ACL_SUCCESS;
}

aclError submit_shown(const char* entry, Event* event, Stream* stream, Task* (*renew)(const RenewedTask&)) {
  std::shared_ptr<Graph> graph;
  if (const aclError code = check_shown(entry, event, stream, &graph)) return code;
  auto* task = new Shown;
  task->name = entry;
  task->event = event;
  task->renew = renew;
  task->discard = [](Task* self) {
    static_cast<Shown*>(self)->event->release();
    delete static_cast<Shown*>(self);
  };
  event->retain();
  stream->submit(task, kNeverInline);
  return ACL_SUCCESS;
}

// The first call settles which flag an event goes with.
aclError check_flag(const char* entry, std::atomic<int>* settled, uint32_t flag) {
  if (flag > 1) return fail(ACL_ERROR_INVALID_PARAM, "%s: flag %u; 0 and 1 (external) are possible", entry, flag);
  int before = Event::kUnsettled;
  const int wanted = flag == 0 ? Event::kPlain : Event::kShown;
  if (settled->compare_exchange_strong(before, wanted) || before == wanted) return ACL_SUCCESS;
  return fail(ACL_ERROR_INVALID_PARAM, "%s: flag %u, after calls for the same event with flag %u", entry, flag, 1 - flag);
}

}  // namespace

#define EVENT_TO_WAIT_OR_RETURN(variable, handle)                  \
  aclError variable##_error = ACL_SUCCESS;                         \
  Event* variable = Event::from_handle(handle, &variable##_error); \
  if (variable == nullptr) return variable##_error

extern "C" {

aclError aclrtStreamWaitEventWithTimeout(aclrtStream stream, aclrtEvent event, int32_t timeout) {
  SOFTCANN_ENTRY(aclrtStreamWaitEventWithTimeout);
  EVENT_TO_WAIT_OR_RETURN(e, event);
  STREAM_OR_RETURN(s, stream);
  if (timeout < 0) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtStreamWaitEventWithTimeout: timeout %d; seconds, or 0, without limit", timeout);
  }
  return wait_with_limit("aclrtStreamWaitEventWithTimeout", s, e, static_cast<uint32_t>(timeout));
}

aclError aclrtStreamWaitEventWithFlag(aclrtStream stream, aclrtEvent event, uint32_t timeout, uint32_t flag) {
  SOFTCANN_ENTRY(aclrtStreamWaitEventWithFlag);
  EVENT_TO_WAIT_OR_RETURN(e, event);
  STREAM_OR_RETURN(s, stream);
  if (const aclError code = check_flag("aclrtStreamWaitEventWithFlag", &e->waited_with, flag)) return code;
  if (flag == ACL_EVENT_WAIT_DEFAULT) return wait_with_limit("aclrtStreamWaitEventWithFlag", s, e, timeout);
  if (timeout != 0) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtStreamWaitEventWithFlag: timeout %u; a graph waits without limit, 0", timeout);
  }
  return submit_shown("aclrtStreamWaitEventWithFlag", e, s, &renew_wait);
}

aclError aclrtRecordEventWithFlag(aclrtEvent event, aclrtStream stream, uint32_t flag) {
  SOFTCANN_ENTRY(aclrtRecordEventWithFlag);
  EVENT_TO_WAIT_OR_RETURN(e, event);
  STREAM_OR_RETURN(s, stream);
  if (const aclError code = check_flag("aclrtRecordEventWithFlag", &e->recorded_with, flag)) return code;
  if (flag == ACL_EVENT_RECORD_DEFAULT) return e->record(s);
  return submit_shown("aclrtRecordEventWithFlag", e, s, &renew_record);
}
}
