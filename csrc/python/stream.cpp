// Streams. Python carries a stream as (id, device index), as c10 does; torch.npu.Stream is a torch.Stream.
#include "core/stream.h"
#include "python/bindings.h"

namespace torch_npu::python {
namespace {

core::Stream stream(c10::StreamId id, c10::DeviceIndex device) {
  return core::Stream(c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::PrivateUse1, device), id));
}

uintptr_t handle(c10::StreamId id, c10::DeviceIndex device) { return reinterpret_cast<uintptr_t>(stream(id, device).raw()); }

// As everywhere in PyTorch, the stream's device becomes current too.
void set_stream(c10::StreamId id, c10::DeviceIndex device) {
  core::exchange_stream(stream(id, device));
  core::set_device(device);
}

}  // namespace

void init_stream(py::module_& module) {
  module.def("_current_stream_id", [](c10::DeviceIndex device) { return core::current_stream(device).id(); });
  module.def("_default_stream_id", [](c10::DeviceIndex device) { return core::default_stream(device).id(); });
  module.def("_external_stream", [](uintptr_t raw, c10::DeviceIndex device) {
    return core::external_stream(reinterpret_cast<aclrtStream>(raw), device).id();
  });
  module.def("_set_stream", &set_stream);
  module.def("_stream_handle", &handle);
  module.def("_stream_priority", [](c10::StreamId id, c10::DeviceIndex device) { return stream(id, device).priority(); });
}

}  // namespace torch_npu::python
