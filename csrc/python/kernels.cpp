// Python functions as the kernels of operators: torch.library's own way takes twenty times as long to register one, and
// `import torch_npu` registers hundreds.
#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

#include "python/bindings.h"

namespace torch_npu::python {
namespace {

// Types that the dispatcher carries as integers, and Python as objects of their own.
py::object to_python(const c10::Argument& argument, const c10::IValue& value) {
  if (value.isInt()) {
    c10::TypePtr type = argument.real_type();
    if (const auto* optional = type->castRaw<c10::OptionalType>()) type = optional->getElementType();
    switch (type->kind()) {
      case c10::TypeKind::ScalarTypeType:
        return py::cast(static_cast<at::ScalarType>(value.toInt()));
      case c10::TypeKind::LayoutType:
        return py::cast(static_cast<at::Layout>(value.toInt()));
      case c10::TypeKind::MemoryFormatType:
        return py::cast(static_cast<at::MemoryFormat>(value.toInt()));
      default:
        break;
    }
  }
  return torch::jit::toPyObject(value);
}

bool is_default(const c10::Argument& argument, const c10::IValue& value) {
  return argument.default_value() && *argument.default_value() == value;
}

// What the function made for an operator's name answers. It is made at the first call, and stays for as long as the process
// lives: the dispatcher ends after the interpreter, which no reference may outlive.
class PythonKernel final : public c10::OperatorKernel {
 public:
  PythonKernel(std::string name, PyObject* make) : name_(std::move(name)), make_(make) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, c10::Stack* stack) {
    const auto& schema = op.schema();
    py::gil_scoped_acquire gil;
    if (function_ == nullptr) {
      py::object function = py::reinterpret_borrow<py::object>(make_)(name_);
      if (function_ == nullptr) function_ = function.release().ptr();  // another thread may have come first, while it was made
    }
    const auto [args, kwargs] = arguments(schema, torch::jit::last(*stack, schema.arguments().size()));
    torch::jit::drop(*stack, schema.arguments().size());
    auto result = py::reinterpret_steal<py::object>(PyObject_Call(function_, args.ptr(), kwargs.ptr()));
    if (!result) throw python_error();
    push(schema, result, *stack);
  }

 private:
  // Positional arguments up to the last that is not its default, and those by name that are not theirs.
  static std::pair<py::tuple, py::dict> arguments(const c10::FunctionSchema& schema, c10::ArrayRef<c10::IValue> values) {
    const auto& all = schema.arguments();
    size_t positional = 0;
    py::dict kwargs;
    for (size_t i = 0; i < all.size(); ++i) {
      if (is_default(all[i], values[i])) continue;
      if (all[i].kwarg_only()) {
        kwargs[all[i].name().c_str()] = to_python(all[i], values[i]);
      } else {
        positional = i + 1;
      }
    }
    py::tuple args(positional);
    for (size_t i = 0; i < positional; ++i) args[i] = to_python(all[i], values[i]);
    return {std::move(args), std::move(kwargs)};
  }

  static void push(const c10::FunctionSchema& schema, const py::object& result, c10::Stack& stack) {
    const auto& returns = schema.returns();
    if (returns.empty()) {
      TORCH_CHECK(result.is_none(), schema.name(), " has no result, its Python function returned one");
    } else if (returns.size() == 1) {
      stack.push_back(torch::jit::toIValue(result, returns[0].real_type()));
    } else {
      const auto results = py::cast<py::sequence>(result);
      TORCH_CHECK(results.size() == returns.size(), schema.name(), " has ", returns.size(),
                  " results, its Python function returned ", results.size());
      for (size_t i = 0; i < returns.size(); ++i) stack.push_back(torch::jit::toIValue(results[i], returns[i].real_type()));
    }
  }

  const std::string name_;
  PyObject* const make_;
  PyObject* function_ = nullptr;
};

// Registers, for each operator's name, what make(name) returns when it is first called.
void implement(const std::string& name_space, const std::string& key, const std::vector<std::string>& names,
               const py::object& make) {
  static auto* libraries = new std::vector<torch::Library>;
  auto& library = libraries->emplace_back(torch::Library::IMPL, name_space, c10::parseDispatchKey(key), __FILE__, __LINE__);
  make.inc_ref();
  for (const auto& name : names) {
    library.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<PythonKernel>(name, make.ptr())));
  }
}

}  // namespace

void init_kernels(py::module_& module) { module.def("_implement", &implement); }

}  // namespace torch_npu::python
