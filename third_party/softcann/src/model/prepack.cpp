#include "model/prepack.h"

#include <ATen/Context.h>

#include <algorithm>
#include <set>

namespace softcann::model {
namespace {

// Of aten::convolution.
enum ConvolutionArgument : size_t { input = 0, weight, bias, stride, padding, dilation, transposed, output_padding, groups };

struct Packing {
  std::optional<c10::OperatorHandle> convolution, reorder;

  Packing() {
    if (!at::globalContext().hasMKLDNN() || !at::globalContext().userEnabledMkldnn()) return;
    convolution = c10::Dispatcher::singleton().findSchema({"mkldnn::_convolution_pointwise", ""});
    reorder = c10::Dispatcher::singleton().findSchema({"mkldnn::_reorder_convolution_weight", ""});
  }
  explicit operator bool() const { return convolution.has_value() && reorder.has_value(); }
};

bool is_constant(const Program& program, const Argument& argument) {
  return argument.from == Argument::From::value && program.constants[static_cast<size_t>(argument.slot)].isTensor();
}

const at::Tensor& constant_of(const Program& program, const Argument& argument) {
  return program.constants[static_cast<size_t>(argument.slot)].toTensor();
}

bool can_pack(const Program& program, const Instruction& made) {
  if (made.kernel != "aten::convolution" || made.arguments.size() <= groups) return false;
  const std::vector<Argument>& given = made.arguments;
  for (size_t i = stride; i <= groups; ++i) {
    if (given[i].from != Argument::From::constant) return false;
  }
  if (!is_constant(program, given[weight]) || given[transposed].constant.toBool()) return false;
  const at::Tensor& weights = constant_of(program, given[weight]);
  const bool has_bias = given[bias].from != Argument::From::constant;
  return weights.dim() == 4 && (weights.scalar_type() == at::kFloat || weights.scalar_type() == at::kHalf) &&
         weights.numel() > 0 && given[stride].constant.toIntList().size() == 2 &&
         given[padding].constant.toIntList().size() == 2 && given[dilation].constant.toIntList().size() == 2 &&
         (!has_bias || is_constant(program, given[bias]));
}

Argument fixed(at::IValue value) {
  Argument made;
  made.constant = std::move(value);
  return made;
}

void pack(const Program& program, const Packing& packing, Instruction& made) {
  const std::vector<Argument> given = std::move(made.arguments);
  const bool half = constant_of(program, given[weight]).scalar_type() == at::kHalf;
  std::vector<at::IValue> stack{constant_of(program, given[weight]).to(at::kFloat),
                                given[padding].constant,
                                given[stride].constant,
                                given[dilation].constant,
                                given[groups].constant,
                                at::IValue()};
  packing.reorder->callBoxed(stack);
  const bool has_bias = given[bias].from != Argument::From::constant;
  made.aten = packing.convolution;
  made.arguments = {given[input],
                    fixed(stack[0]),
                    fixed(has_bias ? at::IValue(constant_of(program, given[bias]).to(at::kFloat)) : at::IValue()),
                    given[padding],
                    given[stride],
                    given[dilation],
                    given[groups],
                    fixed(std::string("none")),
                    fixed(c10::List<std::optional<at::Scalar>>()),
                    fixed(at::IValue())};
  made.arguments[0].channels_last = true;
  made.widens = half;
}

// How often each value is read, in all graphs: by operators, and as an output.
std::vector<int> count_uses(const Program& program) {
  std::vector<int> uses(program.constants.size(), 0);
  const auto count = [&](Slot slot) {
    if (slot != no_slot) ++uses[static_cast<size_t>(slot)];
  };
  for (const Graph& graph : program.graphs) {
    for (const Port& port : graph.outputs) count(port.slot);
    for (const Instruction& instruction : graph.instructions) {
      for (const Argument& argument : instruction.arguments) {
        count(argument.slot);
        for (const Slot slot : argument.slots) count(slot);
      }
    }
  }
  return uses;
}

// A ReLU that alone reads what a packed convolution gives becomes part of it.
void join_relu(Graph& graph, const std::vector<int>& uses, const Packing& packing) {
  std::map<Slot, size_t> makers;
  std::vector<bool> gone(graph.instructions.size(), false);
  for (size_t i = 0; i < graph.instructions.size(); ++i) {
    Instruction& made = graph.instructions[i];
    if (made.aten && *made.aten == *packing.convolution && made.outputs.size() == 1 && made.outputs[0] != no_slot) {
      makers[made.outputs[0]] = i;
    }
    if (made.kernel != "aten::relu" || made.outputs.size() != 1 || made.arguments[0].from != Argument::From::value) continue;
    const Slot between = made.arguments[0].slot;
    const auto maker = makers.find(between);
    if (maker == makers.end() || uses[static_cast<size_t>(between)] != 1) continue;
    Instruction& convolution = graph.instructions[maker->second];
    convolution.arguments[7].constant = std::string("relu");
    convolution.type += "+" + made.type;
    convolution.outputs = made.outputs;
    makers.erase(maker);
    gone[i] = true;
  }
  std::vector<Instruction> kept;
  for (size_t i = 0; i < gone.size(); ++i) {
    if (!gone[i]) kept.push_back(std::move(graph.instructions[i]));
  }
  graph.instructions = std::move(kept);
}

const std::set<std::string_view>& products() {
  static const std::set<std::string_view> names = {"aten::addmm",
                                                   "aten::baddbmm",
                                                   "aten::bmm",
                                                   "aten::conv1d",
                                                   "aten::conv2d",
                                                   "aten::conv3d",
                                                   "aten::convolution",
                                                   "aten::conv_transpose1d",
                                                   "aten::conv_transpose2d.input",
                                                   "aten::conv_transpose3d.input",
                                                   "aten::linear",
                                                   "aten::matmul",
                                                   "aten::mm",
                                                   "aten::scaled_dot_product_attention"};
  return names;
}

void widen(const Program& program, Instruction& made) {
  if (made.widens || products().count(made.kernel) == 0) return;
  made.widens = true;
  for (Argument& argument : made.arguments) {
    if (!is_constant(program, argument) || constant_of(program, argument).scalar_type() != at::kHalf) continue;
    const at::IValue wide = constant_of(program, argument).to(at::kFloat);
    argument = fixed(wide);
  }
}

}  // namespace

void prepack(Program& program) {
  const Packing packing;
  for (Graph& graph : program.graphs) {
    for (Instruction& instruction : graph.instructions) {
      if (packing && can_pack(program, instruction)) pack(program, packing, instruction);
      widen(program, instruction);
    }
  }
  if (!packing) return;
  const std::vector<int> uses = count_uses(program);
  for (Graph& graph : program.graphs) join_relu(graph, uses, packing);
}

}  // namespace softcann::model
