// The options table.
#include "core/options.h"

#include <pybind11/stl.h>

#include "op/check_numbers.h"
#include "op/launch_hooks.h"
#include "python/bindings.h"

namespace torch_npu::python {
namespace {

py::list describe() {
  py::list all;
  for (const auto& option : core::describe_options()) {
    py::dict entry;
    entry["name"] = option.name;
    entry["type"] = option.type == "std::string" ? "str" : option.type;
    entry["default"] = option.initial;
    entry["value"] = option.value;
    entry["variables"] = option.variables;
    entry["doc"] = option.doc;
    all.append(entry);
  }
  return all;
}

void set(const std::string& name, const std::string& value) {
  core::set_option(name, value);
  // The options that are not read where they act, so that launches need not ask.
  if (name == "launch_blocking") op::set_launch_blocking(core::options().launch_blocking);
  if (name == "check_nan_inf") op::set_check_numbers(core::options().check_nan_inf);
}

}  // namespace

void init_options(py::module_& module) {
  module.def("_describe_options", &describe);
  module.def("_set_option", &set);
}

}  // namespace torch_npu::python
