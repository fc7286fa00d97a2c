#include "model/definition.h"

#include "model/wire.h"

namespace softcann::model {
namespace {

// Field numbers of ge_ir's messages.
namespace field {
enum Model : uint32_t { model_name = 1, model_graph = 7, model_attr = 11 };
enum Graph : uint32_t { graph_name = 1, graph_op = 6, graph_attr = 11 };
enum Op : uint32_t { op_name = 1, op_type = 2, op_attr = 10 };
enum Entry : uint32_t { entry_key = 1, entry_value = 2 };
enum Attr : uint32_t { attr_list = 1, attr_s = 2, attr_i = 3, attr_f = 4, attr_b = 5 };
enum List : uint32_t { list_s = 2, list_i = 3 };
}  // namespace field

// More of one thing than any model has; a damaged file ends here and not with the machine's memory.
constexpr size_t most_ops = 1 << 20, most_graphs = 1 << 12, most_items = 1 << 22;

template <class T>
void bounded(const std::vector<T>& items, size_t most, const char* what) {
  if (items.size() > most) damaged("more than %zu %s", most, what);
}

void read_list(std::string_view bytes, Attribute& to) {
  to.kind = Attribute::Kind::list;
  Wire wire(bytes);
  while (wire.next()) {
    if (wire.field() == field::list_s) to.texts.push_back(wire.text());
    if (wire.field() == field::list_i) wire.integers(to.integers);
    bounded(to.texts, most_items, "texts in a list");
    bounded(to.integers, most_items, "numbers in a list");
  }
}

Attribute read_attribute(std::string_view bytes) {
  Attribute made;
  Wire wire(bytes);
  while (wire.next()) {
    switch (wire.field()) {
      case field::attr_list:
        read_list(wire.bytes(), made);
        break;
      case field::attr_s:
        made.kind = Attribute::Kind::text;
        made.text = wire.text();
        break;
      case field::attr_i:
        made.kind = Attribute::Kind::integer;
        made.integer = wire.integer();
        break;
      case field::attr_f:
        made.kind = Attribute::Kind::real;
        made.real = wire.real();
        break;
      case field::attr_b:
        made.kind = Attribute::Kind::boolean;
        made.integer = wire.integer() != 0;
        break;
      default:
        break;
    }
  }
  return made;
}

void read_entry(std::string_view bytes, Attributes& to) {
  std::string key;
  std::string_view value;
  Wire wire(bytes);
  while (wire.next()) {
    if (wire.field() == field::entry_key) key = wire.text();
    if (wire.field() == field::entry_value) value = wire.bytes();
  }
  to[key] = read_attribute(value);
}

OpDefinition read_op(std::string_view bytes) {
  OpDefinition op;
  Wire wire(bytes);
  while (wire.next()) {
    if (wire.field() == field::op_name) op.name = wire.text();
    if (wire.field() == field::op_type) op.type = wire.text();
    if (wire.field() == field::op_attr) read_entry(wire.bytes(), op.attributes);
  }
  return op;
}

GraphDefinition read_graph(std::string_view bytes) {
  GraphDefinition graph;
  Wire wire(bytes);
  while (wire.next()) {
    if (wire.field() == field::graph_name) graph.name = wire.text();
    if (wire.field() == field::graph_op) graph.ops.push_back(read_op(wire.bytes()));
    if (wire.field() == field::graph_attr) read_entry(wire.bytes(), graph.attributes);
    bounded(graph.ops, most_ops, "operators");
  }
  return graph;
}

const Attribute* find(const Attributes& attributes, std::string_view name, Attribute::Kind kind) {
  const auto found = attributes.find(name);
  if (found == attributes.end()) return nullptr;
  if (found->second.kind != kind) damaged("the attribute %.*s is of another kind", static_cast<int>(name.size()), name.data());
  return &found->second;
}

}  // namespace

Definition read_definition(std::string_view bytes) {
  Definition made;
  Wire wire(bytes);
  while (wire.next()) {
    if (wire.field() == field::model_name) made.name = wire.text();
    if (wire.field() == field::model_graph) made.graphs.push_back(read_graph(wire.bytes()));
    if (wire.field() == field::model_attr) read_entry(wire.bytes(), made.attributes);
    bounded(made.graphs, most_graphs, "graphs");
  }
  return made;
}

const std::string& text_of(const Attributes& attributes, std::string_view name) {
  static const std::string none;
  const Attribute* found = find(attributes, name, Attribute::Kind::text);
  return found ? found->text : none;
}

int64_t integer_of(const Attributes& attributes, std::string_view name, int64_t missing) {
  const Attribute* found = find(attributes, name, Attribute::Kind::integer);
  return found ? found->integer : missing;
}

const std::vector<std::string>& texts_of(const Attributes& attributes, std::string_view name) {
  static const std::vector<std::string> none;
  const Attribute* found = find(attributes, name, Attribute::Kind::list);
  return found ? found->texts : none;
}

const std::vector<int64_t>& integers_of(const Attributes& attributes, std::string_view name) {
  static const std::vector<int64_t> none;
  const Attribute* found = find(attributes, name, Attribute::Kind::list);
  return found ? found->integers : none;
}

}  // namespace softcann::model
