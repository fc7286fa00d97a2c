// Events: what a record makes, and who waits for it.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>

#include "rt/memory/ipc.h"
#include "rt/stream/stream.h"

namespace softcann {

struct CapturedPoint;
struct WaitTask;

// Note [Event versions]
// Each aclrtRecordEvent makes a new EventRecord, and the event points to its latest one. A wait takes a reference to the
// EventRecord it found, not to the event: recording again, resetting or destroying the event does not change what earlier
// waits wait for. Clients destroy an event right after they have queued a wait on it.
struct EventRecord : Task {
  std::atomic<int> references{0};
  std::atomic<uint32_t> state{kPending};
  int64_t time_ns = 0;  // when it completed; valid once state is kDone
  bool timed = false;
  Stream* stream = nullptr;
  IpcEvent* shared = nullptr;  // of an event that other processes know; in use until the record is complete
  uint64_t version = 0;
  // Why what comes before it was not carried out, as its stream had failed and stops then; null: it was. Written before the
  // record is complete. See Note [Failures that events carry].
  std::unique_ptr<std::pair<aclError, std::string>> failure;
  std::mutex mutex;  // guards `waiters`; taken before a stream is resumed, never while one is
  WaitTask* waiters = nullptr;

  enum State : uint32_t { kPending, kDone, kPendingWithSleepers };

  static EventRecord* create();
  void retain() { references.fetch_add(1, std::memory_order_relaxed); }
  void release();
  bool done() const { return state.load(std::memory_order_acquire) == kDone; }
  void complete();
  // True when `waiter` was queued: its stream is parked now. False when the record is complete.
  bool park(WaitTask* waiter);
  // Waits on the calling thread; false when the time (negative: without limit) is over.
  bool wait(int64_t timeout_ns);
};

// Note [External events]
// Work of a graph meets work outside it at an event made for that (ACL_EVENT_EXTERNAL). It is a signal: a record raises it, a
// reset lowers it, a wait goes on once it is raised, also where nobody has recorded it yet. Each is a task, in a graph as well,
// so that each execution of the graph does it again.

// Note [Failures that events carry]
// A stream that waits for an event of a failed stream would go on with results that are not there. So it fails, too, with the
// same code and a text that tells where it began: a gradient that was not reduced is not taken for one that was. A thread that
// waits for such an event, or asks for its state, gets the same code: the event was reached, but not what it stands for. A
// stream's wait for a record, or, with an event of another process, for a version.
struct WaitTask : Task {
  EventRecord* record = nullptr;
  Stream* stream = nullptr;
  struct Event* event = nullptr;  // counts its unfinished waits
  WaitTask* next_waiter = nullptr;
  uint64_t version = 0;

  // Takes over the caller's reference to `record`.
  static WaitTask* create(Event* event, Stream* stream, EventRecord* record);
  void finish();  // and deletes itself
};

// What aclrtEvent stands for. A reference is held by the client and by each task in flight.
struct Event : Handled {
  std::atomic<int> references{0};
  uint32_t flags = 0;
  uint32_t id = 0;
  std::atomic<int> waits{0};  // queued and not yet passed
  std::mutex mutex;           // guards the rest
  EventRecord* latest = nullptr;
  std::atomic<bool> in_capture{false};      // the latest record was on a captured stream,
  std::shared_ptr<CapturedPoint> captured;  // at this point
  IpcEvent* shared = nullptr;
  bool imported = false;
  bool extended = false;  // of aclrtCreateEventExWithFlag
  // How aclrtRecordEventWithFlag and aclrtStreamWaitEventWithFlag have used it: in one way each.
  enum Use : int { kUnsettled, kPlain, kShown };
  std::atomic<int> recorded_with{kUnsettled}, waited_with{kUnsettled};
  // Of an external event: see Note [External events].
  enum Signal : uint32_t { kLowered, kRaised, kFailed };
  std::atomic<uint32_t> signal{kLowered};

  static Event* create(uint32_t flags);
  static Event* from_handle(aclrtEvent handle, aclError* error);
  void retain() { references.fetch_add(1, std::memory_order_relaxed); }
  void release();
  // The latest record with a reference for the caller, or nullptr when there is none.
  EventRecord* take_latest();
  // Makes a record the latest one, for who completes it: one reference is the caller's. `stream` is the one it is submitted to;
  // null where a graph's task completes it.
  EventRecord* new_record(Stream* stream);
  enum class Status { kNeverRecorded, kPending, kDone };
  Status status();
  aclError record(Stream* stream);
  aclError wait_on(Stream* stream);
  // Waits on the calling thread; false when the time (negative: without limit) is over.
  bool wait_here(int64_t timeout_ns);
  // The error of a stream that had failed before it came to the latest record, recorded for the client; else ACL_SUCCESS. See
  // Note [Failures that events carry]. The stream still has it to tell.
  aclError failure();
  // When the latest record completed; false when it has not.
  bool time(int64_t* ns);
  // Puts record, wait or reset of an external event into the order of the stream, or of the graph it is captured into.
  enum class Signalling { raise, wait, lower };
  void submit_signal(Stream* stream, Signalling what);
  bool external() const { return (flags & ACL_EVENT_EXTERNAL) != 0; }
  bool timed() const { return (flags & ACL_EVENT_TIME_LINE) != 0; }
};

}  // namespace softcann
