#include "rt/stream/event.h"

#include <utility>
#include <vector>

#include "rt/graph/capture.h"
#include "rt/process/exit.h"

namespace softcann {
namespace {

struct EventPool {
  std::mutex mutex;
  HandleBlocks<Event> events;
  std::vector<Event*> unused;
  uint32_t next_id = 0;
};

EventPool& event_pool() {
  static auto* instance = new EventPool;
  return *instance;
}

}  // namespace

EventRecord* EventRecord::create() {
  auto* record = new EventRecord;
  record->run = [](Task* self, bool) {
    auto* me = static_cast<EventRecord*>(self);
    Stream* stream = me->stream;
    if (__builtin_expect(stream->stops_on_failure() && stream->error() != ACL_SUCCESS, 0)) me->failure = stream->failure();
    const uint64_t announced = stream->announce();
    me->complete();
    me->release();
    return stream->finish(announced);
  };
  record->name = "aclrtRecordEvent";
  return record;
}

void EventRecord::release() {
  if (references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

void EventRecord::complete() {
  if (timed || shared != nullptr) time_ns = now_ns();
  WaitTask* first = nullptr;
  uint32_t before = kPending;
  {
    std::lock_guard<std::mutex> lock(mutex);
    before = state.exchange(kDone, std::memory_order_acq_rel);
    first = std::exchange(waiters, nullptr);
  }
  if (before == kPendingWithSleepers) futex_wake_all(&state);
  if (shared != nullptr) {
    shared->complete(version, time_ns);
    release_ipc(shared);
  }
  while (first != nullptr) {
    WaitTask* waiter = first;
    first = waiter->next_waiter;
    Stream* parked = waiter->stream;
    if (__builtin_expect(failure != nullptr, 0)) parked->set_error(failure->first, waiter->name, failure->second);
    waiter->finish();
    parked->resume();
  }
}

bool EventRecord::park(WaitTask* waiter) {
  std::lock_guard<std::mutex> lock(mutex);
  if (done()) return false;
  waiter->next_waiter = waiters;
  waiters = waiter;
  return true;
}

bool EventRecord::wait(int64_t timeout_ns) {
  const int64_t deadline = timeout_ns < 0 ? INT64_MAX : now_ns() + timeout_ns;
  for (;;) {
    const int64_t spin = static_cast<int64_t>(options().spin_us) * 1000;
    if (spin_until([this] { return done(); }, timeout_ns < 0 ? spin : std::min(spin, timeout_ns))) return true;
    const int64_t left = deadline == INT64_MAX ? -1 : deadline - now_ns();
    if (deadline != INT64_MAX && left <= 0) return done();
    uint32_t pending = kPending;
    if (!state.compare_exchange_strong(pending, kPendingWithSleepers, std::memory_order_acq_rel) && pending == kDone) {
      return true;
    }
    futex_wait(&state, kPendingWithSleepers, left);
  }
}

WaitTask* WaitTask::create(Event* event, Stream* stream, EventRecord* record) {
  auto* task = new WaitTask;
  task->record = record;
  task->stream = stream;
  task->event = event;
  task->name = "aclrtStreamWaitEvent";
  task->run = [](Task* self, bool) {
    auto* me = static_cast<WaitTask*>(self);
    if (me->record == nullptr) {
      const WaitOutside outside;
      me->event->shared->wait(me->version, -1);
    } else if (me->record->park(me)) {
      return kParked;  // EventRecord::complete() finishes this task; it may be gone already
    }
    aclError code = ACL_SUCCESS;
    if (me->record != nullptr && __builtin_expect(me->record->failure != nullptr, 0)) {
      code = me->record->failure->first;
      task_error("%s", me->record->failure->second.c_str());
    }
    me->finish();
    return code;
  };
  event->waits.fetch_add(1, std::memory_order_relaxed);
  event->retain();
  return task;
}

void WaitTask::finish() {
  event->waits.fetch_sub(1, std::memory_order_release);
  event->release();
  if (record != nullptr) record->release();
  delete this;
}

Event* Event::create(uint32_t flags) {
  Event* event = nullptr;
  std::lock_guard<std::mutex> lock(event_pool().mutex);
  if (event_pool().unused.empty()) {
    event = event_pool().events.add();
  } else {
    event = event_pool().unused.back();
    event_pool().unused.pop_back();
  }
  event->flags = flags;
  event->id = event_pool().next_id++;
  event->references.store(1, std::memory_order_relaxed);
  event->begin_life();
  return event;
}

Event* Event::from_handle(aclrtEvent handle, aclError* error) {
  if (handle == nullptr) {
    *error = fail(ACL_ERROR_INVALID_PARAM, "the event is a null pointer");
    return nullptr;
  }
  Event* event = event_pool().events.find(handle);
  if (event == nullptr) {
    *error = fail(ACL_ERROR_RT_INVALID_HANDLE, "event %p does not exist (destroyed, or never created)", handle);
    return nullptr;
  }
  return event;
}

void Event::release() {
  if (references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (EventRecord* last = std::exchange(latest, nullptr)) last->release();
  if (IpcEvent* state = std::exchange(shared, nullptr)) release_ipc(state);
  imported = extended = false;
  recorded_with.store(kUnsettled, std::memory_order_relaxed);
  waited_with.store(kUnsettled, std::memory_order_relaxed);
  in_capture.store(false, std::memory_order_relaxed);
  captured.reset();
  signal.store(kLowered, std::memory_order_relaxed);
  std::lock_guard<std::mutex> lock(event_pool().mutex);
  event_pool().unused.push_back(this);
}

EventRecord* Event::take_latest() {
  std::lock_guard<std::mutex> lock(mutex);
  if (latest != nullptr) latest->retain();
  return latest;
}

EventRecord* Event::new_record(Stream* stream) {
  EventRecord* record = EventRecord::create();
  record->stream = stream;
  record->timed = timed();
  record->references.store(2, std::memory_order_relaxed);  // the task and `latest`
  EventRecord* before = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (__builtin_expect(in_capture.exchange(false, std::memory_order_relaxed), 0)) captured.reset();
    before = std::exchange(latest, record);
    if (shared != nullptr) {
      record->shared = shared;
      retain_ipc(shared);  // the entry stays this event's until the record is complete
      record->version = shared->recorded.fetch_add(1, std::memory_order_acq_rel) + 1;
    }
  }
  if (before != nullptr) before->release();
  return record;
}

namespace {

struct SignalTask : Task {
  Event* event;
  Event::Signalling what;
};

void wait_for_signal(Event* event) {
  const WaitOutside outside;
  event->waits.fetch_add(1, std::memory_order_relaxed);
  while (event->signal.load(std::memory_order_acquire) == Event::kLowered) futex_wait(&event->signal, Event::kLowered, -1);
  event->waits.fetch_sub(1, std::memory_order_release);
}

aclError run_signal(Task* self, bool skip) {
  auto* task = static_cast<SignalTask*>(self);
  Event* event = task->event;
  switch (task->what) {
    case Event::Signalling::raise:
      event->signal.store(skip ? Event::kFailed : Event::kRaised, std::memory_order_release);
      futex_wake_all(&event->signal);
      break;
    case Event::Signalling::lower:
      event->signal.store(Event::kLowered, std::memory_order_release);
      break;
    case Event::Signalling::wait:
      if (skip) break;
      wait_for_signal(event);
      if (event->signal.load(std::memory_order_acquire) != Event::kFailed) break;
      task_error("the external event waited for was recorded behind work that had failed");
      return ACL_ERROR_RT_MODEL_ABORT_NORMAL;
  }
  return ACL_SUCCESS;
}

}  // namespace

void Event::submit_signal(Stream* stream, Signalling what) {
  auto* task = new SignalTask;
  task->event = this;
  task->what = what;
  task->name = what == Signalling::raise  ? "aclrtRecordEvent"
               : what == Signalling::wait ? "aclrtStreamWaitEvent"
                                          : "aclrtResetEvent";
  task->repeat = &run_signal;
  task->discard = [](Task* self) {
    static_cast<SignalTask*>(self)->event->release();
    delete static_cast<SignalTask*>(self);
  };
  task->run = &run_once;
  retain();
  stream->submit(task, what == Signalling::wait ? kNeverInline : 0);
}

aclError Event::record(Stream* stream) {
  if (__builtin_expect(external(), 0)) {
    submit_signal(stream, Signalling::raise);
    return ACL_SUCCESS;
  }
  if (Capture* capture = stream->capture(); __builtin_expect(capture != nullptr, 0)) {
    if (shared != nullptr) return refuse_in_capture(stream, "recording an event of several processes");
    auto point = std::make_shared<CapturedPoint>();
    point->capture = capture->weak_from_this();
    point->clock = Capture::now(stream);
    std::lock_guard<std::mutex> lock(mutex);
    captured = std::move(point);
    in_capture.store(true, std::memory_order_release);
    return ACL_SUCCESS;
  }
  EventRecord* record = new_record(stream);
  stream->submit(record, 0);
  return ACL_SUCCESS;
}

aclError Event::wait_on(Stream* stream) {
  if (__builtin_expect(external(), 0)) {
    submit_signal(stream, Signalling::wait);
    return ACL_SUCCESS;
  }
  if (__builtin_expect(in_capture.load(std::memory_order_acquire), 0)) {
    std::unique_lock<std::mutex> lock(mutex);
    const auto point = captured;
    lock.unlock();
    if (const auto capture = point->capture.lock()) return capture->join(stream, point->clock);
    return fail(ACL_ERROR_RT_EVENT_CAPTURED, "the event was recorded in a capture, which has ended");
  }
  if (shared != nullptr) {
    const uint64_t version = shared->recorded.load(std::memory_order_acquire);
    if (shared->completed.load(std::memory_order_acquire) >= version) return ACL_SUCCESS;
    SOFTCANN_NOT_CAPTURED(stream, "waiting for an event of another process");
    // Nobody in this process would resume a parked stream, so this task blocks, and therefore never inline.
    WaitTask* task = WaitTask::create(this, stream, nullptr);
    task->version = version;
    stream->submit(task, kNeverInline);
    return ACL_SUCCESS;
  }
  EventRecord* record = take_latest();
  if (record == nullptr) return ACL_SUCCESS;  // never recorded: nothing to wait for
  // A stream is in order with itself.
  if (record->stream == stream || (record->done() && record->failure == nullptr)) {
    record->release();
    return ACL_SUCCESS;
  }
  if (Capture* capture = stream->capture(); __builtin_expect(capture != nullptr, 0)) {
    record->release();
    capture->invalidate("a captured stream waited for work outside the capture");
    return fail(ACL_ERROR_RT_CAPTURE_DEPENDENCY,
                "stream %d is being captured and cannot wait for an event that was recorded outside the capture", stream->id);
  }
  stream->submit(WaitTask::create(this, stream, record), 0);
  return ACL_SUCCESS;
}

Event::Status Event::status() {
  if (external()) return signal.load(std::memory_order_acquire) == kLowered ? Status::kPending : Status::kDone;
  if (shared != nullptr) {
    const uint64_t recorded = shared->recorded.load(std::memory_order_acquire);
    if (recorded == 0) return Status::kNeverRecorded;
    return shared->completed.load(std::memory_order_acquire) >= recorded ? Status::kDone : Status::kPending;
  }
  std::lock_guard<std::mutex> lock(mutex);
  if (latest == nullptr) return Status::kNeverRecorded;
  return latest->done() ? Status::kDone : Status::kPending;
}

bool Event::wait_here(int64_t timeout_ns) {
  if (external()) {
    const int64_t deadline = timeout_ns < 0 ? INT64_MAX : now_ns() + timeout_ns;
    while (signal.load(std::memory_order_acquire) == kLowered) {
      const int64_t left = deadline == INT64_MAX ? -1 : deadline - now_ns();
      if (deadline != INT64_MAX && left <= 0) return false;
      futex_wait(&signal, kLowered, left);
    }
    return true;
  }
  if (shared != nullptr) return shared->wait(shared->recorded.load(std::memory_order_acquire), timeout_ns);
  EventRecord* record = take_latest();
  if (record == nullptr) return true;
  const bool done = record->wait(timeout_ns);
  record->release();
  return done;
}

aclError Event::failure() {
  if (external()) {
    if (signal.load(std::memory_order_acquire) != kFailed) return ACL_SUCCESS;
    return fail(ACL_ERROR_RT_MODEL_ABORT_NORMAL, "the external event was recorded behind work that had failed");
  }
  EventRecord* record = take_latest();
  if (record == nullptr) return ACL_SUCCESS;
  aclError code = ACL_SUCCESS;
  if (record->done() && record->failure != nullptr) code = fail(record->failure->first, "%s", record->failure->second.c_str());
  record->release();
  return code;
}

bool Event::time(int64_t* ns) {
  if (shared != nullptr) {
    *ns = shared->time_ns.load(std::memory_order_acquire);
    return true;
  }
  std::lock_guard<std::mutex> lock(mutex);
  if (latest == nullptr || !latest->done()) return false;
  *ns = latest->time_ns;
  return true;
}

}  // namespace softcann
