#include "model/native.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <torch/csrc/jit/frontend/function_schema_parser.h>

#include <algorithm>
#include <map>

#include "model/interpreter.h"

namespace softcann::model {
namespace {

// A condition: a number, a tensor of one, or left out, which is true.
bool truth(const at::IValue& value) {
  if (value.isNone()) return true;
  return value.isTensor() ? value.toTensor().item().toBool() : value.toScalar().toBool();
}

void run_if(Machine& machine, Stack& stack) {
  const int64_t chosen = truth(stack[0]) ? stack[1].toInt() : stack[2].toInt();
  machine.graph(chosen);
  stack = machine.run(static_cast<size_t>(chosen), {});
}

// Rows of one collected output, one for each step, as one tensor; of none, an empty one as the port says.
at::Tensor stacked(const std::vector<at::Tensor>& rows, const Port& port, int64_t axis) {
  if (!rows.empty()) return at::stack(rows, axis);
  std::vector<int64_t> dims = port.tensor.dims;
  for (int64_t& dim : dims) dim = std::max<int64_t>(dim, 0);
  const auto at_axis = std::min<size_t>(static_cast<size_t>(std::max<int64_t>(axis, 0)), dims.size());
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(at_axis), 0);
  return at::empty(dims, at::TensorOptions().dtype(port.type));
}

// Collects outputs [from, ...) of each step.
void collect(const Stack& results, size_t from, std::vector<std::vector<at::Tensor>>& rows) {
  for (size_t i = 0; i < rows.size(); ++i) rows[i].push_back(tensor_of(results[from + i]));
}

// What goes round in a loop: tensors and sequences.
Stack carried_of(const at::IValue& list) {
  Stack made;
  for (const at::IValue& one : list.toList()) made.push_back(one);
  return made;
}

void run_loop(Machine& machine, Stack& stack) {
  const int64_t trips = stack[0].isNone() ? INT64_MAX : stack[0].toScalar().toLong();
  bool goes_on = truth(stack[1]);
  const int64_t body = stack[2].toInt();
  Stack carried = carried_of(stack[3]);
  const size_t count = carried.size();
  const Graph& graph = machine.graph(body);
  TORCH_CHECK(graph.outputs.size() > count, "the body gives ", graph.outputs.size(), " values for ", count, " that are carried");
  std::vector<std::vector<at::Tensor>> rows(graph.outputs.size() - 1 - count);
  for (int64_t step = 0; step < trips && goes_on; ++step) {
    Stack inputs{at::scalar_tensor(step, at::kLong), at::scalar_tensor(true, at::kBool)};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    Stack results = machine.run(static_cast<size_t>(body), std::move(inputs));
    goes_on = truth(results[0]);
    std::copy_n(results.begin() + 1, count, carried.begin());
    collect(results, 1 + count, rows);
  }
  for (size_t i = 0; i < rows.size(); ++i) carried.emplace_back(stacked(rows[i], graph.outputs[1 + count + i], 0));
  stack = std::move(carried);
}

struct Scan {
  std::vector<at::Tensor> scanned;
  std::vector<int64_t> axes, output_axes;
  c10::List<bool> backwards, output_backwards;

