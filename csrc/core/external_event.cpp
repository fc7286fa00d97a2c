#include "core/external_event.h"

#include "core/error.h"
#include "core/event.h"

namespace torch_npu::core {

ExternalEvent::~ExternalEvent() { destroy_event(raw_, device_); }

aclrtEvent ExternalEvent::on(const Stream& stream) {
  ensure_bound();
  if (!raw_) {
    NPU_CHECK(acl::aclrtCreateEventExWithFlag(&raw_, ACL_EVENT_EXTERNAL));
    device_ = stream.device_index();
  }
  TORCH_CHECK(device_ == stream.device_index(), "an external event of npu:", static_cast<int>(device_),
              " used on a stream of npu:", static_cast<int>(stream.device_index()));
  return raw_;
}

void ExternalEvent::record(const Stream& stream) {
  const DeviceGuard guard(stream.device_index());
  NPU_CHECK(acl::aclrtRecordEvent(on(stream), stream.raw()));
}

void ExternalEvent::wait(const Stream& stream) {
  const DeviceGuard guard(stream.device_index());
  NPU_CHECK(acl::aclrtStreamWaitEvent(stream.raw(), on(stream)));
}

void ExternalEvent::reset(const Stream& stream) {
  const DeviceGuard guard(stream.device_index());
  NPU_CHECK(acl::aclrtResetEvent(on(stream), stream.raw()));
}

}  // namespace torch_npu::core
