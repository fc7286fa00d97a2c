// Tells a Python object of events and waits: see core/sync_listener.h.
#include "core/sync_listener.h"

#include "python/bindings.h"
#include "python/unraisable.h"

namespace torch_npu::python {
namespace {

class Teller final : public core::SyncListener {
 public:
  py::object target;  // with the GIL held; None: nobody

  void event_recorded(const void* event, core::Stream stream) override { tell("raw_event_recorded", number(event), key(stream)); }
  void stream_waits(const void* event, core::Stream stream) override { tell("raw_stream_waits", number(event), key(stream)); }
  void host_waits_event(const void* event) override { tell("raw_host_waits_event", number(event)); }
  void host_waits_stream(core::Stream stream) override { tell("raw_host_waits_stream", key(stream)); }
  void host_waits_device(c10::DeviceIndex device) override { tell("host_waits_device", static_cast<int>(device)); }

 private:
  static uintptr_t number(const void* event) { return reinterpret_cast<uintptr_t>(event); }
  static std::pair<int, int64_t> key(core::Stream stream) { return {static_cast<int>(stream.device_index()), stream.id()}; }

  template <class... A>
  void tell(const char* method, const A&... arguments) {
    if (!Py_IsInitialized()) return;
    const py::gil_scoped_acquire locked;
    if (!target || target.is_none()) return;
    try {
      target.attr(method)(arguments...);
    } catch (py::error_already_set& error) {
      discard(error, method);  // an event has been recorded whatever Python makes of it
    }
  }
};

void listen_to_sync(py::object target) {
  static auto* teller = new Teller;
  const bool wanted = !target.is_none();
  teller->target = std::move(target);
  core::sync_listener.store(wanted ? teller : nullptr, std::memory_order_release);
}

}  // namespace

void init_sync_listener(py::module_& module) { module.def("_listen_to_sync", &listen_to_sync); }

}  // namespace torch_npu::python
