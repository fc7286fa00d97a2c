// Events, as clients call them.
#include "rt/graph/capture.h"
#include "rt/memory/check.h"
#include "rt/stream/event.h"
#include "rt/profile/collector.h"

using namespace softcann;

namespace {

constexpr uint32_t kEventFlags = ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE |
                                 ACL_EVENT_DEVICE_USE_ONLY | ACL_EVENT_EXTERNAL | ACL_EVENT_IPC;

aclError create(const char* entry, aclrtEvent* out, uint32_t flags) {
  SOFTCANN_REQUIRE(out, "event");
  SOFTCANN_CONTEXT(context, entry);
  if ((flags & ~kEventFlags) != 0) {
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s: flag %#x is not supported", entry, flags & ~kEventFlags);
  }
  if ((flags & ACL_EVENT_IPC) != 0 && (flags & ACL_EVENT_TIME_LINE) != 0) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: an event for other processes has no time line", entry);
  }
  if ((flags & ACL_EVENT_EXTERNAL) != 0 && (flags & (ACL_EVENT_IPC | ACL_EVENT_TIME_LINE)) != 0) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: an external event has no time line and is of one process", entry);
  }
  Event* event = Event::create(flags);
  if ((flags & ACL_EVENT_IPC) != 0 && (event->shared = new_ipc_event()) == nullptr) {
    event->release();
    return fail(ACL_ERROR_RT_NO_EVENT_RESOURCE, "%s: this process has too many events for other processes", entry);
  }
  *out = event->handle();
  if (check::on(check::kLeak)) check::note_made("event", *out);
  return ACL_SUCCESS;
}

// Takes back what aclrtRecordEvent did, in stream order, unless the event was recorded again since.
struct ResetTask : Task {
  Event* event;
  EventRecord* record;
};

// Work of a captured stream has no time at which it was done.
aclError refuse_captured(const Event* event, const char* entry) {
  if (__builtin_expect(!event->in_capture.load(std::memory_order_acquire), 1)) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_EVENT_CAPTURED, "%s: the event was last recorded on a stream that was being captured", entry);
}

aclError check_time(const char* which, Event* event, int64_t* ns) {
  if (!event->timed()) {
    return fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "the %s event was created without ACL_EVENT_TIME_LINE", which);
  }
  if (const aclError code = refuse_captured(event, which)) return code;
  switch (event->status()) {
    case Event::Status::kNeverRecorded:
      return fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "the %s event was never recorded", which);
    case Event::Status::kPending:
      return fail(ACL_ERROR_RT_EVENT_NOT_COMPLETE, "the %s event is not complete yet", which);
    case Event::Status::kDone:
      break;
  }
  return event->time(ns) ? ACL_SUCCESS : fail(ACL_ERROR_RT_EVENT_NOT_COMPLETE, "the %s event is not complete yet", which);
}

}  // namespace

#define EVENT_OR_RETURN(variable, handle)                          \
  aclError variable##_error = ACL_SUCCESS;                         \
  Event* variable = Event::from_handle(handle, &variable##_error); \
  if (variable == nullptr) return variable##_error

extern "C" {

aclError aclrtCreateEvent(aclrtEvent* event) {
  SOFTCANN_ENTRY(aclrtCreateEvent);
  return create("aclrtCreateEvent", event, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE);
}

aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag) {
  SOFTCANN_ENTRY(aclrtCreateEventWithFlag);
  return create("aclrtCreateEventWithFlag", event, flag);
}

aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flag) {
  SOFTCANN_ENTRY(aclrtCreateEventExWithFlag);
  const aclError code = create("aclrtCreateEventExWithFlag", event, flag);
  if (code != ACL_SUCCESS) return code;
  EVENT_OR_RETURN(made, *event);
  made->extended = true;
  return ACL_SUCCESS;
}

aclError aclrtDestroyEvent(aclrtEvent event) {
  SOFTCANN_ENTRY(aclrtDestroyEvent);
  EVENT_OR_RETURN(e, event);
  if (!e->end_life()) {
    return fail(ACL_ERROR_RT_INVALID_HANDLE, "aclrtDestroyEvent: event %p was destroyed by another thread", event);
  }
  if (check::on(check::kLeak)) check::note_gone(event);
  e->release();
  return ACL_SUCCESS;
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtRecordEvent);
  EVENT_OR_RETURN(e, event);
  STREAM_OR_RETURN(s, stream);
  return e->record(s);
}

aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtResetEvent);
  EVENT_OR_RETURN(e, event);
  STREAM_OR_RETURN(s, stream);
  if (e->external()) {
    e->submit_signal(s, Event::Signalling::lower);
    return ACL_SUCCESS;
  }
  SOFTCANN_NOT_CAPTURED(s, "aclrtResetEvent");
  EventRecord* record = e->take_latest();
  if (record == nullptr) return ACL_SUCCESS;
  auto* task = new ResetTask;
  task->name = "aclrtResetEvent";
  task->event = e;
  task->record = record;
  e->retain();
  task->run = [](Task* self, bool) {
    auto* reset = static_cast<ResetTask*>(self);
    bool current = false;
    {
      std::lock_guard<std::mutex> lock(reset->event->mutex);
      current = reset->event->latest == reset->record;
      if (current) reset->event->latest = nullptr;
    }
    if (current) reset->record->release();
    reset->record->release();
    reset->event->release();
    delete reset;
    return ACL_SUCCESS;
  };
  s->submit(task, 0);
  return ACL_SUCCESS;
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
  SOFTCANN_ENTRY(aclrtStreamWaitEvent);
  EVENT_OR_RETURN(e, event);
  STREAM_OR_RETURN(s, stream);
  return e->wait_on(s);
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
  SOFTCANN_ENTRY(aclrtSynchronizeEvent);
  const recorder::Call call;
  EVENT_OR_RETURN(e, event);
  if (const aclError code = refuse_captured(e, "aclrtSynchronizeEvent")) return code;
  e->wait_here(-1);
  return e->failure();
}

aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout) {
  SOFTCANN_ENTRY(aclrtSynchronizeEventWithTimeout);
  const recorder::Call call;
  EVENT_OR_RETURN(e, event);
  if (timeout < -1) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtSynchronizeEventWithTimeout: timeout %d; -1 is without limit", timeout);
  }
  if (const aclError code = refuse_captured(e, "aclrtSynchronizeEventWithTimeout")) return code;
  if (e->wait_here(timeout < 0 ? -1 : int64_t{timeout} * 1000000)) return e->failure();
  return fail(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "aclrtSynchronizeEventWithTimeout: the event did not complete within %d ms",
              timeout);
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
  SOFTCANN_ENTRY(aclrtQueryEventStatus);
  SOFTCANN_REQUIRE(status, "status");
  EVENT_OR_RETURN(e, event);
  if (const aclError code = refuse_captured(e, "aclrtQueryEventStatus")) return code;
  *status = e->status() == Event::Status::kDone ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
  return e->failure();
}

aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus* status) {
  SOFTCANN_ENTRY(aclrtQueryEvent);
  SOFTCANN_REQUIRE(status, "status");
  EVENT_OR_RETURN(e, event);
  if (const aclError code = refuse_captured(e, "aclrtQueryEvent")) return code;
  *status = e->status() == Event::Status::kPending ? ACL_EVENT_STATUS_NOT_READY : ACL_EVENT_STATUS_COMPLETE;
  return e->failure();
}

aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus* status) {
  SOFTCANN_ENTRY(aclrtQueryEventWaitStatus);
  SOFTCANN_REQUIRE(status, "status");
  EVENT_OR_RETURN(e, event);
  *status = e->waits.load(std::memory_order_acquire) == 0 ? ACL_EVENT_WAIT_STATUS_COMPLETE : ACL_EVENT_WAIT_STATUS_NOT_READY;
  return e->failure();
}

aclError aclrtEventElapsedTime(float* ms, aclrtEvent startEvent, aclrtEvent endEvent) {
  SOFTCANN_ENTRY(aclrtEventElapsedTime);
  SOFTCANN_REQUIRE(ms, "ms");
  EVENT_OR_RETURN(start, startEvent);
  EVENT_OR_RETURN(end, endEvent);
  int64_t from = 0, to = 0;
  if (const aclError code = check_time("start", start, &from)) return code;
  if (const aclError code = check_time("end", end, &to)) return code;
  if (to < from) {
    return fail(ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, "aclrtEventElapsedTime: the end event completed before the start event");
  }
  *ms = static_cast<float>(static_cast<double>(to - from) / 1e6);
  return ACL_SUCCESS;
}

aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t* timestamp) {
  SOFTCANN_ENTRY(aclrtEventGetTimestamp);
  SOFTCANN_REQUIRE(timestamp, "timestamp");
  EVENT_OR_RETURN(e, event);
  int64_t ns = 0;
  if (const aclError code = check_time("given", e, &ns)) return code;
  *timestamp = static_cast<uint64_t>(ns / 1000);  // CANN counts microseconds
  return ACL_SUCCESS;
}

aclError aclrtGetEventId(aclrtEvent event, uint32_t* eventId) {
  SOFTCANN_ENTRY(aclrtGetEventId);
  SOFTCANN_REQUIRE(eventId, "eventId");
  EVENT_OR_RETURN(e, event);
  *eventId = e->id;
  return ACL_SUCCESS;
}
}
