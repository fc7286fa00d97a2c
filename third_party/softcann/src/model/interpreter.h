// Runs a program: one frame of values, operators in order.
#pragma once

#include <utility>

#include "model/program.h"

namespace softcann::model {

class Observer;

// A tensor of an operator, by the name of the argument or the number of the result.
using NamedTensor = std::pair<std::string, at::Tensor>;

class Machine {
 public:
  // `observer`, if any, is told of the operators of the first graph.
  explicit Machine(const Program& program, Observer* observer = nullptr)
      : program_(program), observer_(observer), frame_(program.constants) {}

  // Runs a graph with these inputs and gives its outputs; also the bodies of control flow, which see all values around them.
  std::vector<at::IValue> run(size_t graph, std::vector<at::IValue> inputs);
  const Graph& graph(int64_t index) const;

  // The tensors that an operator is about to read, and those that it has just made.
  std::vector<NamedTensor> operands(const Instruction& instruction) const;
  std::vector<NamedTensor> results(const Instruction& instruction) const;
  // The operator that failed, once run() has thrown; null: none did.
  const Instruction* failed() const { return failed_; }

 private:
  const at::IValue& read(Slot slot) const;
  at::IValue make(const Argument& argument) const;
  at::IValue make_list(const Argument& argument) const;
  at::IValue make_tensors(const Argument& argument) const;
  void add_operands(const Instruction& instruction, const std::string& prefix, std::vector<NamedTensor>* found) const;
  bool multiply(const Instruction& instruction);  // false: left to its parts
  void call(const Instruction& instruction, std::vector<at::IValue>& stack);
  void execute(const Instruction& instruction, std::vector<at::IValue>& stack);
  bool compute(const Instruction& instruction, std::vector<at::IValue>& stack);
  void store(const Instruction& instruction, std::vector<at::IValue>& stack);

  const Program& program_;
  Observer* observer_;
  std::vector<at::IValue> frame_;
  int depth_ = 0;
  const Instruction* failed_ = nullptr;
};

// A value as a tensor: numbers become tensors without dimensions.
at::Tensor tensor_of(const at::IValue& value);

}  // namespace softcann::model
