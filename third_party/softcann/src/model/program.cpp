#include "model/program.h"

#include <ATen/ops/from_blob.h>

#include <set>

#include "model/native.h"
#include "model/wire.h"

namespace softcann::model {
namespace {

constexpr char allowed_text[] = {
#include "model/allowed_ops.inc"
};

// The operators that may be called: they take tensors and numbers and give tensors, and touch nothing else.
const std::set<std::string_view>& allowed_operators() {
  static const auto* names = [] {
    auto* made = new std::set<std::string_view>;
    for (const std::string_view line : split({allowed_text, sizeof(allowed_text) - 1}, '\n')) {
      if (!line.empty()) made->insert(line);
    }
    return made;
  }();
  return *names;
}

struct DataType {
  std::string_view name;
  at::ScalarType torch;
  aclDataType acl;
};
constexpr DataType data_types[] = {
    {"float32", at::kFloat, ACL_FLOAT},
    {"float16", at::kHalf, ACL_FLOAT16},
    {"float64", at::kDouble, ACL_DOUBLE},
    {"bfloat16", at::kBFloat16, ACL_BF16},
    {"int8", at::kChar, ACL_INT8},
    {"int16", at::kShort, ACL_INT16},
    {"int32", at::kInt, ACL_INT32},
    {"int64", at::kLong, ACL_INT64},
    {"uint8", at::kByte, ACL_UINT8},
    {"bool", at::kBool, ACL_BOOL},
    {"uint16", at::kUInt16, ACL_UINT16},
    {"uint32", at::kUInt32, ACL_UINT32},
    {"uint64", at::kUInt64, ACL_UINT64},
    {"float8_e4m3fn", at::kFloat8_e4m3fn, ACL_FLOAT8_E4M3FN},
    {"float8_e5m2", at::kFloat8_e5m2, ACL_FLOAT8_E5M2},
};

aclFormat format_of(std::string_view name) {
  struct Row {
    std::string_view name;
    aclFormat format;
  };
  static constexpr Row rows[] = {
      {"ND", ACL_FORMAT_ND}, {"NCHW", ACL_FORMAT_NCHW}, {"NHWC", ACL_FORMAT_NHWC}, {"NCDHW", ACL_FORMAT_NCDHW}};
  for (const Row& row : rows) {
    if (row.name == name) return row.format;
  }
  damaged("the format '%s'", std::string(name).c_str());
}

// A blank in a name is written %20, a per cent sign %25.
std::string read_name(std::string_view text) {
  std::string name;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      name.push_back(text[i]);
      continue;
    }
    const std::string_view code = text.substr(i + 1, 2);
    if (code != "20" && code != "25") damaged("the name '%s'", std::string(text.substr(0, 80)).c_str());
    name.push_back(code == "20" ? ' ' : '%');
    i += 2;
  }
  return name;
}

// "vN name dtype format dims". In a body the dims may be unknown (?), and the value a sequence (list).
Port read_port(const std::string& line, SlotNames& names, bool body) {
  const std::vector<std::string_view> words = split(line, ' ');
  if (words.size() != 5) damaged("the port '%s'", line.substr(0, 80).c_str());
  Port port;
  port.slot = names.of(words[0]);
  port.tensor.name = read_name(words[1]);
  if (body && words[2] == "list") return port;
  port.type = scalar_type_of(words[2], &port.tensor.type);
  port.tensor.format = format_of(words[3]);
  if (body && words[4] == "?") return port;
  port.tensor.dims = read_dims(words[4]);
  for (const int64_t dim : port.tensor.dims) {
    if (dim < -1) damaged("a dimension of %lld", static_cast<long long>(dim));
  }
  return port;
}

void read_ports_of(const GraphDefinition& definition, Graph& graph, SlotNames& names, bool body) {
  graph.name = definition.name;
  for (const std::string& line : texts_of(definition.attributes, "inputs")) graph.inputs.push_back(read_port(line, names, body));
  for (const std::string& line : texts_of(definition.attributes, "outputs"))
    graph.outputs.push_back(read_port(line, names, body));
}

// "vN dtype offset bytes dims"
void read_constant(const std::string& line, const Container& container, SlotNames& names, std::vector<at::IValue>& constants) {
  const std::vector<std::string_view> words = split(line, ' ');
  if (words.size() != 5) damaged("the constant '%s'", line.substr(0, 80).c_str());
  aclDataType acl;
  const at::ScalarType type = scalar_type_of(words[1], &acl);
  const int64_t offset = whole_number(words[2]), bytes = whole_number(words[3]);
  const std::vector<int64_t> dims = read_dims(words[4]);
  int64_t numel = static_cast<int64_t>(at::elementSize(type));
  const auto alignment = numel;
  for (const int64_t dim : dims) {
    if (dim < 0 || __builtin_mul_overflow(numel, dim, &numel))
      damaged("the dims of the constant '%s'", line.substr(0, 80).c_str());
  }
  const auto size = static_cast<int64_t>(container.weights.size());
  if (offset < 0 || bytes != numel || offset > size || bytes > size - offset || offset % alignment != 0) {
    refuse(ACL_ERROR_GE_EXEC_LOAD_WEIGHT_PARTITION_FAILED, "the constant '%s' lies outside the %lld bytes of weights",
           line.substr(0, 80).c_str(), static_cast<long long>(size));
  }
  const auto slot = static_cast<size_t>(names.of(words[0]));
  if (constants.size() <= slot) constants.resize(slot + 1);
  constants[slot] = at::from_blob(const_cast<char*>(container.weights.data()) + offset, dims, at::TensorOptions().dtype(type));
}

