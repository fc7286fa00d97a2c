// The parts of torch_npu._C, one per subject.
#pragma once

#include <pybind11/pybind11.h>

namespace torch_npu::python {

namespace py = pybind11;

// For functions that may wait for the device, or run long: no GIL while they do.
using Unlocked = py::call_guard<py::gil_scoped_release>;

void init_device(py::module_& module);
void init_stream(py::module_& module);
void init_event(py::module_& module);
void init_memory(py::module_& module);
void init_random(py::module_& module);
void init_options(py::module_& module);
void init_kernels(py::module_& module);
void init_ops(py::module_& module);
void init_ipc(py::module_& module);
void init_limits(py::module_& module);
void init_npurt(py::module_& module);
void init_distributed(py::module_& module);
void init_overflow(py::module_& module);
void init_determinism(py::module_& module);
void init_dumps(py::module_& module);
void init_graph(py::module_& module);
void init_profiler(py::module_& module);
void init_sync_listener(py::module_& module);

}  // namespace torch_npu::python
