// What the partition MODEL_DEF says: ge_ir's messages ModelDef, GraphDef and OpDef as plain structures.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace softcann::model {

struct Attribute {
  enum class Kind { none, text, integer, real, boolean, list } kind = Kind::none;
  std::string text;
  int64_t integer = 0;
  double real = 0;
  std::vector<std::string> texts;  // of a list
  std::vector<int64_t> integers;
};
using Attributes = std::map<std::string, Attribute, std::less<>>;

struct OpDefinition {
  std::string name, type;
  Attributes attributes;
};
struct GraphDefinition {
  std::string name;
  std::vector<OpDefinition> ops;
  Attributes attributes;
};
struct Definition {
  std::string name;
  std::vector<GraphDefinition> graphs;
  Attributes attributes;
};

// Throws Error(corrupt).
Definition read_definition(std::string_view bytes);

// An attribute as what it should be; throws Error(corrupt) where it is of another kind, gives nothing where it is missing.
const std::string& text_of(const Attributes& attributes, std::string_view name);
int64_t integer_of(const Attributes& attributes, std::string_view name, int64_t missing);
const std::vector<std::string>& texts_of(const Attributes& attributes, std::string_view name);
const std::vector<int64_t>& integers_of(const Attributes& attributes, std::string_view name);

}  // namespace softcann::model
