// The program of a model, made ready to run: operators looked up, arguments read, values numbered.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/container.h"
#include "model/definition.h"
#include "model/product.h"
#include "rt/models/model.h"

namespace softcann::model {

using Slot = int32_t;  // of a value in a frame; -1: none
inline constexpr Slot no_slot = -1;

// What a schema asks for, and so what a token is made into.
enum class Want : uint8_t {
  tensor,
  integer,
  real,
  boolean,
  number,
  text,
  tensors,
  optional_tensors,
  values,
  integers,
  reals,
  booleans,
  numbers
};
inline bool is_list(Want want) { return want >= Want::tensors; }
inline bool is_number_list(Want want) { return want >= Want::integers; }

// One argument: fixed when the program is loaded, or made of values of the run.
struct Argument {
  enum class From : uint8_t { constant, value, values, item, items, mixed } from = From::constant;
  Want want = Want::tensor;
  at::IValue constant;
  Slot slot = no_slot;
  std::vector<Slot> slots;       // of `values`; of `mixed`, no_slot where `numbers` has the number
  std::vector<double> reals;     // of `mixed`
  std::vector<int64_t> numbers;  // of `mixed`
};

class Machine;

// Operators that are not ATen's: control flow, lists, what ONNX has and ATen has not. The arguments are on the stack as its
// schema has them; it leaves its results there.
using Native = void (*)(Machine& machine, std::vector<at::IValue>& stack);

struct Instruction {
  std::string name, type, kernel;
  std::optional<c10::OperatorHandle> aten;
  Native native = nullptr;   // instead of `aten`
  bool keeps_lists = false;  // a list is one result, and not several
  bool widens = false;       // float16 is computed in float32
  std::vector<Argument> arguments;
  std::vector<Slot> outputs;  // no_slot: not used
  std::vector<Slot> frees;
  // Several operators in one: `product` computes them, or, what it does not take, the parts one after the other. The arguments
  // are the product's input and, where it adds, the tensor that is added.
  std::shared_ptr<const Product> product;
  std::vector<Instruction> parts;
};

struct Port {
  Slot slot = no_slot;
  ModelTensor tensor;
  at::ScalarType type = at::ScalarType::Undefined;
};

struct Graph {
  std::string name;
  std::vector<Port> inputs, outputs;
  std::vector<Instruction> instructions;
};

struct Program {
  std::shared_ptr<char> owner;        // of the constants' memory
  bool is_mapped = false;             // that memory is a file's
  std::vector<at::IValue> constants;  // by slot; None where a value is of the run
  std::vector<Graph> graphs;          // the first is the program, the others are bodies of control flow
};

// Throws Error and ReadError.
Program make_program(const Definition& definition, const Container& container);
// Only the ports of the first graph, without constants and operators.
Graph read_ports(const Definition& definition);

// The name's ScalarType and CANN's number of it; throws for an unknown name.
at::ScalarType scalar_type_of(std::string_view name, aclDataType* acl);

// One argument of a kernel from its token. `slot_of` gives the slot of a name, and throws for one that nobody makes.
class SlotNames;
Argument read_argument(std::string_view token, const c10::Argument& schema, SlotNames& names);

// Numbers values by their names.
class SlotNames {
 public:
  Slot of(std::string_view name);  // a new slot for a new name
  size_t size() const { return slots_.size(); }

 private:
  std::map<std::string, Slot, std::less<>> slots_;
};

// Parsing of texts within the definition; throw Error(corrupt).
std::vector<std::string_view> split(std::string_view text, char at);
int64_t whole_number(std::string_view text);
double real_number(std::string_view text);
std::vector<int64_t> read_dims(std::string_view text);  // "-" or "": none

}  // namespace softcann::model
