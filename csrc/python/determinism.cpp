// Determinism, which CANN is told of.
#include "core/determinism.h"

#include "python/bindings.h"

namespace torch_npu::python {

void init_determinism(py::module_& module) {
  module.def("_follow_determinism", &core::follow_determinism, Unlocked());
  module.def("_set_deterministic_level", &core::set_deterministic_level);
  module.def("_deterministic_level", &core::deterministic_level);
}

}  // namespace torch_npu::python
