#include "model/interpreter.h"

#include <ATen/ops/scalar_tensor.h>
#include <c10/util/Exception.h>

#include "model/observer.h"
#include "rt/base/error.h"

namespace softcann::model {
namespace {

// The error of an operator, with the operator's name before it and the same kind.
[[noreturn]] void rethrow_located(const Instruction& at, const Instruction** failed, ErrorKind kind, const char* cause) {
  if (*failed == nullptr) *failed = &at;
  throw Error(kind, "operator '" + at.name + "' (" + at.type + ", " + at.kernel + "): " + cause);
}

ErrorKind kind_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) || dynamic_cast<const c10::OutOfMemoryError*>(&error)) {
    return ErrorKind::out_of_memory;
  }
  if (dynamic_cast<const c10::NotImplementedError*>(&error)) return ErrorKind::unsupported;
  if (dynamic_cast<const c10::IndexError*>(&error)) return ErrorKind::index_out_of_range;
  return ErrorKind::bad_argument;
}

at::Scalar item_of(const at::IValue& value) {
  if (value.isScalar()) return value.toScalar();
  return tensor_of(value).item();
}

at::IValue number_as(Want want, const at::Scalar& number) {
  switch (want) {
    case Want::integer:
      return number.toLong();
    case Want::real:
      return number.toDouble();
    case Want::boolean:
      return number.toBool();
    default:
      return number;
  }
}

template <class T>
c10::List<T> elements_of(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.dim() <= 1, "a list of numbers is taken from a tensor of ", tensor.dim(), " dimensions");
  const at::Tensor plain = tensor.to(c10::CppTypeToScalarType<T>::value).contiguous();
  const T* first = plain.const_data_ptr<T>();
  return c10::List<T>(at::ArrayRef<T>(first, static_cast<size_t>(plain.numel())));
}

// Tensors of float16 among the arguments in float32; whether there were any.
bool widen(std::vector<at::IValue>& stack) {
  bool found = false;
  for (at::IValue& value : stack) {
    if (!value.isTensor() || !value.toTensor().defined() || value.toTensor().scalar_type() != at::kHalf) continue;
    value = value.toTensor().to(at::kFloat);
    found = true;
  }
  return found;
}

c10::List<bool> booleans_of(const at::Tensor& tensor) {
  c10::List<bool> made;
  for (const int64_t one : elements_of<int64_t>(tensor)) made.push_back(one != 0);
  return made;
}

}  // namespace

at::Tensor tensor_of(const at::IValue& value) {
  if (value.isTensor()) return value.toTensor();
  TORCH_CHECK(value.isScalar(), "a ", value.tagKind(), " where a tensor is expected");
  const at::Scalar number = value.toScalar();
  return at::scalar_tensor(number, at::TensorOptions().dtype(number.type()));
}

const Graph& Machine::graph(int64_t index) const {
  TORCH_CHECK(index >= 0 && static_cast<size_t>(index) < program_.graphs.size(), "the model has no graph ", index);
  return program_.graphs[static_cast<size_t>(index)];
}

const at::IValue& Machine::read(Slot slot) const {
  const at::IValue& value = frame_[static_cast<size_t>(slot)];
  TORCH_CHECK(!value.isNone(), "a value is read that nothing has made yet, or that was released");
  return value;
}

at::IValue Machine::make_tensors(const Argument& argument) const {
  if (argument.want == Want::optional_tensors) {
    c10::List<std::optional<at::Tensor>> list;
    for (const Slot slot : argument.slots) {
      list.push_back(slot == no_slot ? std::optional<at::Tensor>() : tensor_of(read(slot)));
    }
    return list;
  }
  if (argument.want == Want::values) {
    c10::impl::GenericList list(c10::AnyType::get());
    for (const Slot slot : argument.slots) list.push_back(slot == no_slot ? at::IValue() : read(slot));
    return list;
  }
  c10::List<at::Tensor> list;
  for (const Slot slot : argument.slots) {
    TORCH_CHECK(slot != no_slot, "a tensor of the list is left out");
    const at::IValue& value = read(slot);
    if (argument.slots.size() == 1 && value.isTensorList()) return value;
    list.push_back(tensor_of(value));
  }
  return list;
}

