#include "core/capture.h"

#include "acl/graph.h"
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

uint64_t capture_number_of(const Stream& stream) {
  const aclmdlRI graph = captured_into(stream);
  if (!graph) return 0;
  uint32_t number = 0;
  NPU_CHECK(acl::aclmdlRIGetId(graph, &number));
  return uint64_t{number} + 1;
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
