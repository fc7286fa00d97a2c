// The default generators of the devices.
#include <torch/csrc/Generator.h>

#include "core/generator.h"
#include "python/bindings.h"

namespace torch_npu::python {

void init_random(py::module_& module) {
  module.def("_default_generator", [](c10::DeviceIndex device) {
    return py::reinterpret_steal<py::object>(THPGenerator_Wrap(core::default_generator(device)));
  });
}

}  // namespace torch_npu::python
