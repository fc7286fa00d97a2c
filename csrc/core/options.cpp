#include "core/options.h"

#include <cstdio>
#include <cstdlib>
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

// Length of the character of UTF-8 that begins here; 0 when none does.
size_t utf8_length(const char* text) {
  const auto byte = [text](size_t at) { return static_cast<unsigned char>(text[at]); };
  const auto follows = [&](size_t at) { return (byte(at) & 0xc0) == 0x80; };
  if (byte(0) < 0x80) return 1;
  if (byte(0) >= 0xc2 && byte(0) < 0xe0) return follows(1) ? 2 : 0;
  const bool three = byte(0) >= 0xe0 && byte(0) < 0xf0, four = byte(0) >= 0xf0 && byte(0) < 0xf5;
  if ((!three && !four) || !follows(1) || !follows(2)) return 0;
  const unsigned second = byte(1);
  if ((byte(0) == 0xe0 && second < 0xa0) || (byte(0) == 0xed && second >= 0xa0)) return 0;  // overlong, surrogates
  if (three) return 3;
  if ((byte(0) == 0xf0 && second < 0x90) || (byte(0) == 0xf4 && second >= 0x90)) return 0;  // overlong, beyond Unicode
  return follows(3) ? 4 : 0;
}

// The text with \xNN for what is not UTF-8: an error must be text that Python can take.
std::string printable(const std::string& text) {
  std::string result;
  for (const char* at = text.c_str(); *at != 0;) {
    const size_t length = utf8_length(at);
    if (length != 0) {
      result.append(at, length);
      at += length;
      continue;
    }
    char escaped[5];
    std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned char>(*at++));
    result += escaped;
  }
  return result;
}

template <class T>
void assign(const std::string& source, const std::string& text, const char* type, T& field) {
  const auto shown = printable(text);
  TORCH_CHECK_VALUE(shown == text, source, "=", shown, ": this is not text in UTF-8");
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
