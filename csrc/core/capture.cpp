#include "core/capture.h"

#include "core/error.h"

namespace torch_npu::core {

std::atomic<int> captures_under_way{0};

aclmdlRI captured_into(const Stream& stream) {
  DeviceGuard guard(stream.device_index());
  ensure_bound();
  auto status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
  aclmdlRI graph = nullptr;
  NPU_CHECK(acl::aclmdlRICaptureGetInfo(stream.raw(), &status, &graph));
  return status == ACL_MODEL_RI_CAPTURE_STATUS_NONE ? nullptr : graph;
}

RelaxedCapture::RelaxedCapture() {
  if (!any_capture()) return;
  NPU_CHECK(acl::aclmdlRICaptureThreadExchangeMode(&before_));
  changed_ = true;
}

RelaxedCapture::~RelaxedCapture() {
  if (changed_) NPU_CHECK_WARN(acl::aclmdlRICaptureThreadExchangeMode(&before_));
}

}  // namespace torch_npu::core
