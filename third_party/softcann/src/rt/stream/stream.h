// Streams: who runs a task, and when.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "rt/device/device.h"
#include "rt/exchange.h"
#include "rt/base/handles.h"
#include "rt/runtime.h"
#include "rt/base/sync.h"

namespace softcann {

// Returned by the run function of an internal task that has given its stream away: to an event or a callback queue,
// which calls Stream::resume() later. Whoever ran the task must not touch the stream any more.
inline constexpr aclError kParked = INT32_MIN;
// Returned by the run function of an internal task that has ended itself by Stream::finish(): the stream has more to do.
inline constexpr aclError kFinished = INT32_MIN + 2;
static_assert(kParked != kUnfinished && kFinished != kUnfinished);

// Note [Ownership of a stream]
// `pending_` counts tasks that were submitted and have not ended. Whoever raises it from 0 owns the stream: it alone
// runs tasks, until it has brought the count back to 0 or passed the ownership on. So an idle stream runs a small task
// right on the submitting thread, for two atomic additions; a queue and a worker come into play only when the stream
// is busy or the task is long.
//  - submit, count was 0, small task: run it here, then subtract; if others came meanwhile, hand the stream over.
//  - submit, count was 0, small task that turns out to wait for another process (kUnfinished): keep it as the next
//    task, hand the stream over.
//  - submit, count was 0, long task: queue it, hand the stream over.
//  - submit, count was not 0: queue it; the owner will come to it.
// Handing over sets `signal_` to kOffered and wakes or starts the worker. A thread that waits for the stream may take
// the offer itself when the worker has not yet. A task that must wait for an event parks: the ownership lies with the
// event until it completes. No thread ever blocks inside a task for an event of this process, hence streams that
// wait on each other in any pattern cannot exhaust anything.
class Capture;
struct StreamStatus;

class Stream : public Handled {
 public:
  // Streams are taken from a pool and never freed, so that a stale handle is recognised.
  static Stream* create(Context* context, uint32_t priority, uint32_t flags);
  // Checks a client's handle against the calling thread's context; nullptr stands for the default stream. On failure
  // returns nullptr and *error is set and recorded.
  static Stream* from_handle(aclrtStream handle, aclError* error);
  // The stream, of any context; nullptr when the handle is of none that lives.
  static Stream* find(aclrtStream handle);

  // While the stream is being captured, the task must be one that can be repeated.
  void submit(Task* task, uint32_t cost_ns);
  // What is recording this stream; nullptr in ordinary runs.
  Capture* capture() const { return capture_.load(std::memory_order_acquire); }
  void set_capture(Capture* capture) { capture_.store(capture, std::memory_order_release); }
  bool idle() const { return pending_.load(std::memory_order_acquire) == 0; }
  // How many have not ended.
  uint64_t tasks() const { return pending_.load(std::memory_order_acquire) & (kEnding - 1); }
  // As idle(), and true as soon as the last thing submitted, an event, is known to have completed.
  bool complete() const;
  // Waits for everything submitted so far. Negative timeout: without limit. Returns the stream's error, or 507046.
  aclError synchronize(int64_t timeout_ns);
  // For a task that tells others of its end, by its owner: from announce() to finish() it is undecided whether the stream
  // is complete, so that nobody sees the task ended and the stream busy, nor the reverse. finish() counts the task as ended
  // and gives what its run function has to return.
  uint64_t announce();
  aclError finish(uint64_t announced);
  // Gives the ownership back after kParked; the parked task counts as ended. Any thread.
  void resume();
  // Waits, ends the worker, returns the stream to the pool.
  void destroy();
  // Tasks that are queued are dropped as fast as they come up, until the stream is idle; then its error is forgotten.
  void abort();
  // The two halves of abort() for those who wait with a limit: the second is for a stream that is idle.
  void begin_abort() { aborting_.store(true, std::memory_order_release); }
  void end_abort() { aborting_.store(false, std::memory_order_release); }

