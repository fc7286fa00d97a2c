// Graphs: torch.npu.NPUGraph.
#include "graph/graph.h"

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "core/device.h"
#include "core/error.h"
#include "core/external_event.h"
#include "memory/storage.h"
#include "python/bindings.h"
#include "python/streams.h"
#include "python/unraisable.h"

namespace torch_npu::python {
namespace {

aclmdlRICaptureMode mode_of(const std::string& name) {
  if (name == "global") return ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
  if (name == "thread_local") return ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL;
  if (name == "relaxed") return ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
  TORCH_CHECK_VALUE(false, "capture_error_mode is 'global', 'thread_local' or 'relaxed', got '", name, "'");
}

using core::ExternalEvent;

void record(ExternalEvent& event, c10::StreamId id, c10::DeviceIndex device) { event.record(stream_of(id, device)); }
void wait(ExternalEvent& event, c10::StreamId id, c10::DeviceIndex device) { event.wait(stream_of(id, device)); }
void reset(ExternalEvent& event, c10::StreamId id, c10::DeviceIndex device) { event.reset(stream_of(id, device)); }

void begin_group(c10::StreamId id, c10::DeviceIndex device) { graph::begin_task_group(stream_of(id, device)); }
uintptr_t end_group(c10::StreamId id, c10::DeviceIndex device) {
  return reinterpret_cast<uintptr_t>(graph::end_task_group(stream_of(id, device)));
}
void begin_update(c10::StreamId id, c10::DeviceIndex device, uintptr_t group) {
  graph::begin_task_update(stream_of(id, device), reinterpret_cast<aclrtTaskGrp>(group));
}
void end_update(c10::StreamId id, c10::DeviceIndex device) { graph::end_task_update(stream_of(id, device)); }

// A function of the program in the order of a stream; in a capture, at each replay.
struct HostFunction {
  py::function function;
  bool repeated;
};

void call_host_function(void* data) {
  if (!Py_IsInitialized()) return;
  auto* host = static_cast<HostFunction*>(data);
  const py::gil_scoped_acquire locked;
  try {
    host->function();
  } catch (py::error_already_set& error) {
    discard(error, host->function);
  }
  if (!host->repeated) delete host;
}

void launch_host_function(c10::StreamId id, c10::DeviceIndex device, py::function function) {
  const auto stream = stream_of(id, device);
  const core::DeviceGuard guard(stream.device_index());
  core::ensure_bound();
  // Nothing tells when a graph is gone whose replays call the function, so it stays.
  auto host = std::make_unique<HostFunction>(HostFunction{std::move(function), core::is_capturing(stream)});
  {
    const py::gil_scoped_release unlocked;
    NPU_CHECK(acl::aclrtLaunchHostFunc(stream.raw(), &call_host_function, host.get()));
  }
  host.release();
}

// A tensor on the memory of another, which does not keep it alive.
at::Tensor weak_ref_tensor(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.is_privateuseone(), "expected a tensor on the NPU, got one on ", tensor.device());
  return memory::make_tensor(c10::DataPtr(tensor.data_ptr(), tensor.device()), tensor.sizes(), tensor.strides(),
                             tensor.scalar_type());
}

}  // namespace

void init_graph(py::module_& module) {
  using graph::Graph;
  module.def("_launch_host_func", &launch_host_function);
  module.def("_weak_ref_tensor", &weak_ref_tensor);
  py::class_<ExternalEvent>(module, "_ExternalEvent")
      .def(py::init<>())
      .def("record", &record, Unlocked())
      .def("wait", &wait, Unlocked())
      .def("reset", &reset, Unlocked())
      .def("handle", [](const ExternalEvent& event) { return reinterpret_cast<uintptr_t>(event.raw()); })
      .def("device_index", &ExternalEvent::device_index);
  module.attr("_NPUTaskGroupHandle") = py::type::of(py::int_());  // clients annotate with it
  module.def("_graph_task_group_begin", &begin_group);
  module.def("_graph_task_group_end", &end_group);
  module.def("_graph_task_update_begin", &begin_update, Unlocked());
  module.def("_graph_task_update_end", &end_update, Unlocked());
  py::class_<Graph>(module, "_NPUGraph")
      .def(py::init<>())
      .def(
          "capture_begin",
          [](Graph& self, std::optional<memory::MempoolId> pool, const std::string& capture_error_mode) {
            const auto mode = mode_of(capture_error_mode);
            py::gil_scoped_release unlocked;
            self.capture_begin(pool.value_or(memory::MempoolId{0, 0}), mode);
          },
          py::arg("pool") = py::none(), py::arg("capture_error_mode") = "global")
      .def("capture_end", &Graph::capture_end, Unlocked())
      .def(
          "_begin_branch", [](Graph& self, const at::Tensor& condition) { self.begin_branch(condition.const_data_ptr()); },
          py::arg("condition"), Unlocked())
      .def("_end_branch", &Graph::end_branch, Unlocked())
      .def("replay", &Graph::replay, Unlocked())
      .def("reset", &Graph::reset, Unlocked())
      .def("pool", &Graph::pool)
      .def("debug_dump", &Graph::debug_dump, py::arg("path"), Unlocked());
  module.def("_graph_pool_handle", [] { return memory::new_pool_id(false); });
  module.def("_capture_number", [] { return core::capture_number(core::current_stream()); });
  module.def("_is_current_stream_capturing", [] { return core::is_capturing(core::current_stream()); });
}

}  // namespace torch_npu::python
