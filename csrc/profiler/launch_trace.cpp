#include "profiler/launch_trace.h"

#include <cmath>
#include <exception>
#include <utility>

#include <c10/util/ApproximateClock.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/capture.h"
#include "core/error.h"

namespace torch_npu::profiler {
namespace {

constexpr const char* kHook = "profiler";
constexpr int64_t kBaseLasts = 4'000'000'000;  // nanoseconds, see Note [Clock of a device]
// Launches that wait for their times: a device has some 65,000 events, and each takes two.
constexpr size_t kMostPending = 16384;

thread_local std::vector<uint64_t> correlations;

int64_t nanoseconds(double milliseconds) { return std::llround(milliseconds * 1e6); }

}  // namespace

std::mutex LaunchTrace::current_mutex_;
LaunchTrace* LaunchTrace::current_ = nullptr;

LaunchTrace::~LaunchTrace() {
  {
    const std::lock_guard<std::mutex> lock(current_mutex_);
    if (current_ == this) current_ = nullptr;
  }
  if (running_) op::remove_launch_hook(kHook);
}

void LaunchTrace::push_correlation(uint64_t id) { correlations.push_back(id); }

void LaunchTrace::pop_correlation() {
  if (!correlations.empty()) correlations.pop_back();  // the trace may have begun within the operator
}

std::vector<LaunchTrace::Open>& LaunchTrace::open_launches() {
  thread_local std::vector<Open> launches;
  return launches;
}

void LaunchTrace::start() {
  running_ = true;
  {
    const std::lock_guard<std::mutex> lock(current_mutex_);
    current_ = this;
  }
  op::add_launch_hook(
      kHook, {[this](const op::Launch& launch) { before(launch); }, [this](const op::Launch& launch) { after(launch); }});
}

void LaunchTrace::stop() {
  op::remove_launch_hook(kHook);  // returns when no hook is running any more
  {
    const std::lock_guard<std::mutex> current(current_mutex_);
    if (current_ == this) current_ = nullptr;
  }
  running_ = false;
  std::lock_guard<std::mutex> lock(mutex_);
  try {
    while (!pending_.empty()) finish_oldest();
  } catch (const std::exception& error) {
    pending_.clear();
    fail(error.what());
  }
  marks_.clear();
  free_events_.clear();
  bases_.clear();
  for (const auto& [device, stream] : clock_streams_) {
    const core::DeviceGuard guard(device);
    core::ensure_bound();
    NPU_CHECK_WARN(acl::aclrtDestroyStream(stream));
  }
  clock_streams_.clear();
}

void LaunchTrace::fail(const char* what) { errors_.emplace_back(what); }

core::Event LaunchTrace::take_event(c10::DeviceIndex device) {
  auto& events = free_events_[device];
  if (events.empty()) return core::Event(true);
  auto event = std::move(events.back());
  events.pop_back();
  return event;
}

std::shared_ptr<LaunchTrace::Base> LaunchTrace::base_of(c10::DeviceIndex device, int64_t now) {
  auto& base = bases_[device];
  if (base && now - base->host < kBaseLasts) return base;
  auto& stream = clock_streams_[device];
  if (!stream) NPU_CHECK(acl::aclrtCreateStreamWithConfig(&stream, 0, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC));
  auto made = std::make_shared<Base>();
  const auto own = core::external_stream(stream, device);
  made->event.record(own);  // makes the event, which would count as time
  made->event.synchronize();
  const auto before = c10::getTime();
  made->event.record(own);
  made->event.synchronize();
  made->host = before + (c10::getTime() - before) / 2;
  return base = std::move(made);
}

void LaunchTrace::before(const op::Launch& launch) {
  auto& open = open_launches().emplace_back();
  auto& traced = open.launch;
  traced.name = launch.name;
  traced.kind = launch.kind;
  traced.bytes = launch.bytes;
  if (launch.kind == op::Launch::Kind::compute) traced.operands = op::take_operands(launch.name);
  traced.correlation = correlations.empty() ? 0 : correlations.back();
  traced.system_thread = static_cast<int32_t>(syscall(SYS_gettid));
  traced.thread = static_cast<int32_t>(pthread_self());
  const auto stream = core::current_stream();
  if (core::is_capturing(stream)) return;  // it does not run now; a replay is a launch of its own
  traced.device = stream.device_index();
  traced.stream = stream.id();
  try {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      open.base = base_of(traced.device, c10::getTime());
      open.begin = take_event(traced.device);
      open.end = take_event(traced.device);
    }
    traced.host_begin = c10::getTime();
    open.begin.record(stream);
  } catch (const std::exception& error) {
    const std::lock_guard<std::mutex> lock(mutex_);
    fail(error.what());
  }
}

void LaunchTrace::after(const op::Launch& launch) {
  auto& stack = open_launches();
  // Launches that CANN refused were left open.
  while (!stack.empty() && (stack.back().launch.name != launch.name || !stack.back().begin.recorded())) stack.pop_back();
  if (stack.empty()) return;
  auto open = std::move(stack.back());
  stack.pop_back();
  open.launch.host_end = c10::getTime();
  const std::lock_guard<std::mutex> lock(mutex_);
  try {
    open.end.record(core::current_stream());
    pending_.push_back(std::move(open));
    if (pending_.size() > kMostPending) finish_oldest();
  } catch (const std::exception& error) {
    fail(error.what());
  }
}

uint64_t LaunchTrace::begin_mark(const std::string& name, core::Stream stream) {
  const std::lock_guard<std::mutex> lock(current_mutex_);
  return current_ && !core::is_capturing(stream) ? current_->open_mark(name, stream) : 0;
}

void LaunchTrace::end_mark(uint64_t number) {
  const std::lock_guard<std::mutex> lock(current_mutex_);
  if (current_) current_->close_mark(number);
}

uint64_t LaunchTrace::open_mark(const std::string& name, core::Stream stream) {
  Open open;
  open.launch.name = name;
  open.launch.is_mark = true;
  open.launch.device = stream.device_index();
  open.launch.stream = stream.id();
  const core::DeviceGuard guard(stream.device_index());
  const std::lock_guard<std::mutex> lock(mutex_);
  try {
    core::ensure_bound();
    open.base = base_of(stream.device_index(), c10::getTime());
    open.begin = take_event(stream.device_index());
    open.end = take_event(stream.device_index());
    open.launch.host_begin = c10::getTime();
    open.begin.record(stream);
    marks_.emplace(next_mark_, std::pair(std::move(open), stream));
    return next_mark_++;
  } catch (const std::exception& error) {
    fail(error.what());
    return 0;
  }
}

void LaunchTrace::close_mark(uint64_t number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto found = marks_.extract(number);
  if (!found) return;
  auto& [open, stream] = found.mapped();
  const core::DeviceGuard guard(stream.device_index());
  try {
    open.launch.host_end = c10::getTime();
    open.end.record(stream);
    pending_.push_back(std::move(open));
    if (pending_.size() > kMostPending) finish_oldest();
  } catch (const std::exception& error) {
    fail(error.what());
  }
}

void LaunchTrace::finish_oldest() {
  Open open = std::move(pending_.front());
  pending_.pop_front();
  open.end.synchronize();
  auto& traced = open.launch;
  traced.begin = open.base->host + nanoseconds(open.base->event.elapsed_time(open.begin));
  traced.end = traced.begin + nanoseconds(open.begin.elapsed_time(open.end));
  auto& events = free_events_[traced.device];
  events.push_back(std::move(open.begin));
  events.push_back(std::move(open.end));
  launches_.push_back(std::move(traced));
}

}  // namespace torch_npu::profiler