const c10::FunctionSchema& find_kernel(Instruction& made) {
  const std::string& kernel = made.kernel;
  if (const NativeOperator* own = find_native(kernel)) {
    made.native = own->run;
    made.keeps_lists = own->keeps_lists;
    return *own->schema;
  }
  if (allowed_operators().count(kernel) == 0) {
    refuse(ACL_ERROR_GE_OP_KERNEL_TYPE_INVALID, "the kernel '%s' is not one that models may call", kernel.substr(0, 80).c_str());
  }
  const size_t dot = kernel.find('.');
  made.aten = c10::Dispatcher::singleton().findSchema(
      {kernel.substr(0, dot), dot == std::string::npos ? std::string() : kernel.substr(dot + 1)});
  if (!made.aten) refuse(ACL_ERROR_GE_OP_KERNEL_TYPE_INVALID, "this torch has no operator '%s'", kernel.c_str());
  return made.aten->schema();
}

void check_outputs(const Instruction& made, const c10::FunctionSchema& schema) {
  const size_t given = made.outputs.size();
  const auto& returns = schema.returns();
  const bool spread = !made.keeps_lists && returns.size() == 1 && returns[0].type()->kind() == c10::TypeKind::ListType;
  if (given > returns.size() && !spread && !schema.is_varret()) damaged("%zu outputs of %s", given, made.kernel.c_str());
}

Instruction read_instruction(const OpDefinition& op, SlotNames& names) {
  Instruction made;
  made.name = op.name;
  made.type = op.type;
  made.kernel = text_of(op.attributes, "kernel");
  const c10::FunctionSchema& schema = find_kernel(made);
  const std::vector<std::string>& tokens = texts_of(op.attributes, "args");
  const std::vector<c10::Argument>& parameters = schema.arguments();
  if (tokens.size() > parameters.size()) damaged("%zu arguments of %s", tokens.size(), made.kernel.c_str());
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (i < tokens.size()) {
      made.arguments.push_back(read_argument(tokens[i], parameters[i], names));
      continue;
    }
    const auto& missing = parameters[i].default_value();
    if (!missing) damaged("%s needs its argument '%s'", made.kernel.c_str(), parameters[i].name().c_str());
    made.arguments.emplace_back().constant = *missing;
  }
  for (const std::string& name : texts_of(op.attributes, "outputs"))
    made.outputs.push_back(name == "-" ? no_slot : names.of(name));
  for (const std::string& name : texts_of(op.attributes, "free")) made.frees.push_back(names.of(name));
  check_outputs(made, schema);
  return made;
}

Instruction read_located(const OpDefinition& op, SlotNames& names) {
  try {
    return read_instruction(op, names);
  } catch (const ReadError& error) {
    refuse(error.code(), "operator '%s' (%s): %s", op.name.substr(0, 128).c_str(), op.type.substr(0, 64).c_str(), error.what());
  } catch (const Error& error) {
    damaged("operator '%s' (%s): %s", op.name.substr(0, 128).c_str(), op.type.substr(0, 64).c_str(), error.what());
  }
}

}  // namespace

Slot SlotNames::of(std::string_view name) {
  constexpr size_t longest = 64;
  if (name.empty() || name.size() > longest) damaged("a value's name of %zu characters", name.size());
  const auto found = slots_.find(name);
  if (found != slots_.end()) return found->second;
  return slots_.emplace(name, static_cast<Slot>(slots_.size())).first->second;
}

at::ScalarType scalar_type_of(std::string_view name, aclDataType* acl) {
  for (const DataType& row : data_types) {
    if (row.name != name) continue;
    *acl = row.acl;
    return row.torch;
  }
  damaged("the data type '%s'", std::string(name.substr(0, 40)).c_str());
}

Graph read_ports(const Definition& definition) {
  if (definition.graphs.empty()) damaged("the model has no graph");
  Graph graph;
  SlotNames names;
  read_ports_of(definition.graphs.front(), graph, names, false);
  return graph;
}

Program make_program(const Definition& definition, const Container& container) {
  if (definition.graphs.empty()) damaged("the model has no graph");
  Program made;
  SlotNames names;
  made.owner = container.owner;
  made.is_mapped = container.is_mapped;
  for (const GraphDefinition& graph : definition.graphs) {
    for (const std::string& line : texts_of(graph.attributes, "constants")) read_constant(line, container, names, made.constants);
    Graph& to = made.graphs.emplace_back();
    read_ports_of(graph, to, names, made.graphs.size() > 1);
    to.instructions.reserve(graph.ops.size());
    for (const OpDefinition& op : graph.ops) {
      // Others stand there for people: the inputs and the end of a graph.
      if (op.attributes.count("kernel") != 0) to.instructions.push_back(read_located(op, names));
    }
  }
  made.constants.resize(names.size());
  return made;
}

}  // namespace softcann::model
