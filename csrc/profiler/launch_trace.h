// When launches ran on the NPU: an event before and after each, and a clock that relates a device's events to the host's time.
//
// Note [Clock of a device]
// An event tells no time of its own, only what passed since another one. So a device has a base: an event on a stream of
// nobody else, which is reached at once, and the host's time at that moment. CANN gives what passed in a float of
// milliseconds, which after four seconds is good for a quarter of a microsecond; then a new base is taken. No tool of CANN's is
// needed, and nothing has to be put together when the program has ended.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/event.h"
#include "op/launch_hooks.h"
#include "op/operands.h"

namespace torch_npu::profiler {

// Times in nanoseconds since the epoch.
struct TracedLaunch {
  std::string name;
  op::Launch::Kind kind = op::Launch::Kind::compute;
  uint64_t bytes = 0;
  uint64_t correlation = 0;               // the profiler's number of the host's operator, 0 if none
  int32_t system_thread = 0, thread = 0;  // that launched it: the kernel's id and the C library's
  int64_t host_begin = 0, host_end = 0;   // of the call that launched it
  int64_t begin = 0, end = 0;             // on the device
  c10::DeviceIndex device = 0;
  c10::StreamId stream = 0;
  bool is_mark = false;  // a range of the program's own
  std::vector<op::Operand> operands;
};

class LaunchTrace {
 public:
  LaunchTrace() = default;
  ~LaunchTrace();
  LaunchTrace(const LaunchTrace&) = delete;
  LaunchTrace& operator=(const LaunchTrace&) = delete;

  void start();
  // Waits until what was launched has run.
  void stop();

  // After stop().
  const std::deque<TracedLaunch>& launches() const { return launches_; }
  // Why launches are missing, where some are.
  const std::vector<std::string>& errors() const { return errors_; }

  // A range of the program's own on a stream, in the trace that runs: its number, 0 without one. It ends on the same stream.
  C10_EXPORT static uint64_t begin_mark(const std::string& name, core::Stream stream);
  C10_EXPORT static void end_mark(uint64_t number);

  // The host's operator that launches of this thread belong to, from now on.
  static void push_correlation(uint64_t id);
  static void pop_correlation();

 private:
  struct Base {
    core::Event event{true};
    int64_t host = 0;
  };
  struct Open {
    TracedLaunch launch;
    std::shared_ptr<Base> base;
    core::Event begin{true}, end{true};
  };

  uint64_t open_mark(const std::string& name, core::Stream stream);
  void close_mark(uint64_t number);
  void before(const op::Launch& launch);
  void after(const op::Launch& launch);
  std::shared_ptr<Base> base_of(c10::DeviceIndex device, int64_t now);
  core::Event take_event(c10::DeviceIndex device);
  void finish_oldest();
  void fail(const char* what);

  // The launches of this thread between before() and after(), the innermost last.
  static std::vector<Open>& open_launches();

  static std::mutex current_mutex_;  // before mutex_
  static LaunchTrace* current_;

  std::mutex mutex_;
  bool running_ = false;
  std::deque<Open> pending_;
  std::deque<TracedLaunch> launches_;
  std::vector<std::string> errors_;
  std::map<uint64_t, std::pair<Open, core::Stream>> marks_;
  uint64_t next_mark_ = 1;
  std::map<c10::DeviceIndex, std::shared_ptr<Base>> bases_;
  std::map<c10::DeviceIndex, aclrtStream> clock_streams_;
  std::map<c10::DeviceIndex, std::vector<core::Event>> free_events_;
};

}  // namespace torch_npu::profiler
