#include "core/options.h"

#include <cstdlib>
#include <optional>
#include <sstream>

#include <c10/util/Exception.h>

namespace torch_npu::core {
namespace {

bool parse(const std::string& text, bool& out) {
  if (text == "1" || text == "true" || text == "True" || text == "on") return out = true, true;
  if (text == "0" || text == "false" || text == "False" || text == "off" || text.empty()) return out = false, true;
  return false;
}

bool parse(const std::string& text, int64_t& out) {
  char* end = nullptr;
  const auto value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end) return false;
  out = value;
  return true;
}

bool parse(const std::string& text, std::string& out) {
  out = text;
  return true;
}

std::string print(bool value) { return value ? "1" : "0"; }
std::string print(int64_t value) { return std::to_string(value); }
std::string print(const std::string& value) { return value; }

template <class T>
void assign(const std::string& source, const std::string& text, const char* type, T& field) {
  TORCH_CHECK_VALUE(parse(text, field), source, "=", text, ": expected a value of type ", type,
                    std::is_same_v<T, bool> ? " (1 or 0)" : "");
}

template <class T>
void read_environment(const char* variables, const char* type, T& field) {
  std::istringstream names(variables);
  for (std::string name; std::getline(names, name, ',');) {
    if (const char* text = std::getenv(name.c_str())) {
      assign(name, text, type, field);
      return;
    }
  }
}

Options& mutable_options() {
  static Options* instance = [] {
    auto* created = new Options();
#define NPU_OPTION(type, name, initial, variables, doc) read_environment(variables, #type, created->name);
#include "core/options.def"
#undef NPU_OPTION
    return created;
  }();
  return *instance;
}

}  // namespace

const Options& options() { return mutable_options(); }

void set_option(const std::string& name, const std::string& value) {
  auto& all = mutable_options();
#define NPU_OPTION(type, field, initial, variables, doc) \
  if (name == #field) return assign(name, value, #type, all.field);
#include "core/options.def"
#undef NPU_OPTION
  std::string known;
  for (const auto& option : describe_options()) known += (known.empty() ? "" : ", ") + option.name;
  TORCH_CHECK_VALUE(false, "unknown option ", name, "; the options are: ", known);
}

std::vector<OptionInfo> describe_options() {
  const Options initial_values;
  const auto& now = options();
  return {
#define NPU_OPTION(type, name, initial, variables, doc) \
  OptionInfo{#name, #type, print(initial_values.name), print(now.name), variables, doc},
#include "core/options.def"
#undef NPU_OPTION
  };
}

}  // namespace torch_npu::core
