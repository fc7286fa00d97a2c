// Runs a program: one frame of values, operators in order.
#pragma once

#include "model/program.h"

namespace softcann::model {

class Machine {
 public:
  explicit Machine(const Program& program) : program_(program), frame_(program.constants) {}

  // Runs a graph with these inputs and gives its outputs; also the bodies of control flow, which see all values around them.
  std::vector<at::IValue> run(size_t graph, std::vector<at::IValue> inputs);
  const Graph& graph(int64_t index) const;

 private:
  const at::IValue& read(Slot slot) const;
  at::IValue make(const Argument& argument) const;
  at::IValue make_list(const Argument& argument) const;
  at::IValue make_tensors(const Argument& argument) const;
  bool multiply(const Instruction& instruction);  // false: left to its parts
  void call(const Instruction& instruction, std::vector<at::IValue>& stack);
  void execute(const Instruction& instruction, std::vector<at::IValue>& stack);
  void store(const Instruction& instruction, std::vector<at::IValue>& stack);

  const Program& program_;
  std::vector<at::IValue> frame_;
  int depth_ = 0;
};

// A value as a tensor: numbers become tensors without dimensions.
at::Tensor tensor_of(const at::IValue& value);

}  // namespace softcann::model
