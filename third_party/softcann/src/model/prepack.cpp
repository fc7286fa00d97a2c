#include "model/prepack.h"

#include <algorithm>
#include <set>
#include <utility>

#include "model/native.h"
#include "model/product.h"

namespace softcann::model {
namespace {

// Of aten::convolution, aten::linear, aten::add.Tensor.
enum ConvolutionArgument : size_t { input = 0, weight, bias, stride, padding, dilation, transposed, output_padding, groups };
enum AddArgument : size_t { left = 0, right, alpha };

bool is_constant(const Program& program, const Argument& argument) {
  return argument.from == Argument::From::value && program.constants[static_cast<size_t>(argument.slot)].isTensor();
}

const at::Tensor& constant_of(const Program& program, const Argument& argument) {
  return program.constants[static_cast<size_t>(argument.slot)].toTensor();
}

bool is_fixed(const Argument& argument) { return argument.from == Argument::From::constant; }

double number_of(const Argument& argument) { return argument.constant.toScalar().toDouble(); }

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

// A product and what is to be computed with it: indices of instructions of one graph, in order.
struct Chain {
  std::vector<size_t> parts;
  Argument other;
  bool adds = false;
  Activation activation;
};

bool gives_one(const Instruction& made) { return made.outputs.size() == 1 && made.outputs[0] != no_slot; }

bool has_constant_weights(const Program& program, const Instruction& made, int64_t rank) {
  const std::vector<Argument>& given = made.arguments;
  if (!gives_one(made) || given[input].from != Argument::From::value || !is_constant(program, given[weight])) return false;
  if (!is_fixed(given[bias]) && !is_constant(program, given[bias])) return false;
  const at::Tensor& weights = constant_of(program, given[weight]);
  if (!is_fixed(given[bias])) {
    const at::Tensor& biases = constant_of(program, given[bias]);
    if (biases.dim() != 1 || biases.scalar_type() != weights.scalar_type() || biases.size(0) != weights.size(0)) return false;
  }
  return weights.dim() == rank && (weights.scalar_type() == at::kFloat || weights.scalar_type() == at::kHalf) &&
         weights.numel() > 0;
}

// Two numbers, none below `least`.
bool is_pair(const Argument& argument, int64_t least) {
  const std::vector<int64_t> numbers = argument.constant.toIntVector();
  return numbers.size() == 2 && *std::min_element(numbers.begin(), numbers.end()) >= least;
}

bool is_convolution(const Program& program, const Instruction& made) {
  if (made.kernel != "aten::convolution" || !has_constant_weights(program, made, 4)) return false;
  const std::vector<Argument>& given = made.arguments;
  if (!std::all_of(given.begin() + stride, given.end(), is_fixed) || given[transposed].constant.toBool()) return false;
  const int64_t count = given[groups].constant.toInt();
  return is_pair(given[stride], 1) && is_pair(given[padding], 0) && is_pair(given[dilation], 1) && count > 0 &&
         constant_of(program, given[weight]).size(0) % count == 0;
}

bool is_linear(const Program& program, const Instruction& made) {
  return made.kernel == "aten::linear" && has_constant_weights(program, made, 2);
}

// What oneDNN calls the activation, if it knows it.
std::optional<Activation> activation_of(const Instruction& made) {
  static const std::map<std::string_view, const char*> names = {
      {"aten::relu", "relu"},  {"aten::sigmoid", "sigmoid"},     {"aten::tanh", "tanh"},
      {"aten::silu", "swish"}, {"aten::hardswish", "hardswish"}, {"aten::hardsigmoid", "hardsigmoid"}};
  const std::vector<Argument>& given = made.arguments;
  if (!std::all_of(given.begin() + 1, given.end(), is_fixed)) return std::nullopt;
  if (const auto found = names.find(made.kernel); found != names.end()) return Activation{found->second, {}, {}};
  if (made.kernel == "aten::gelu" && (given[1].constant == "none" || given[1].constant == "tanh")) {
    return Activation{"gelu", {}, given[1].constant.toStringRef()};
  }
  if (made.kernel == "aten::leaky_relu") return Activation{"leaky_relu", {number_of(given[1])}, {}};
  const bool clips = made.kernel == "aten::clamp" || made.kernel == "aten::hardtanh";
  if (clips && given[1].constant.isScalar() && given[2].constant.isScalar() && number_of(given[1]) <= number_of(given[2])) {
    return Activation{"hardtanh", {number_of(given[1]), number_of(given[2])}, {}};
  }
  return std::nullopt;
}

bool is_product(const Instruction& made) {
  static const std::set<std::string_view> names = {"aten::addmm",  "aten::convolution", "aten::linear",
                                                   "aten::matmul", "aten::mm",          "aten::scaled_dot_product_attention"};
  return names.count(made.kernel) != 0;
}

class Fusion {
 public:
  Fusion(Program& program, Graph& graph, const std::vector<int>& uses) : program_(program), graph_(graph), uses_(uses) {
    for (size_t i = 0; i < graph.instructions.size(); ++i) {
      for (const Argument& argument : graph.instructions[i].arguments) {
        if (argument.from == Argument::From::value) readers_[argument.slot] = i;
      }
    }
  }

  void run() {
    std::vector<Chain> chains;
    for (size_t i = 0; i < graph_.instructions.size(); ++i) {
      const bool convolves = is_convolution(program_, graph_.instructions[i]);
      if (convolves || is_linear(program_, graph_.instructions[i])) chains.push_back(follow(i, convolves));
    }
    for (const Chain& chain : chains) keep_inputs(chain);
    for (const Chain& chain : chains) join(chain);
    auto& list = graph_.instructions;
    list.erase(std::remove_if(list.begin(), list.end(), [](const Instruction& one) { return one.kernel.empty(); }), list.end());
  }

