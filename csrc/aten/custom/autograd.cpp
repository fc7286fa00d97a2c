// Gradients of the custom operators, by the rules of custom_ops.yaml.
//
// Note [Custom autograd]
// One boxed kernel serves all operators. Where no input requires a gradient it only passes the call on. Otherwise it
// saves what the rule names and leaves a node that calls the backward operator, itself a custom operator, so that
// CPU tensors, FakeTensor and torch.compile see nothing but operators. An operator without a rule leaves a node that
// throws: no gradient goes missing without a word. Where CANN has no backward operator but the operator can be composed of others
// (`grad: composed`), a call that needs a gradient is composed, by the function of torch_npu/_cpu_ops.
#include <algorithm>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <ATen/core/dispatch/Dispatcher.h>

#include "aten/custom/table.h"

namespace torch_npu::native {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Stack = torch::jit::Stack;

struct Call {
  const CustomOp& custom;
  const c10::OperatorHandle& op;
  c10::DispatchKeySet keys;
  Stack* stack;

  at::ArrayRef<c10::IValue> arguments() const { return torch::jit::last(*stack, op.schema().arguments().size()); }
  at::ArrayRef<c10::IValue> results() const { return torch::jit::last(*stack, op.schema().returns().size()); }
  void run() const {
    at::AutoDispatchBelowADInplaceOrView guard;
    op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
  }
};

// The defined tensors among the values, in lists too.
variable_list tensors_of(at::ArrayRef<c10::IValue> values) {
  variable_list tensors;
  for (const auto& value : values) {
    if (value.isTensor() && value.toTensor().defined()) tensors.push_back(value.toTensor());
    if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(tensor);
    }
  }
  return tensors;
}
at::Tensor tensor_or_none(const c10::IValue& value) { return value.isTensor() ? value.toTensor() : at::Tensor(); }

// Where `argument`, or the first tensor of it where it is a list, stands among the tensors of all arguments, or of all results,
// for which gradients come; -1: nowhere.
int64_t position(at::ArrayRef<c10::IValue> arguments, int argument) {
  if (argument < 0 || (!arguments[argument].isTensorList() && !tensor_or_none(arguments[argument]).defined())) return -1;
  return static_cast<int64_t>(tensors_of(arguments.slice(0, argument)).size());
}

c10::OperatorHandle find(const std::string& name) {
  const auto dot = std::min(name.find('.'), name.size());
  return c10::Dispatcher::singleton().findSchemaOrThrow(("npu::" + name.substr(0, dot)).c_str(),
                                                        dot < name.size() ? name.substr(dot + 1).c_str() : "");
}

// What the backward operator is given, as far as the forward operator knows it; of a gradient its position among the results.
c10::IValue value_of(const GradSource& source, at::ArrayRef<c10::IValue> arguments, at::ArrayRef<c10::IValue> results) {
  const auto described = [&](auto describe) {
    const auto tensor = tensor_or_none(arguments[source.index]);
    return tensor.defined() ? c10::IValue(describe(tensor)) : c10::IValue();
  };
  switch (source.kind) {
    case GradKind::kGradient:
      return position(results, source.index);
    case GradKind::kArgument:
      return arguments[source.index];
    case GradKind::kResult:
      return results[source.index];
    case GradKind::kDtype:
      return described([](const at::Tensor& x) { return static_cast<int64_t>(x.scalar_type()); });
    case GradKind::kSizes:
      return described([](const at::Tensor& x) { return x.sym_sizes(); });
    case GradKind::kSize:
      return described([&](const at::Tensor& x) { return x.sym_size(source.dim); });
    case GradKind::kTrue:
      return std::vector<bool>(static_cast<size_t>(source.index), true);
    case GradKind::kNumber:
      return static_cast<int64_t>(source.index);
    case GradKind::kText:
      return std::string(source.text);
    case GradKind::kNone:
    case GradKind::kDefault:
      return {};
  }
  return {};
}

struct CustomFunction : torch::autograd::Function<CustomFunction> {
  // `inputs` are the tensors of the arguments on the stack.
  static variable_list forward(AutogradContext* ctx, const at::TensorList& inputs, Call* call) {
    const auto arguments = call->arguments().vec();
    call->run();
    const auto results = call->results();
    const auto outputs = tensors_of(results);
    ctx->mark_non_differentiable(constant_ones(call->custom.grad, results));
    ctx->saved_data["op"] = reinterpret_cast<int64_t>(&call->custom);
    ctx->saved_data["inputs"] = static_cast<int64_t>(inputs.size());
    if (call->custom.grad) save(ctx, *call->custom.grad, arguments, results);
    return outputs;
  }

  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    const auto& custom = *reinterpret_cast<const CustomOp*>(ctx->saved_data["op"].toInt());
    TORCH_CHECK_NOT_IMPLEMENTED(custom.grad, "npu::", custom.name, " has no gradient");
    const auto op = find(custom.grad->backward);
    Stack stack;
    restore(ctx, *custom.grad, op.schema(), gradients, stack);
    op.callBoxed(stack);

