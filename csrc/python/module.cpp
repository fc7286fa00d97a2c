// torch_npu._C: the adapter's functions for the Python package. Nothing here runs CANN at import.
#include <torch/csrc/Exceptions.h>

#include "python/bindings.h"
#include "python/rpc.h"

PYBIND11_MODULE(_C, module) {
  namespace python = torch_npu::python;

  // PyTorch's own mapping, so that an out-of-memory or a bad index is the same Python class as everywhere.
  pybind11::register_local_exception_translator([](std::exception_ptr error) {
    if (!error) return;
    try {
      std::rethrow_exception(error);
    } catch (pybind11::builtin_exception&) {
      throw;  // pybind11's own: a TypeError stays one
    } catch (...) {
      torch::translate_exception_to_python(std::current_exception());
    }
  });

  python::init_device(module);
  python::init_stream(module);
  python::init_event(module);
  python::init_memory(module);
  python::init_random(module);
  python::init_options(module);
  python::init_kernels(module);
  python::init_ops(module);
  python::init_ipc(module);
  python::init_limits(module);
  python::init_npurt(module);
  python::init_determinism(module);
  python::init_dumps(module);
  python::init_overflow(module);
  python::init_profiler(module);
  python::init_sync_listener(module);
  python::init_graph(module);
  const auto torch = pybind11::module_::import("torch._C");
  if (pybind11::hasattr(torch, "_c10d_init")) python::init_distributed(module);
  if (pybind11::hasattr(torch, "_rpc_init")) module.def("_rpc_npu_init", [module]() mutable { python::init_rpc(module); });
}
