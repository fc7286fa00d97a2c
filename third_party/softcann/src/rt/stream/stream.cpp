#include "rt/stream/stream.h"

#include <pthread.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>

#include "fault/lifecycle.h"
#include "rt/graph/capture.h"
#include "rt/device/exceptions.h"
#include "rt/base/log.h"
#include "rt/recording/call_record.h"
#include "rt/profile/collector.h"
#include "rt/base/process_usage.h"

namespace softcann {
namespace {

struct StreamRegistry {
  std::mutex mutex;
  HandleBlocks<Stream> streams;
  std::vector<Stream*> unused;
  int next_id = 0;
};

StreamRegistry& stream_registry() {
  static auto* instance = new StreamRegistry;
  return *instance;
}

// The stream whose task this thread is running, if any.
constinit thread_local const Stream* running_stream SOFTCANN_FAST_TLS = nullptr;

// Copies of options that the hot path looks at.
const bool noop = options().noop;
const int64_t inline_limit_ns =
    options().inline_ns == 0 ? -1 : static_cast<int64_t>(std::min<uint64_t>(options().inline_ns, kNeverInline - 1));
const int64_t spin_ns = static_cast<int64_t>(options().spin_us) * 1000;

// The machinery of streams and events is no work to those who profile; collectives are, which cannot be repeated.
bool is_work(const Task* task, const char* name) { return task->repeat != nullptr || std::strncmp(name, "Hccl", 4) == 0; }

// What the client called to submit a task ends there.
struct SubmittedCall {
  explicit SubmittedCall(const Task* task) {
    if (recorder::is_active() && is_work(task, task->name)) recorder::note_launch(task);
  }
  ~SubmittedCall() {
    if (recorder::is_active()) recorder::end_call();
  }
};

Task* load_next(Task* task) { return std::atomic_ref<Task*>(task->next).load(std::memory_order_acquire); }

}  // namespace

// Marks a place in the queue for a thread that waits. Two references: the waiter, which may give up, and the queue.
struct Stream::Marker : Task {
  std::atomic<uint32_t> reached{0};
  std::atomic<int> references{2};

