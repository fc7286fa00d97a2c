// Operators: the ledger of those that ran on the CPU.
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <ATen/ops/empty.h>

#include "aten/custom/table.h"
#include "aten/fallback.h"
#include "aten/fused_attention.h"
#include "op/formats.h"
#include "python/bindings.h"

namespace torch_npu::python {
namespace {

py::list ledger() {
  py::list all;
  for (const auto& record : native::fallback_ledger()) {
    all.append(py::make_tuple(record.op, record.calls, record.bytes, record.seconds));
  }
  return all;
}

// (name, schema, path) of each custom operator.
py::list custom_operators() {
  py::list all;
  for (const auto& op : native::custom_ops()) all.append(py::make_tuple(op.name, op.schema, op.path));
  return all;
}

py::list custom_operators_with_gradient() {
  py::list names;
  for (const auto& op : native::custom_ops()) {
    if (op.grad) names.append(op.name);
  }
  return names;
}

py::list custom_operators_with_composed_gradient() {
  py::list names;
  for (const auto& op : native::custom_ops()) {
    if (native::is_composed(op.grad)) names.append(op.name);
  }
  return names;
}

}  // namespace

void init_ops(py::module_& module) {
  module.def("_custom_ops", &custom_operators);
  module.def("_define_operators", &native::define_operators);
  module.def("_compressed_causal_mask", &native::compressed_causal_mask);
  module.def("_raw_memory", &op::raw_memory);
  module.def("_to_base_format", [](const at::Tensor& tensor) {
    if (tensor.has_storage()) op::normalize_storage(tensor.storage());
  });
  module.def("_formatted_copy", [](const at::Tensor& tensor) -> std::optional<at::Tensor> {
    auto storage = op::formatted_copy(tensor.storage());
    if (!storage) return std::nullopt;
    return at::empty({0}, tensor.options()).set_(std::move(storage));
  });
  module.def("_base_copy", &op::normalized);
  module.def("_custom_ops_with_gradient", &custom_operators_with_gradient);
  module.def("_custom_ops_with_composed_gradient", &custom_operators_with_composed_gradient);
  module.def("_fallback_ledger", &ledger);
  module.def("_reset_fallback_ledger", &native::reset_fallback_ledger);
  module.def("_apply_fallback_ops", &native::apply_fallback_ops);
}

}  // namespace torch_npu::python