  int64_t steps() const {
    TORCH_CHECK(!scanned.empty() && axes.size() == scanned.size() && backwards.size() == scanned.size(), "a scan of ",
                scanned.size(), " tensors along ", axes.size(), " axes");
    const int64_t count = scanned[0].size(axes[0]);
    for (size_t i = 0; i < scanned.size(); ++i) {
      TORCH_CHECK(scanned[i].size(axes[i]) == count, "the scanned tensors have ", count, " and ", scanned[i].size(axes[i]),
                  " steps");
    }
    return count;
  }
};

void run_scan(Machine& machine, Stack& stack) {
  const int64_t body = stack[0].toInt();
  Stack states = carried_of(stack[1]);
  const Scan scan{stack[2].toTensorVector(), stack[3].toIntVector(), stack[5].toIntVector(), stack[4].toBoolList(),
                  stack[6].toBoolList()};
  const Graph& graph = machine.graph(body);
  const size_t count = states.size(), collected = scan.output_axes.size();
  TORCH_CHECK(graph.outputs.size() == count + collected && scan.output_backwards.size() == collected, "the body gives ",
              graph.outputs.size(), " values, ", count + collected, " are expected");
  std::vector<std::vector<at::Tensor>> rows(collected);
  const int64_t steps = scan.steps();
  for (int64_t step = 0; step < steps; ++step) {
    Stack inputs = states;
    for (size_t i = 0; i < scan.scanned.size(); ++i) {
      inputs.emplace_back(scan.scanned[i].select(scan.axes[i], scan.backwards[i] ? steps - 1 - step : step));
    }
    Stack results = machine.run(static_cast<size_t>(body), std::move(inputs));
    std::copy_n(results.begin(), count, states.begin());
    collect(results, count, rows);
  }
  for (size_t i = 0; i < collected; ++i) {
    if (scan.output_backwards[i]) std::reverse(rows[i].begin(), rows[i].end());
    states.emplace_back(stacked(rows[i], graph.outputs[count + i], scan.output_axes[i]));
  }
  stack = std::move(states);
}

// Index `position` of a sequence of `size`, counted from the end when it is negative.
size_t place(int64_t position, size_t size, size_t most) {
  const int64_t from_start = position < 0 ? position + static_cast<int64_t>(size) : position;
  TORCH_CHECK_INDEX(from_start >= 0 && static_cast<size_t>(from_start) <= most, "position ", position, " in a sequence of ",
                    size);
  return static_cast<size_t>(from_start);
}

void sequence_make(Machine&, Stack& stack) { stack.resize(1); }

void sequence_at(Machine&, Stack& stack) {
  const std::vector<at::Tensor> items = stack[0].toTensorVector();
  TORCH_CHECK_INDEX(!items.empty(), "an element of an empty sequence");
  stack = {items[place(stack[1].toInt(), items.size(), items.size() - 1)]};
}

void sequence_insert(Machine&, Stack& stack) {
  std::vector<at::Tensor> items = stack[0].toTensorVector();
  const size_t at = stack[2].isNone() ? items.size() : place(stack[2].toInt(), items.size(), items.size());
  items.insert(items.begin() + static_cast<std::ptrdiff_t>(at), stack[1].toTensor());
  stack = {at::IValue(items)};
}

void sequence_erase(Machine&, Stack& stack) {
  std::vector<at::Tensor> items = stack[0].toTensorVector();
  TORCH_CHECK_INDEX(!items.empty(), "an element of an empty sequence");
  const size_t at = stack[1].isNone() ? items.size() - 1 : place(stack[1].toInt(), items.size(), items.size() - 1);
  items.erase(items.begin() + static_cast<std::ptrdiff_t>(at));
  stack = {at::IValue(items)};
}

void sequence_length(Machine&, Stack& stack) {
  stack = {at::scalar_tensor(static_cast<int64_t>(stack[0].toTensorVector().size()), at::kLong)};
}

// Parts of `chunk` elements along an axis, the last of what is left; or of as many sizes as there are parts.
void sequence_split(Machine&, Stack& stack) {
  const at::Tensor tensor = stack[0].toTensor();
  const int64_t axis = stack[2].toInt();
  std::vector<int64_t> sizes = stack[1].toIntVector();
  if (sizes.size() == 1) {
    const int64_t part = sizes[0], whole = tensor.size(axis);
    TORCH_CHECK(part > 0, "parts of ", part, " elements");
    sizes.clear();
    for (int64_t start = 0; start < whole; start += part) sizes.push_back(std::min(part, whole - start));
  }
  std::vector<at::Tensor> parts = tensor.split_with_sizes(sizes, axis);
  if (!stack[3].toBool()) {
    for (at::Tensor& part : parts) part = part.squeeze(axis);
  }
  stack = {at::IValue(parts)};
}

struct Row {
  const char* schema;
  Native run;
  bool keeps_lists;
};
// A carried list holds whatever values the loop carries, so its type is a list of any tensors or sequences.
constexpr Row rows[] = {
    {"softcann::if_(Scalar condition, int then_graph, int else_graph) -> ...", run_if, true},
    {"softcann::loop(Scalar? trips, Scalar? condition, int body, Any[] carried) -> ...", run_loop, true},
    {"softcann::scan(int body, Any[] states, Tensor[] scanned, int[] axes, bool[] backwards, int[] output_axes, "
     "bool[] output_backwards) -> ...",
     run_scan, true},
    {"softcann::seq_make(Tensor[] items) -> Tensor[]", sequence_make, true},
    {"softcann::seq_at(Tensor[] items, int position) -> Tensor", sequence_at, true},
    {"softcann::seq_insert(Tensor[] items, Tensor item, int? position=None) -> Tensor[]", sequence_insert, true},
    {"softcann::seq_erase(Tensor[] items, int? position=None) -> Tensor[]", sequence_erase, true},
    {"softcann::seq_split(Tensor tensor, int[] chunk, int axis, bool keepdims=True) -> Tensor[]", sequence_split, true},
    {"softcann::seq_length(Tensor[] items) -> Tensor", sequence_length, true},
    {"softcann::nms(Tensor boxes, Tensor scores, int most, float iou_threshold, float? score_threshold=None, "
     "bool centre=False) -> Tensor",
     suppress, true},
    {"softcann::roi_align(Tensor X, Tensor rois, Tensor batch_indices, int height, int width, float scale=1, int "
     "sampling_ratio=0, "
     "bool aligned=True, bool max=False) -> Tensor",
     roi_align, true},
};

}  // namespace

const NativeOperator* find_native(const std::string& name) {
  static const auto* operators = [] {
    auto* made = new std::map<std::string, NativeOperator>;
    for (const Row& row : rows) {
      auto* schema = new c10::FunctionSchema(torch::jit::parseSchema(row.schema));
      made->emplace(schema->name() == "softcann::if_" ? "softcann::if" : schema->name(),
                    NativeOperator{schema, row.run, row.keeps_lists});
    }
    return made;
  }();
  const auto found = operators->find(name);
  return found == operators->end() ? nullptr : &found->second;
}

}  // namespace softcann::model