  aclError error() const { return error_.load(std::memory_order_relaxed); }
  bool stops_on_failure() const { return stop_on_failure_.load(std::memory_order_relaxed); }
  void set_stops_on_failure(bool stops) { stop_on_failure_.store(stops, std::memory_order_relaxed); }
  // The error that nobody has been told yet, with its text; null when there is none, or what was refused by the kernel, which
  // computed nothing.
  std::unique_ptr<std::pair<aclError, std::string>> failure();
  // Records a failure as if a task had returned it.
  void set_error(aclError code, const char* task, std::string text);
  void forget_error();

  bool runs_on_this_thread() const;
  // The stream whose task this thread is running; nullptr when it runs none.
  static const Stream* running();
  // Whether that stream drops its tasks: one that goes on and on, or waits, is to look now and then, and end.
  static bool drops_this_task();
  // Of a stream that is lent to another's work: it is aborted with that one, until null is given.
  void act_for(const Stream* other) { acts_for_.store(other, std::memory_order_relaxed); }

  // Fixed from creation to destruction.
  Context* context = nullptr;
  std::atomic<uint32_t> overflow_switch{1};  // whether its tasks set the overflow flag: see Note [Saturation]
  uint32_t priority = 0;
  uint32_t flags = 0;
  int id = 0;
  std::atomic<uint32_t> user_tag{0};       // for clients to set and read back
  std::atomic<uint32_t> cache_op_info{0};  // the same: what it asks CANN to keep of captured operators, a graph here keeps anyway
  // Thread that serves callbacks (aclrtSubscribeReport); 0: none.
  std::atomic<uint64_t> report_thread{0};
  // The one that runs its host functions (aclrtSubscribeHostFunc); 0: the stream's own.
  std::atomic<uint64_t> host_thread{0};

 private:
  enum Signal : uint32_t { kAbsent, kSpinning, kSleeping, kOffered, kExit };
  struct Marker;

  void push(Task* task);
  Task* pop();
  aclError execute(Task* task);
  void record(const Task* task, const char* name, int64_t begin, aclError code);
  bool finish_one();
  void drain(const std::atomic<uint32_t>* until);
  void hand_over();
  bool take_offer();
  bool start_worker();
  void work_here();
  void work();
  aclError take_error();
  void wait_for(Marker* marker, int64_t timeout_ns);

  // Written by submitters and the owner. The task that announces its end adds kEnding as long as it does.
  static constexpr uint64_t kEnding = uint64_t{1} << 32;
  alignas(64) std::atomic<uint64_t> pending_{0};
  std::atomic<Capture*> capture_{nullptr};
  StreamStatus* status_ = nullptr;
  int64_t unfinished_since_ = 0;  // the owner's, while somebody profiles
  std::atomic<int32_t> error_{0};
  std::atomic<bool> stop_on_failure_{false};
  std::atomic<bool> aborting_{false};
  std::atomic<const Stream*> acts_for_{nullptr};
  std::atomic<bool> workerless_{false};  // the last attempt to start a worker failed
  // A queue of many producers and one consumer (the owner). `stub_` keeps it from ever being empty.
  alignas(64) std::atomic<Task*> tail_{nullptr};
  alignas(64) Task* head_ = nullptr;
  Task* unfinished_ = nullptr;  // comes before head_; the owner's
  Task stub_;

  alignas(64) std::atomic<uint32_t> signal_{kAbsent};
  std::mutex worker_mutex_;
  std::thread worker_;
  std::mutex error_mutex_;
  std::string error_text_;
};

// A client's handle as a stream; leaves the function with the error's code where it is none.
#define STREAM_OR_RETURN(variable, handle)                           \
  aclError variable##_error = ACL_SUCCESS;                           \
  Stream* variable = Stream::from_handle(handle, &variable##_error); \
  if (variable == nullptr) return variable##_error

}  // namespace softcann
