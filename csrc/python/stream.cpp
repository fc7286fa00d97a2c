// Streams; torch.npu.Stream is a torch.Stream.
#include "python/streams.h"

#include "acl/runtime.h"
#include "core/device.h"
#include "core/error.h"
#include "python/bindings.h"

namespace torch_npu::python {
namespace {

// A stream that other code made. CANN is asked for it at once: whatever is no stream is told here, not at its first use.
c10::StreamId external_stream(uintptr_t raw, c10::DeviceIndex device) {
  const auto handle = reinterpret_cast<aclrtStream>(raw);
  const auto made = core::external_stream(handle, device);
  const core::DeviceGuard guard(made.device_index());
  core::ensure_bound();
  aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
  const int code = acl::aclrtStreamQuery(handle, &status);
  if (code != 0 && code != ACL_ERROR_RT_STREAM_CAPTURED) core::throw_cann_error(code, "aclrtStreamQuery", __FILE__, __LINE__);
  return made.id();
}

uintptr_t handle(c10::StreamId id, c10::DeviceIndex device) { return reinterpret_cast<uintptr_t>(stream_of(id, device).raw()); }

// As everywhere in PyTorch, the stream's device becomes current too.
void set_stream(c10::StreamId id, c10::DeviceIndex device) {
  core::exchange_stream(stream_of(id, device));
  core::exchange_device(device);
}

}  // namespace

void init_stream(py::module_& module) {
  module.def("_current_stream_id", [](c10::DeviceIndex device) { return core::current_stream(device).id(); });
  module.def("_default_stream_id", [](c10::DeviceIndex device) { return core::default_stream(device).id(); });
  module.def("_external_stream", &external_stream);
  module.def("_set_stream", &set_stream);
  module.def("_stream_handle", &handle);
  module.def("_stream_priority", [](c10::StreamId id, c10::DeviceIndex device) { return stream_of(id, device).priority(); });
}

}  // namespace torch_npu::python
