// Limits of what a device or a stream may use: cores, and the time of one operator.
#include "core/error.h"
#include "core/stream.h"
#include "python/bindings.h"
#include "python/streams.h"

namespace torch_npu::python {
namespace {

aclrtDevResLimitType kind(const std::string& core) {
  if (core == "cube") return ACL_RT_DEV_RES_CUBE_CORE;
  TORCH_CHECK_VALUE(core == "vector", "cube or vector cores, got ", core);
  return ACL_RT_DEV_RES_VECTOR_CORE;
}

void set_device_limit(c10::DeviceIndex device, const std::string& core, uint32_t count) {
  core::check_device(device);
  core::ensure_bound();
  NPU_CHECK(acl::aclrtSetDeviceResLimit(device, kind(core), count));
}

uint32_t device_limit(c10::DeviceIndex device, const std::string& core) {
  core::check_device(device);
  core::ensure_bound();
  uint32_t count = 0;
  NPU_CHECK(acl::aclrtGetDeviceResLimit(device, kind(core), &count));
  return count;
}

void set_stream_limit(c10::StreamId id, c10::DeviceIndex device, const std::string& core, uint32_t count) {
  const core::DeviceGuard guard(device);
  core::ensure_bound();
  NPU_CHECK(acl::aclrtSetStreamResLimit(stream_of(id, device).raw(), kind(core), count));
}

uint32_t stream_limit(c10::StreamId id, c10::DeviceIndex device, const std::string& core) {
  const core::DeviceGuard guard(device);
  core::ensure_bound();
  uint32_t count = 0;
  NPU_CHECK(acl::aclrtGetStreamResLimit(stream_of(id, device).raw(), kind(core), &count));
  return count;
}

void reset_stream_limit(c10::StreamId id, c10::DeviceIndex device) {
  const core::DeviceGuard guard(device);
  core::ensure_bound();
  NPU_CHECK(acl::aclrtResetStreamResLimit(stream_of(id, device).raw()));
}

// Microseconds; returns what the device made of it.
uint64_t set_operator_timeout(uint64_t microseconds) {
  core::ensure_bound();
  uint64_t actual = 0;
  NPU_CHECK(acl::aclrtSetOpExecuteTimeOutV2(microseconds, &actual));
  return actual;
}

}  // namespace

void init_limits(py::module_& module) {
  module.def("_set_device_limit", &set_device_limit);
  module.def("_device_limit", &device_limit);
  module.def("_set_stream_limit", &set_stream_limit);
  module.def("_stream_limit", &stream_limit);
  module.def("_reset_stream_limit", &reset_stream_limit);
  module.def("_set_operator_timeout", &set_operator_timeout);
}

}  // namespace torch_npu::python