 private:
  // The instruction that alone reads what this one gives, unless it belongs to a chain.
  const Instruction* only_reader(size_t index, size_t* at) const {
    const Slot output = graph_.instructions[index].outputs[0];
    const auto reader = readers_.find(output);
    if (uses_[static_cast<size_t>(output)] != 1 || reader == readers_.end() || reader->second <= index) return nullptr;
    *at = reader->second;
    return taken_.count(*at) == 0 && gives_one(graph_.instructions[*at]) ? &graph_.instructions[*at] : nullptr;
  }

  Chain follow(size_t first, bool convolves) {
    Chain chain{{first}, {}, false, {}};
    size_t at = 0;
    const Instruction* next = only_reader(first, &at);
    if (next != nullptr && next->kernel == "aten::add.Tensor" && is_fixed(next->arguments[alpha]) &&
        number_of(next->arguments[alpha]) == 1) {
      const Slot product = graph_.instructions[first].outputs[0];
      const Argument& other = next->arguments[next->arguments[left].slot == product ? right : left];
      if (other.from == Argument::From::value && other.slot != product) {
        chain.other = other;
        chain.adds = true;
        take(chain, at);
        next = only_reader(at, &at);
      }
    }
    const std::optional<Activation> activation = next == nullptr ? std::nullopt : activation_of(*next);
    // Behind an addition torch has only this one.
    if (activation && (!chain.adds || (convolves && activation->name == "relu"))) {
      chain.activation = *activation;
      take(chain, at);
    }
    return chain;
  }

  void take(Chain& chain, size_t index) {
    chain.parts.push_back(index);
    taken_.insert(index);
  }

  // The chain runs where its last part stands, and what its parts read must live until then.
  void keep_inputs(const Chain& chain) {
    std::set<Slot> reads;
    for (const size_t index : chain.parts) {
      for (const Argument& argument : graph_.instructions[index].arguments) reads.insert(argument.slot);
    }
    std::vector<Slot>& last = graph_.instructions[chain.parts.back()].frees;
    for (size_t i = chain.parts.front(); i < chain.parts.back(); ++i) {
      std::vector<Slot>& frees = graph_.instructions[i].frees;
      const auto moved = std::stable_partition(frees.begin(), frees.end(), [&](Slot slot) { return reads.count(slot) == 0; });
      last.insert(last.end(), moved, frees.end());
      frees.erase(moved, frees.end());
    }
  }

  ProductOf product_of(const Chain& chain, const std::vector<Argument>& given) const {
    const at::Tensor biases = is_fixed(given[bias]) ? at::Tensor() : constant_of(program_, given[bias]);
    return {constant_of(program_, given[weight]), biases, chain.adds, chain.activation, program_.is_mapped};
  }

  std::shared_ptr<const Product> make_product(const Chain& chain, const Instruction& first) const {
    const std::vector<Argument>& given = first.arguments;
    if (given.size() <= groups) return make_linear(product_of(chain, given));
    const auto list = [&](size_t index) { return given[index].constant.toIntVector(); };
    return make_convolution(product_of(chain, given),
                            {list(stride), list(padding), list(dilation), given[groups].constant.toInt()});
  }

  // The product alone, for what the whole chain does not take.
  void pack_first(const Chain& chain, Instruction& first) const {
    Chain alone{{chain.parts.front()}, {}, false, {}};
    Instruction plain = first;
    plain.frees.clear();
    first.product = make_product(alone, first);
    first.arguments = {first.arguments[input]};
    first.parts = {std::move(plain)};
  }

  void join(const Chain& chain) {
    std::vector<Instruction>& list = graph_.instructions;
    Instruction made;
    made.product = make_product(chain, list[chain.parts.front()]);
    if (!made.product) return;
    for (const size_t index : chain.parts) {
      Instruction part = std::exchange(list[index], Instruction());
      made.name = part.name;
      made.type += (made.type.empty() ? "" : "+") + part.type;
      made.kernel += (made.kernel.empty() ? "" : "+") + part.kernel;
      made.outputs = part.outputs;
      made.frees.insert(made.frees.end(), part.frees.begin(), part.frees.end());
      part.frees.clear();
      part.widens = is_product(part);
      made.parts.push_back(std::move(part));
    }
    made.arguments.push_back(made.parts.front().arguments[input]);
    if (chain.adds) made.arguments.push_back(chain.other);
    if (chain.parts.size() > 1) pack_first(chain, made.parts.front());
    list[chain.parts.back()] = std::move(made);
  }

  Program& program_;
  Graph& graph_;
  const std::vector<int>& uses_;
  std::map<Slot, size_t> readers_;
  std::set<size_t> taken_;
};

void widen(const Program& program, Instruction& made) {
  if (!is_product(made)) return;
  made.widens = true;
  for (Argument& argument : made.arguments) {
    if (!is_constant(program, argument) || constant_of(program, argument).scalar_type() != at::kHalf) continue;
    at::IValue wide = constant_of(program, argument).to(at::kFloat);
    argument = {};
    argument.constant = std::move(wide);
  }
}

}  // namespace

void prepack(Program& program) {
  const std::vector<int> uses = count_uses(program);
  for (Graph& graph : program.graphs) {
    Fusion(program, graph, uses).run();
    for (Instruction& instruction : graph.instructions) {
      widen(program, instruction);
      if (instruction.kernel == "aten::scaled_dot_product_attention") instruction.native = attend;
    }
  }
}

}  // namespace softcann::model