at::IValue Machine::make_list(const Argument& argument) const {
  if (argument.want == Want::integers) {
    c10::List<int64_t> list;
    for (size_t i = 0; i < argument.slots.size(); ++i) {
      list.push_back(argument.slots[i] == no_slot ? argument.numbers[i] : item_of(read(argument.slots[i])).toLong());
    }
    return list;
  }
  TORCH_CHECK(argument.want == Want::reals, "a list of this kind is not made of values");
  c10::List<double> list;
  for (size_t i = 0; i < argument.slots.size(); ++i) {
    list.push_back(argument.slots[i] == no_slot ? argument.reals[i] : item_of(read(argument.slots[i])).toDouble());
  }
  return list;
}

at::IValue Machine::make(const Argument& argument) const {
  switch (argument.from) {
    case Argument::From::constant:
      return argument.constant;
    case Argument::From::value: {
      const at::IValue& value = read(argument.slot);
      if (argument.want == Want::tensor) return tensor_of(value);
      if (argument.want == Want::number) return item_of(value);
      return value;
    }
    case Argument::From::values:
      return make_tensors(argument);
    case Argument::From::item:
      return number_as(argument.want, item_of(read(argument.slot)));
    case Argument::From::items: {
      const at::Tensor tensor = tensor_of(read(argument.slot));
      if (argument.want == Want::reals) return elements_of<double>(tensor);
      if (argument.want == Want::booleans) return booleans_of(tensor);
      TORCH_CHECK(argument.want == Want::integers, "a list of this kind is not made of a value");
      return elements_of<int64_t>(tensor);
    }
    case Argument::From::mixed:
      return make_list(argument);
  }
  return {};
}

void Machine::store(const Instruction& instruction, std::vector<at::IValue>& stack) {
  const std::vector<Slot>& outputs = instruction.outputs;
  if (!instruction.keeps_lists && stack.size() == 1 && stack[0].isTensorList()) {
    const c10::List<at::Tensor> list = stack[0].toTensorList();
    stack.clear();
    for (const at::Tensor& one : list) stack.emplace_back(one);
  }
  TORCH_CHECK(stack.size() >= outputs.size(), "it has ", stack.size(), " results, the model takes ", outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] != no_slot) frame_[static_cast<size_t>(outputs[i])] = std::move(stack[i]);
  }
}

bool Machine::multiply(const Instruction& instruction) {
  const std::vector<Argument>& given = instruction.arguments;
  const at::Tensor input = tensor_of(read(given[0].slot));
  const at::Tensor other = given.size() > 1 ? tensor_of(read(given[1].slot)) : at::Tensor();
  std::optional<at::Tensor> made = instruction.product->run(input, other);
  if (!made) return false;
  frame_[static_cast<size_t>(instruction.outputs[0])] = *std::move(made);
  return true;
}

void Machine::call(const Instruction& instruction, std::vector<at::IValue>& stack) {
  stack.clear();
  for (const Argument& argument : instruction.arguments) stack.push_back(make(argument));
  const bool wide = instruction.widens && widen(stack);
  if (instruction.native) {
    instruction.native(*this, stack);
  } else {
    instruction.aten->callBoxed(stack);
  }
  if (wide) stack[0] = stack[0].toTensor().to(at::kHalf);
  store(instruction, stack);
}

// False where it is left to its parts.
bool Machine::compute(const Instruction& instruction, std::vector<at::IValue>& stack) {
  try {
    if (instruction.product) return multiply(instruction);
    call(instruction, stack);
    return true;
  } catch (const Error& error) {
    rethrow_located(instruction, &failed_, error.kind(), error.what());
  } catch (const c10::Error& error) {
    rethrow_located(instruction, &failed_, kind_of(error), error.what_without_backtrace());
  } catch (const std::exception& error) {
    rethrow_located(instruction, &failed_, kind_of(error), error.what());
  }
}

