#include "rt/process/exit.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "fault/lifecycle.h"
#include "rt/memory/check.h"
#include "rt/device/device.h"
#include "rt/base/error.h"
#include "rt/profile/collector.h"
#include "rt/base/process_usage.h"
#include "rt/stream/stream.h"
#include "rt/base/sync.h"

namespace softcann {

std::atomic<int> waits_outside{0};

namespace {

// Note [Exit]
// exit() runs handlers in the reverse order of their registration, and libraries that kernels use register theirs when they
// are used first: later than this library does, whenever that is. A worker that still computes would find the state of
// those libraries destroyed. Only the destructors of the exiting thread's own variables come before all handlers. So the
// main thread has such a variable, whose destructor registers the handler below: at that moment it is the newest, and runs
// first. A thread may end without the process; then the handler is registered, no more. A second registration,
// when the library is loaded, is for a process that another thread ends.
//
// The handler lets what was submitted come to its end, as a device does whose host has gone on. Work that waits for others
// (a peer, a host function) gets a few seconds without progress; then what is queued is dropped.
constexpr int64_t kPatienceWithOthers = 5'000'000'000;
constexpr int64_t kPatience = 60'000'000'000;
constexpr int64_t kPatienceAfterDropping = 1'000'000'000;

std::vector<Stream*> busy_streams() {
  std::vector<Stream*> busy;
  for (int id = 0; id < device_count(); ++id) {
    Device* device = find_device(id);
    if (device == nullptr) continue;
    for (Stream* stream : streams_of(device)) {
      if (!stream->idle() && stream != Stream::running()) busy.push_back(stream);
    }
  }
  return busy;
}

uint64_t tasks_left() {
  uint64_t tasks = 0;
  for (const Stream* stream : busy_streams()) tasks += stream->tasks();
  return tasks;
}

// True when everything has ended; false when nothing did for too long.
bool wait_for_end() {
  uint64_t least = UINT64_MAX;
  for (int64_t since = now_ns();;) {
    const uint64_t left = tasks_left();
    if (left == 0) return true;
    const int64_t now = now_ns();
    if (left < least) {
      least = left;
      since = now;
    }
    if (now - since > (waits_outside.load(std::memory_order_relaxed) > 0 ? kPatienceWithOthers : kPatience)) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

void end_work() {
  if (wait_for_end()) return;
  for (Stream* stream : busy_streams()) stream->begin_abort();
  for (const int64_t since = now_ns(); tasks_left() != 0 && now_ns() - since < kPatienceAfterDropping;) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

void finish_work() {
  if (fault::in_forked_child()) return;
  end_work();
  if (recorder::is_recording() && recorder::stop() != ACL_SUCCESS)
    std::fprintf(stderr, "softcann: %s\n", take_recent_error().c_str());
  remove_own_status();
}

// After all of the above: what clients give back as they end is no leak.
void report_once() {
  if (check::on(check::kLeak) && !fault::in_forked_child()) check::report_leaks();
}

struct LastMoment {
  ~LastMoment() { std::atexit(finish_work); }
};

__attribute__((constructor)) void watch_at_load() {
  std::atexit(report_once);
  std::atexit(finish_work);
  watch_exit();
}

}  // namespace

void watch_exit() {
  static thread_local bool watched = false;
  if (watched) return;
  watched = true;
  if (gettid() != getpid()) return;
  static thread_local LastMoment last_moment;
  (void)&last_moment;
}

}  // namespace softcann
