// Graphs: torch.npu.NPUGraph.
#include "graph/graph.h"

#include <pybind11/stl.h>

#include "python/bindings.h"

namespace torch_npu::python {
namespace {

aclmdlRICaptureMode mode_of(const std::string& name) {
  if (name == "global") return ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
  if (name == "thread_local") return ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL;
  if (name == "relaxed") return ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
  TORCH_CHECK_VALUE(false, "capture_error_mode is 'global', 'thread_local' or 'relaxed', got '", name, "'");
}

}  // namespace

void init_graph(py::module_& module) {
  using graph::Graph;
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
      .def("replay", &Graph::replay, Unlocked())
      .def("reset", &Graph::reset, Unlocked())
      .def("pool", &Graph::pool)
      .def("debug_dump", &Graph::debug_dump, py::arg("path"), Unlocked());
  module.def("_graph_pool_handle", [] { return memory::new_pool_id(false); });
  module.def("_is_current_stream_capturing", [] { return core::is_capturing(core::current_stream()); });
}

}  // namespace torch_npu::python