  static aclError arrive(Task* self, bool) {
    auto* marker = static_cast<Marker*>(self);
    if (marker->reached.exchange(1, std::memory_order_acq_rel) == kWaiterSleeps) futex_wake_all(&marker->reached);
    marker->release();
    return ACL_SUCCESS;
  }
  void release() {
    if (references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  static constexpr uint32_t kWaiterSleeps = 2;
};

Stream* Stream::create(Context* context, uint32_t priority, uint32_t flags) {
  Stream* stream = nullptr;
  {
    std::lock_guard<std::mutex> lock(stream_registry().mutex);
    if (stream_registry().unused.empty()) {
      stream = stream_registry().streams.add();
      stream->head_ = &stream->stub_;
      stream->tail_.store(&stream->stub_, std::memory_order_relaxed);
    } else {
      stream = stream_registry().unused.back();
      stream_registry().unused.pop_back();
    }
    stream->id = stream_registry().next_id++;
  }
  stream->context = context;
  stream->priority = priority;
  stream->flags = flags;
  stream->error_.store(0, std::memory_order_relaxed);
  stream->stop_on_failure_.store(false, std::memory_order_relaxed);
  stream->aborting_.store(false, std::memory_order_relaxed);
  stream->act_for(nullptr);
  stream->user_tag.store(0, std::memory_order_relaxed);
  stream->overflow_switch.store(1, std::memory_order_relaxed);
  stream->cache_op_info.store(0, std::memory_order_relaxed);
  stream->set_capture(nullptr);
  stream->status_ = claim_stream_status(context->device->physical);
  stream->report_thread.store(0, std::memory_order_relaxed);
  stream->host_thread.store(0, std::memory_order_relaxed);
  stream->begin_life();
  std::lock_guard<std::mutex> lock(context->device->mutex);
  context->device->streams.push_back(stream);
  SOFTCANN_LOG(ACL_INFO, "RUNTIME", "stream %llu of device %d was created, priority %u",
               static_cast<unsigned long long>(stream->id), context->device->id, priority);
  return stream;
}

Stream* Stream::find(aclrtStream handle) { return stream_registry().streams.find(handle); }

Stream* Stream::from_handle(aclrtStream handle, aclError* error) {
  Context* context = current_context();
  if (__builtin_expect(context == nullptr, 0)) {
    *error = fail(ACL_ERROR_RT_CONTEXT_NULL, "this thread has no context; call aclrtSetDevice first");
    return nullptr;
  }
  if (handle == nullptr) {
    if (__builtin_expect(context->default_stream == nullptr, 0)) *error = no_context("the default stream");
    return context->default_stream;
  }
  Stream* stream = find(handle);
  if (__builtin_expect(stream == nullptr, 0)) {
    *error = fail(ACL_ERROR_RT_INVALID_HANDLE, "stream %p does not exist (destroyed, or never created)", handle);
    return nullptr;
  }
  if (__builtin_expect(stream->context != context, 0)) {
    *error = fail(ACL_ERROR_RT_STREAM_CONTEXT,
                  "stream %p belongs to device %d, but this thread's current context is of device %d; "
                  "call aclrtSetDevice(%d) first",
                  handle, stream->context->device->id, context->device->id, stream->context->device->id);
    return nullptr;
  }
  return stream;
}

bool Stream::runs_on_this_thread() const { return running_stream == this; }
const Stream* Stream::running() { return running_stream; }
bool Stream::drops_this_task() {
  if (running_stream == nullptr) return false;
  if (running_stream->aborting_.load(std::memory_order_relaxed)) return true;
  const Stream* other = running_stream->acts_for_.load(std::memory_order_relaxed);
  return other != nullptr && other->aborting_.load(std::memory_order_relaxed);
}

void Stream::push(Task* task) {
  std::atomic_ref<Task*>(task->next).store(nullptr, std::memory_order_relaxed);
  Task* before = tail_.exchange(task, std::memory_order_acq_rel);
  std::atomic_ref<Task*>(before->next).store(task, std::memory_order_release);
}

// For the owner, who knows from `pending_` that a task is there or about to be linked.
Task* Stream::pop() {
  if (unfinished_ != nullptr) return std::exchange(unfinished_, nullptr);
  for (;;) {
    Task* head = head_;
    Task* next = load_next(head);
    if (head == &stub_) {
      if (next == nullptr) {
        cpu_relax();
        continue;
      }
      head_ = head = next;
      next = load_next(head);
    }
    if (next != nullptr) {
      head_ = next;
      return head;
    }
    if (tail_.load(std::memory_order_acquire) == head) {
      push(&stub_);
      next = load_next(head);
      if (next != nullptr) {
        head_ = next;
        return head;
      }
    }
    cpu_relax();
  }
}

void Stream::set_error(aclError code, const char* task, std::string text) {
  {
    std::lock_guard<std::mutex> lock(error_mutex_);
    const aclError before = error_.load(std::memory_order_relaxed);
    if (before != 0 && before != kRefused) return;  // the first failure is the cause
    error_text_ = std::string(task) + " failed on stream " + std::to_string(id) + " of device " +
                  std::to_string(context->device->id) + ": " + (text.empty() ? "error " + std::to_string(code) : text);
    error_.store(code, std::memory_order_release);
  }
  if (code == kRefused) return;
  int32_t none = 0;
  context->device->failure.compare_exchange_strong(none, code, std::memory_order_acq_rel);
  tell_exception(context->device->id, id, code);
}

std::unique_ptr<std::pair<aclError, std::string>> Stream::failure() {
  std::lock_guard<std::mutex> lock(error_mutex_);
  const aclError code = error_.load(std::memory_order_relaxed);
  if (code == ACL_SUCCESS || code == kRefused) return nullptr;
  return std::make_unique<std::pair<aclError, std::string>>(code, error_text_);
}

aclError Stream::execute(Task* task) {
  const aclError error = error_.load(std::memory_order_relaxed);
  const bool failed = error != 0 && error != kRefused && stop_on_failure_.load(std::memory_order_relaxed);
  const bool skip = failed || aborting_.load(std::memory_order_relaxed) || noop;
  const Stream* outer = running_stream;
  running_stream = this;
  const char* name = task->name;  // the task frees itself
  int injected = 0;
  // What cannot be repeated is the machinery of streams and events, or waits for other processes.
  if (__builtin_expect(fault::armed.load(std::memory_order_relaxed) != 0, 0) && task->repeat != nullptr) {
    injected = fault::enter_task(name);
  }
  // What cannot be repeated computes nothing either, or waits; and a task within a task is counted with it.
  const bool counted = task->repeat != nullptr && outer == nullptr;
  const bool recorded = recorder::is_active() && is_work(task, name);
  const int64_t recorded_from = recorded ? now_ns() : 0;
  const uint64_t begin = ticks();
  if (counted) status_->since.store(begin, std::memory_order_relaxed);
  const bool told = call_record::on && outer == nullptr && !skip && is_work(task, name);
  if (__builtin_expect(told, 0)) call_record::begin_task();
  const aclError code = task->run(task, skip || injected != 0);
  if (__builtin_expect(told, 0) && code != kParked && code != kUnfinished) call_record::end_task(name);
  running_stream = outer;
  if (counted) {
    status_->since.store(0, std::memory_order_relaxed);
    status_->busy.fetch_add(ticks() - begin, std::memory_order_relaxed);
  }
  if (__builtin_expect(recorded, 0)) record(task, name, recorded_from, code);
  if (__builtin_expect(injected != 0, 0) && !skip) set_error(injected, name, "fault injected by SOFTCANN_FAULT");
  if (__builtin_expect(code != ACL_SUCCESS && code != kParked && code != kUnfinished && code != kFinished, 0)) {
    set_error(code, name, take_task_error());
  }
  return code;
}

// What waits for other ranks may come several times before it ends.
void Stream::record(const Task* task, const char* name, int64_t begin, aclError code) {
  if (code == kParked || code == kFinished) return;  // the stream may be another's by now
  if (code == kUnfinished) {
    if (unfinished_since_ == 0) unfinished_since_ = begin;
    return;
  }
  if (const int64_t since = std::exchange(unfinished_since_, 0)) begin = since;
  recorder::add_task(this, task, name, begin, now_ns());
}

uint64_t Stream::announce() {
  // With more tasks behind it, which only the owner can take away, the stream stays busy in any case.
  if (pending_.load(std::memory_order_relaxed) != 1) return 0;
  pending_.fetch_add(kEnding, std::memory_order_acq_rel);
  return kEnding;
}

aclError Stream::finish(uint64_t announced) {
  return pending_.fetch_sub(announced + 1, std::memory_order_acq_rel) == announced + 1 ? kParked : kFinished;
}

bool Stream::complete() const {
  uint64_t pending = 0;
  while ((pending = pending_.load(std::memory_order_acquire)) == kEnding + 1) std::this_thread::yield();
  return pending == 0;
}

// Counts one task as ended; true when the stream is idle now and no longer owned.
bool Stream::finish_one() { return pending_.fetch_sub(1, std::memory_order_acq_rel) == 1; }

void Stream::submit(Task* task, uint32_t cost_ns) {
  const SubmittedCall ends_with_this(task);
  if (__builtin_expect(capture_.load(std::memory_order_relaxed) != nullptr, 0)) return Capture::add(this, task, cost_ns);
  if (pending_.fetch_add(1, std::memory_order_acq_rel) == 0) {
    if (cost_ns <= inline_limit_ns) {
      const aclError code = execute(task);
      if (__builtin_expect(code == kUnfinished, 0)) {
        unfinished_ = task;
        hand_over();
      } else if (code == kFinished || (code != kParked && !finish_one())) {
        hand_over();
      }
      return;
    }
    push(task);
    hand_over();
    return;
  }
  push(task);
}

// The owner runs tasks until the stream is idle, parked, or `until` is set; in the last case the worker goes on.
void Stream::drain(const std::atomic<uint32_t>* until) {
  for (;;) {
    Task* task = pop();
    if (task->run == &Marker::arrive) {
      // Counted as ended before the waiter is told: it may ask at once whether the stream is idle.
      const bool idle_now = finish_one();
      Marker::arrive(task, false);
      if (idle_now) return;
    } else {
      const aclError code = execute(task);
      if (code == kUnfinished) {
        unfinished_ = task;
        continue;
      }
      if (code == kParked || (code != kFinished && finish_one())) return;
    }
    if (until != nullptr && until->load(std::memory_order_acquire) == 1) return hand_over();
  }
}

void Stream::resume() {
  if (!finish_one()) hand_over();
}

void Stream::hand_over() {
  const uint32_t before = signal_.exchange(kOffered, std::memory_order_acq_rel);
  if (before == kSleeping) futex_wake_all(&signal_);
  if (__builtin_expect(before == kAbsent || workerless_.load(std::memory_order_relaxed), 0) && !start_worker()) work_here();
}

bool Stream::take_offer() {
  uint32_t offered = kOffered;
  return signal_.load(std::memory_order_relaxed) == kOffered &&
         signal_.compare_exchange_strong(offered, kSpinning, std::memory_order_acq_rel);
}

// Called by the thread that found kAbsent. Meanwhile another may have taken its offer, ended the work and even
// destroyed the stream; then no worker is wanted any more.
bool Stream::start_worker() {
  std::lock_guard<std::mutex> lock(worker_mutex_);
  const uint32_t signal = signal_.load(std::memory_order_acquire);
  if (worker_.joinable() || (signal != kOffered && signal != kSpinning)) return true;
  try {
    if (SOFTCANN_FAULT_POINT(worker)) throw std::system_error(EAGAIN, std::generic_category());
    worker_ = std::thread([this] { work(); });
    workerless_.store(false, std::memory_order_relaxed);
  } catch (const std::system_error& error) {
    if (!workerless_.exchange(true, std::memory_order_relaxed)) {
      std::fprintf(stderr, "softcann: no thread for stream %d (%s): whoever uses it does its work\n", id, error.what());
    }
    return false;
  }
  return true;
}

// Where no worker could be started. Another thread that waits for the stream may take the offer as well.
void Stream::work_here() {
  if (take_offer()) drain(nullptr);
}

void Stream::work() {
  pthread_setname_np(pthread_self(), ("softcann-s" + std::to_string(id)).substr(0, 15).c_str());
  set_current_context(context);
  // Spinning that found nothing is tried for shorter next time; the first success restores the full length.
  const int64_t longest = spin_ns;
  int64_t budget = longest;
  for (;;) {
    const bool found = spin_until([this] { return signal_.load(std::memory_order_acquire) >= kOffered; }, budget);
    if (!found) {
      budget = std::max(budget / 2, longest / 16);
      uint32_t spinning = kSpinning;
      if (signal_.compare_exchange_strong(spinning, kSleeping, std::memory_order_acq_rel)) {
        while (signal_.load(std::memory_order_acquire) == kSleeping) futex_wait(&signal_, kSleeping, -1);
      }
    } else {
      budget = longest;
    }
    if (take_offer()) drain(nullptr);
    if (signal_.load(std::memory_order_acquire) == kExit) return;
  }
}

aclError Stream::take_error() {
  if (__builtin_expect(error_.load(std::memory_order_acquire) == 0, 1)) return ACL_SUCCESS;
  std::lock_guard<std::mutex> lock(error_mutex_);
  const aclError code = error_.load(std::memory_order_relaxed);
  if (code == 0) return ACL_SUCCESS;
  // Told once, then the stream is well again: a failure leaves no memory damaged but the results of the tasks that did not run.
  error_.store(0, std::memory_order_relaxed);
  return fail(code, "%s", error_text_.c_str());
}

aclError Stream::synchronize(int64_t timeout_ns) {
  if (idle()) return take_error();
  if (runs_on_this_thread()) {
    return fail(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "stream %d is synchronized by one of its own tasks, which would never end", id);
  }
  if (pending_.fetch_add(1, std::memory_order_acq_rel) == 0) {
    if (!finish_one()) hand_over();
    return take_error();
  }
  auto* marker = new Marker;
  marker->run = &Marker::arrive;
  marker->name = "synchronize";
  push(marker);
  wait_for(marker, timeout_ns);
  const bool reached = marker->reached.load(std::memory_order_acquire) == 1;
  marker->release();
  if (!reached) {
    return fail(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "stream %d did not finish within %lld ms", id,
                static_cast<long long>(timeout_ns / 1000000));
  }
  return take_error();
}

void Stream::wait_for(Marker* marker, int64_t timeout_ns) {
  const int64_t deadline = timeout_ns < 0 ? INT64_MAX : now_ns() + timeout_ns;
  for (;;) {
    bool offered = false;
    const int64_t budget = timeout_ns < 0 ? spin_ns : std::min(spin_ns, timeout_ns);
    spin_until(
        [&] {
          if (marker->reached.load(std::memory_order_acquire) == 1) return true;
          // With a time limit the tasks stay with the worker: one of them may run for longer than the limit.
          return offered = timeout_ns < 0 && take_offer();
        },
        budget);
    if (offered) {
      drain(&marker->reached);
      continue;
    }
    uint32_t waiting = 0;
    marker->reached.compare_exchange_strong(waiting, Marker::kWaiterSleeps, std::memory_order_acq_rel);
    if (marker->reached.load(std::memory_order_acquire) == 1) return;
    const int64_t left = deadline == INT64_MAX ? -1 : deadline - now_ns();
    if (deadline != INT64_MAX && left <= 0) return;
    futex_wait(&marker->reached, Marker::kWaiterSleeps, left);
    if (marker->reached.load(std::memory_order_acquire) == 1) return;
  }
}

void Stream::abort() {
  aborting_.store(true, std::memory_order_release);
  synchronize(-1);
  aborting_.store(false, std::memory_order_release);
  forget_error();
}

void Stream::forget_error() {
  const std::lock_guard<std::mutex> lock(error_mutex_);
  error_.store(0, std::memory_order_release);
}

void Stream::destroy() {
  synchronize(-1);
  {
    std::lock_guard<std::mutex> lock(context->device->mutex);
    auto& streams = context->device->streams;
    streams.erase(std::remove(streams.begin(), streams.end(), this), streams.end());
  }
  end_life();
  set_capture(nullptr);
  release_stream_status(status_);
  std::thread worker;
  {
    std::lock_guard<std::mutex> lock(worker_mutex_);
    const uint32_t before = signal_.exchange(kExit, std::memory_order_acq_rel);
    if (before == kSleeping) futex_wake_all(&signal_);
    worker.swap(worker_);
  }
  if (worker.joinable()) worker.join();
  signal_.store(kAbsent, std::memory_order_release);
  std::lock_guard<std::mutex> lock(stream_registry().mutex);
  stream_registry().unused.push_back(this);
}

aclError submit(aclrtStream handle, Task* task, uint32_t cost_ns) {
  aclError error = ACL_SUCCESS;
  Stream* stream = Stream::from_handle(handle, &error);
  if (stream == nullptr) return error;
  if (__builtin_expect(stream->capture() != nullptr && task->repeat == nullptr, 0)) return refuse_in_capture(stream, task->name);
  stream->submit(task, cost_ns);
  return ACL_SUCCESS;
}

bool is_captured(aclrtStream handle) {
  const Stream* stream = handle != nullptr ? Stream::find(handle) : nullptr;
  return stream != nullptr && stream->capture() != nullptr;  // a default stream never is
}

int stream_device(aclrtStream handle) {
  if (handle == nullptr) return current_device();
  const Stream* stream = Stream::find(handle);
  return stream != nullptr ? stream->context->device->id : -1;
}

}  // namespace softcann