void Machine::execute(const Instruction& instruction, std::vector<at::IValue>& stack) {
  const bool observed = observer_ != nullptr && depth_ == 1;
  if (observed) observer_->begin(*this, instruction);
  const bool done = compute(instruction, stack);
  if (observed) observer_->end(*this, instruction, done);
  if (!done) {
    for (const Instruction& part : instruction.parts) execute(part, stack);
  }
  for (const Slot slot : instruction.frees) frame_[static_cast<size_t>(slot)] = {};
}

namespace {

void add_tensors(const std::string& name, const at::IValue& value, std::vector<NamedTensor>* to) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) to->emplace_back(name, value.toTensor());
  } else if (value.isTensorList()) {
    int place = 0;
    for (const at::Tensor& one : value.toTensorVector()) to->emplace_back(name + '[' + std::to_string(place++) + ']', one);
  }
}

}  // namespace

std::vector<NamedTensor> Machine::operands(const Instruction& instruction) const {
  std::vector<NamedTensor> found;
  if (!instruction.product) add_operands(instruction, "", &found);
  // A product has packed what its parts read, and skips what one part makes for the next.
  for (size_t i = 0; instruction.product && i < instruction.parts.size(); ++i) {
    const Instruction& part = instruction.parts[i];
    add_operands(part, i == 0 ? "" : part.name + '.', &found);
  }
  return found;
}

void Machine::add_operands(const Instruction& instruction, const std::string& prefix, std::vector<NamedTensor>* found) const {
  const auto add_slot = [&](const std::string& name, Slot slot) {
    if (slot != no_slot) add_tensors(name, frame_[static_cast<size_t>(slot)], found);
  };
  for (size_t i = 0; i < instruction.arguments.size(); ++i) {
    const Argument& argument = instruction.arguments[i];
    const bool named = instruction.aten && i < instruction.aten->schema().arguments().size();
    const std::string name = prefix + (named ? instruction.aten->schema().arguments()[i].name() : std::to_string(i));
    if (argument.from == Argument::From::constant) {
      add_tensors(name, argument.constant, found);
    } else if (argument.from == Argument::From::value) {
      add_slot(name, argument.slot);
    } else if (argument.from == Argument::From::values) {
      for (size_t place = 0; place < argument.slots.size(); ++place) {
        add_slot(name + '[' + std::to_string(place) + ']', argument.slots[place]);
      }
    }
  }
}

std::vector<NamedTensor> Machine::results(const Instruction& instruction) const {
  std::vector<NamedTensor> found;
  for (size_t i = 0; i < instruction.outputs.size(); ++i) {
    const Slot slot = instruction.outputs[i];
    if (slot != no_slot) add_tensors(std::to_string(i), frame_[static_cast<size_t>(slot)], &found);
  }
  return found;
}

std::vector<at::IValue> Machine::run(size_t index, std::vector<at::IValue> inputs) {
  constexpr int deepest = 32;
  const Graph& running = graph(static_cast<int64_t>(index));
  TORCH_CHECK(depth_ < deepest, "control flow is nested more than ", deepest, " deep");
  TORCH_CHECK(inputs.size() == running.inputs.size(), "graph '", running.name, "' takes ", running.inputs.size(), " inputs, ",
              inputs.size(), " are given");
  ++depth_;
  for (size_t i = 0; i < inputs.size(); ++i) frame_[static_cast<size_t>(running.inputs[i].slot)] = std::move(inputs[i]);
  std::vector<at::IValue> stack;
  for (const Instruction& instruction : running.instructions) execute(instruction, stack);
  std::vector<at::IValue> outputs;
  for (const Port& port : running.outputs) outputs.push_back(read(port.slot));
  --depth_;
  return outputs;
}

}  // namespace softcann::model