    variable_list results(ctx->saved_data["inputs"].toInt() + 1);  // one for the Call
    const auto receivers = ctx->saved_data["receivers"].toIntVector();
    for (size_t i = 0; i < receivers.size(); ++i) {
      if (receivers[i] < 0) continue;
      const auto found = stack[i].isTensorList() ? stack[i].toTensorVector() : variable_list{tensor_or_none(stack[i])};
      for (size_t j = 0; j < found.size(); ++j) {
        const size_t input = receivers[i] + j;
        // The operator computes all gradients; hooks see those that are wanted alone, as of PyTorch's own operators.
        if (ctx->needs_input_grad(input)) results[input] = found[j];
      }
    }
    return results;
  }

 private:
  static constexpr int64_t kNoList = -1;

  // Results without a gradient: by their dtype, or since the rule takes none of them.
  static variable_list constant_ones(const GradRule* rule, at::ArrayRef<c10::IValue> results) {
    variable_list constant;
    for (size_t i = 0; i < results.size(); ++i) {
      const auto taken = [&](const GradSource& source) {
        return source.kind == GradKind::kGradient && source.index == static_cast<int>(i);
      };
      const bool used = rule == nullptr || std::any_of(rule->arguments.begin(), rule->arguments.end(), taken);
      for (const at::Tensor& tensor : tensors_of(results.slice(i, 1))) {
        if (!used || !torch::autograd::isDifferentiableType(tensor.scalar_type())) constant.push_back(tensor);
      }
    }
    return constant;
  }

  // Keeps what the backward operator takes: tensors apart from all else, those of lists behind the others.
  static void save(AutogradContext* ctx, const GradRule& rule, const std::vector<c10::IValue>& arguments,
                   at::ArrayRef<c10::IValue> results) {
    variable_list tensors, listed;
    c10::List<int64_t> counts;
    c10::List<c10::IValue> others(c10::AnyType::get());
    for (const auto& source : rule.arguments) {
      const auto value = value_of(source, arguments, results);
      const variable_list list = value.isTensorList() ? value.toTensorVector() : variable_list();
      listed.insert(listed.end(), list.begin(), list.end());
      counts.push_back(value.isTensorList() ? static_cast<int64_t>(list.size()) : kNoList);
      tensors.push_back(tensor_or_none(value));
      others.push_back(value.isTensor() || value.isTensorList() ? c10::IValue() : value);
    }
    tensors.insert(tensors.end(), listed.begin(), listed.end());
    c10::List<int64_t> receivers;
    for (const int receiver : rule.receivers) receivers.push_back(position(arguments, receiver));
    ctx->save_for_backward(tensors);
    ctx->saved_data["others"] = others;
    ctx->saved_data["counts"] = counts;
    ctx->saved_data["receivers"] = receivers;
  }

  static void restore(AutogradContext* ctx, const GradRule& rule, const c10::FunctionSchema& schema,
                      const variable_list& gradients, Stack& stack) {
    const auto others = ctx->saved_data["others"].toList();
    const auto counts = ctx->saved_data["counts"].toIntVector();
    const auto tensors = ctx->get_saved_variables();
    auto listed = tensors.begin() + static_cast<std::ptrdiff_t>(rule.arguments.size());
    for (size_t i = 0; i < schema.arguments().size(); ++i) {
      if (i >= rule.arguments.size() || rule.arguments[i].kind == GradKind::kDefault) {
        const auto& value = schema.arguments()[i].default_value();
        TORCH_CHECK(value.has_value(), "npu::", rule.backward, " is not given its argument ", schema.arguments()[i].name());
        stack.push_back(*value);
      } else if (rule.arguments[i].kind == GradKind::kGradient) {
        const int64_t place = others.get(i).toInt();
        const at::Tensor gradient = place < 0 ? at::Tensor() : gradients[place];
        // That of an empty result is left out: made of zeros, it would be a plain tensor among distributed ones.
        const bool optional = schema.arguments()[i].type()->kind() == c10::TypeKind::OptionalType;
        stack.emplace_back(optional && gradient.defined() && gradient.sym_numel() == 0 ? at::Tensor() : gradient);
      } else if (counts[i] != kNoList) {
        stack.emplace_back(variable_list(listed, listed + counts[i]));
        listed += counts[i];
      } else if (tensors[i].defined()) {
        stack.emplace_back(tensors[i]);
      } else {
        stack.push_back(others.get(i));
      }
    }
  }
};

class AutogradKernel final : public c10::OperatorKernel {
 public:
  explicit AutogradKernel(const CustomOp& custom) : custom_(custom) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) const {
    Call call{custom_, op, keys, stack};
    // An operator that writes into its arguments (a conversion of a weight) leaves their graph alone.
    if (!at::GradMode::is_enabled() || !any_requires_grad(call.arguments()) || op.schema().is_mutable()) return call.run();
    const auto outputs = CustomFunction::apply(at::TensorList(tensors_of(call.arguments())), &call);
    size_t next = 0;
    for (size_t i = stack->size() - op.schema().returns().size(); i < stack->size(); ++i) {
      c10::IValue& result = (*stack)[i];
      if (result.isTensor() && result.toTensor().defined()) result = outputs[next++];
      if (result.isTensorList()) {
        auto list = result.toTensorList();
        for (size_t j = 0; j < list.size(); ++j) list.set(j, outputs[next++]);
      }
    }
  }

 private:
  static bool any_requires_grad(at::ArrayRef<c10::IValue> values) {
    for (const auto& value : values) {
      if (value.isTensor() ? value.toTensor().defined() && value.toTensor().requires_grad()
                           : value.isTensorList() && any_requires_grad(value.toTensorVector())) {
        return true;
      }
    }
    return false;
  }
  static bool any_requires_grad(const variable_list& tensors) {
    return std::any_of(tensors.begin(), tensors.end(), [](const at::Tensor& t) { return t.requires_grad(); });
  }

  const CustomOp& custom_;
};

TORCH_LIBRARY_IMPL(npu, Autograd, m) {
  for (const CustomOp& op : custom_ops()) {
    if (is_composed(op.grad)) continue;  // torch_npu/_ops/custom.py has its kernel
    m.impl(op.name, torch::CppFunction::makeFromBoxedFunctor(std::make_unique<AutogradKernel>(op)));
  }
}

}  // namespace
}  // namespace torch_npu::native
