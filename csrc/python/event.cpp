// Events. torch.npu.Event is a torch.Event, whose c10::Event holds a core::Event once it was recorded.
#include <torch/csrc/Event.h>

#include "core/event.h"
#include "python/bindings.h"
#include "python/streams.h"

namespace torch_npu::python {
namespace {

THPEvent* unwrap(const py::handle& event) {
  if (!THPEvent_Check(event.ptr())) throw py::type_error("expected a torch.npu.Event");
  return reinterpret_cast<THPEvent*>(event.ptr());
}

core::Event* inner(const py::handle& event) { return static_cast<core::Event*>(unwrap(event)->event.eventId()); }

uintptr_t handle(const py::handle& event) {
  const auto* npu_event = inner(event);
  return npu_event ? reinterpret_cast<uintptr_t>(npu_event->raw()) : 0;
}

core::Event& recorded(const py::handle& event) {
  auto* npu_event = inner(event);
  TORCH_CHECK(npu_event, "the event was never recorded");
  return *npu_event;
}

uint64_t recorded_time(const py::handle& event) {
  const auto& npu_event = recorded(event);
  const py::gil_scoped_release unlocked;
  npu_event.synchronize();
  return npu_event.recorded_time();
}

void reset_event(const py::handle& event, c10::StreamId id, c10::DeviceIndex device) {
  if (const auto* npu_event = inner(event)) npu_event->reset(stream_of(id, device));
}

// torch.Event's own takes no subclass as the other event.
double elapsed_time(const py::handle& start, const py::handle& end) {
  return unwrap(start)->event.elapsedTime(unwrap(end)->event);
}

// The first record of an event that other processes will open: it needs another kind of CANN event.
void record_ipc(const py::handle& event, c10::StreamId id, c10::DeviceIndex device) {
  const core::AdoptedEvent adopted(std::make_unique<core::Event>(false, true));
  unwrap(event)->event.record(stream_of(id, device).unwrap());
}

py::bytes ipc_handle(const py::handle& event) {
  auto* npu_event = inner(event);
  TORCH_CHECK(npu_event, "the event must be recorded before it is sent to another process");
  const aclrtIpcEventHandle exported = npu_event->ipc_handle();
  return py::bytes(reinterpret_cast<const char*>(&exported), sizeof(exported));
}

void open_ipc(const py::handle& event, c10::DeviceIndex device, const std::string& bytes) {
  aclrtIpcEventHandle exported;
  TORCH_CHECK_VALUE(bytes.size() == sizeof(exported), "an event handle has ", sizeof(exported), " bytes, got ", bytes.size());
  std::memcpy(&exported, bytes.data(), sizeof(exported));
  const core::AdoptedEvent adopted(std::make_unique<core::Event>(core::Event::from_ipc(device, exported)));
  unwrap(event)->event.record(core::default_stream(device).unwrap());
}

}  // namespace

void init_event(py::module_& module) {
  module.def("_event_handle", &handle);
  module.def("_event_recorded_time", &recorded_time);
  module.def("_event_reset", &reset_event);
  module.def("_event_elapsed_time", &elapsed_time);
  module.def("_event_record_ipc", &record_ipc);
  module.def("_event_ipc_handle", &ipc_handle);
  module.def("_event_open_ipc", &open_ipc);
}

}  // namespace torch_npu::python
