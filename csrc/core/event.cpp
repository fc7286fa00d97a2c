#include "core/event.h"

#include <c10/util/Exception.h>

#include "core/error.h"

namespace torch_npu::core {
namespace {

thread_local std::unique_ptr<Event> event_to_adopt;

}  // namespace

AdoptedEvent::AdoptedEvent(std::unique_ptr<Event> event) { event_to_adopt = std::move(event); }
AdoptedEvent::~AdoptedEvent() { event_to_adopt.reset(); }
std::unique_ptr<Event> AdoptedEvent::take() noexcept { return std::move(event_to_adopt); }

void destroy_event(aclrtEvent raw, c10::DeviceIndex device) noexcept {
  if (!raw || in_bad_fork()) return;
  try {
    DeviceGuard guard(device);
    ensure_bound();
    NPU_CHECK_WARN(acl::aclrtDestroyEvent(raw));
  } catch (...) {
    // CANN is gone (process exit): the event went with it.
  }
}

Event::~Event() { destroy_event(raw_, device_); }

void Event::swap(Event& other) noexcept {
  std::swap(raw_, other.raw_);
  std::swap(device_, other.device_);
  std::swap(recorded_, other.recorded_);
  std::swap(timing_, other.timing_);
  std::swap(interprocess_, other.interprocess_);
}

void Event::create(c10::DeviceIndex device) {
  ensure_bound();
  uint32_t flag = ACL_EVENT_SYNC;
  if (timing_) flag |= ACL_EVENT_TIME_LINE;
  if (interprocess_) flag = ACL_EVENT_IPC;
  NPU_CHECK(acl::aclrtCreateEventExWithFlag(&raw_, flag));
  device_ = device;
}

Event Event::from_ipc(c10::DeviceIndex device, const aclrtIpcEventHandle& handle) {
  Event event(false, true);
  DeviceGuard guard(device);
  ensure_bound();
  NPU_CHECK(acl::aclrtIpcOpenEventHandle(handle, &event.raw_));
  event.device_ = device;
  event.recorded_ = true;
  return event;
}

aclrtIpcEventHandle Event::ipc_handle() {
  TORCH_CHECK(interprocess_, "this event was not made with interprocess=True");
  if (!raw_) create(current_device());
  aclrtIpcEventHandle handle;
  NPU_CHECK(acl::aclrtIpcGetEventHandle(raw_, &handle));
  return handle;
}

void Event::record(const Stream& stream) {
  DeviceGuard guard(stream.device_index());
  ensure_bound();
  if (!raw_) create(stream.device_index());
  TORCH_CHECK(device_ == stream.device_index(), "event of npu:", static_cast<int>(device_),
              " recorded on a stream of npu:", static_cast<int>(stream.device_index()));
  NPU_CHECK(acl::aclrtRecordEvent(raw_, stream.raw()));
  recorded_ = true;
}

void Event::block(const Stream& stream) const {
  if (!recorded_) return;
  DeviceGuard guard(stream.device_index());
  ensure_bound();
  NPU_CHECK(acl::aclrtStreamWaitEvent(stream.raw(), raw_));
}

bool Event::query() const {
  if (!recorded_) return true;
  DeviceGuard guard(device_);
  ensure_bound();
  aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
  NPU_CHECK(acl::aclrtQueryEventStatus(raw_, &status));
  return status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
}

void Event::synchronize() const {
  if (!recorded_) return;
  DeviceGuard guard(device_);
  ensure_bound();
  NPU_CHECK(acl::aclrtSynchronizeEvent(raw_));
}

uint64_t Event::recorded_time() const {
  TORCH_CHECK(timing_, "an event without timing has no time: torch.npu.Event(enable_timing=True)");
  TORCH_CHECK(recorded_, "the event was never recorded");
  const DeviceGuard guard(device_);
  ensure_bound();
  uint64_t microseconds = 0;
  NPU_CHECK(acl::aclrtEventGetTimestamp(raw_, &microseconds));
  return microseconds;
}

void Event::reset(const Stream& stream) const {
  if (!recorded_) return;
  const DeviceGuard guard(stream.device_index());
  ensure_bound();
  NPU_CHECK(acl::aclrtResetEvent(raw_, stream.raw()));
}

double Event::elapsed_time(const Event& end) const {
  TORCH_CHECK_VALUE(timing_ && end.timing_, "both events must be made with enable_timing=True to measure time between them");
  TORCH_CHECK_VALUE(recorded_ && end.recorded_, "both events must be recorded before the time between them is asked for");
  TORCH_CHECK(query() && end.query(), "both events must have been reached: synchronize first");
  float milliseconds = 0;
  NPU_CHECK(acl::aclrtEventElapsedTime(&milliseconds, raw_, end.raw_));
  return milliseconds;
}

}  // namespace torch_npu::core
