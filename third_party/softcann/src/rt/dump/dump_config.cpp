#include "rt/dump/dump_config.h"

#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>

#include "rt/base/error.h"
#include "rt/base/json.h"

namespace softcann::dump {
namespace {

constexpr const char* kKeys[] = {"dump_path",      "dump_list",  "dump_mode",  "dump_level", "dump_step", "dump_data",
                                 "dump_op_switch", "dump_debug", "dump_stats", "dump_scene", "dump_only"};

[[noreturn]] void refuse(const std::string& text) { throw Error(ErrorKind::bad_argument, text); }

std::string text_of(const Json& part, const char* key, const char* otherwise) {
  const Json* value = part.find(key);
  if (value == nullptr) return otherwise;
  if (!value->is(Json::Kind::text)) refuse(std::string(key) + ": a text is expected");
  return value->text;
}

std::string one_of(const Json& part, const char* key, const char* otherwise, std::initializer_list<const char*> allowed) {
  const std::string value = text_of(part, key, otherwise);
  std::string names;
  for (const char* name : allowed) {
    if (value == name) return value;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  refuse(std::string(key) + "=" + value + ": expected is one of " + names);
}

// "0|3-5|10"
void read_steps(const std::string& text, Config* config) {
  const auto number = [&](std::string_view digits) {
    int64_t value = 0;
    const char* end = digits.data() + digits.size();
    const auto [behind, problem] = std::from_chars(digits.data(), end, value);
    if (digits.empty() || problem != std::errc() || behind != end || value < 0) {
      refuse("dump_step=" + text + ": expected are steps and ranges such as 0|3-5|10");
    }
    return value;
  };
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find('|'));
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
    const size_t dash = one.find('-');
    const int64_t first = number(one.substr(0, dash));
    const int64_t last = dash == std::string_view::npos ? first : number(one.substr(dash + 1));
    if (last < first) refuse("dump_step=" + text + ": a range ends before it begins");
    config->steps.emplace_back(first, last);
  }
}

void read_list(const Json& part, Config* config) {
  const Json* list = part.find("dump_list");
  if (list == nullptr) return;
  if (!list->is(Json::Kind::list)) refuse("dump_list: a list is expected");
  for (const Json& one : list->list) {
    if (!one.is(Json::Kind::object)) refuse("dump_list: objects with model_name and layer are expected");
    Config::Listed& listed = config->list.emplace_back();
    for (const auto& [key, value] : one.object) {
      if (key == "model_name" && value.is(Json::Kind::text)) {
        listed.model = value.text;
      } else if (key == "layer" && value.is(Json::Kind::list)) {
        for (const Json& layer : value.list) {
          if (!layer.is(Json::Kind::text)) refuse("dump_list: a layer is a name");
          listed.layers.push_back(layer.text);
        }
      } else {
        refuse("dump_list: '" + key + "' is not served; model_name is a text, layer a list of names or patterns");
      }
    }
  }
}

void read_statistics(const Json& part, Config* config) {
  const Json* list = part.find("dump_stats");
  if (list == nullptr) return;
  if (config->tensors) refuse("dump_stats: only with dump_data=stats");
  static const std::map<std::string, std::string> kNames = {{"Max", "max"},    {"Min", "min"},          {"Avg", "mean"},
                                                            {"Nan", "nan"},    {"Negative Inf", "inf"}, {"Positive Inf", "inf"},
                                                            {"L2norm", "norm"}};
  for (const Json& one : list->list) {
    const auto known = kNames.find(one.text);
    if (known == kNames.end()) refuse("dump_stats: expected are Max, Min, Avg, Nan, Negative Inf, Positive Inf, L2norm");
    config->statistics.insert(known->second);
  }
}

void read_scene(const Json& part, Config* config) {
  const std::string only = one_of(part, "dump_only", "", {"", "nan", "overflow"});
  if (only == "nan") config->only = Config::Only::nan;
  if (only == "overflow" || one_of(part, "dump_debug", "off", {"on", "off"}) == "on") config->only = Config::Only::overflow;
  const std::string scene = text_of(part, "dump_scene", "");
  if (scene.empty()) return;
  if (scene == "watcher") refuse("dump_scene=watcher: memory is not watched here; SOFTCANN_CHECK=memory looks at every operator");
  one_of(part, "dump_scene", "",
         {"lite_exception", "aic_err_brief_dump", "aic_err_norm_dump", "aic_err_detail_dump", "overflow"});
  config->only = scene == "overflow" ? Config::Only::overflow : Config::Only::failed;
}

void read_all(const Json& part, Config* config) {
  if (!part.is(Json::Kind::object)) refuse("an object is expected");
  for (const auto& [key, value] : part.object) {
    if (std::find(std::begin(kKeys), std::end(kKeys), key) == std::end(kKeys)) {
      std::string names;
      for (const char* known : kKeys) names += (names.empty() ? "" : ", ") + std::string(known);
      refuse("'" + key + "' is not served; the keys are " + names);
    }
  }
  read_scene(part, config);
  const bool watches = config->only != Config::Only::all;  // everything, for what is bad is seldom
  config->path = text_of(part, "dump_path", "");
  if (config->path.empty()) {
    if (config->only != Config::Only::failed) refuse("dump_path is missing");
    config->path = ".";
  }
  const std::string mode = one_of(part, "dump_mode", watches ? "all" : "output", {"input", "output", "all"});
  config->reads = mode != "output";
  config->writes = mode != "input";
  one_of(part, "dump_level", "all", {"op", "kernel", "all"});
  config->tensors = one_of(part, "dump_data", "tensor", {"tensor", "stats"}) == "tensor";
  config->singles = one_of(part, "dump_op_switch", watches ? "on" : "off", {"on", "off"}) == "on";
  read_steps(text_of(part, "dump_step", ""), config);
  read_list(part, config);
  read_statistics(part, config);
}

bool matches(const std::vector<std::string>& patterns, const std::string& name) {
  if (patterns.empty()) return true;
  const std::string plain = name.starts_with("aclnn") ? name.substr(5) : name;
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return fnmatch(pattern.c_str(), name.c_str(), 0) == 0 || fnmatch(pattern.c_str(), plain.c_str(), 0) == 0;
  });
}

}  // namespace

bool Config::wants_step(int64_t step) const {
  return steps.empty() ||
         std::any_of(steps.begin(), steps.end(), [&](const auto& range) { return range.first <= step && step <= range.second; });
}

// Entries without a model choose among single operators, those with one among models; where there are none of a kind, all.
bool Config::wants_name(const std::string& model, const std::string& name) const {
  if (model.empty() && !singles) return false;
  bool restricted = false;
  for (const Listed& listed : list) {
    if (listed.model.empty() != model.empty()) continue;
    restricted = true;
    if ((model.empty() || fnmatch(listed.model.c_str(), model.c_str(), 0) == 0) && matches(listed.layers, name)) return true;
  }
  return !restricted;
}

aclError read_config(const char* entry, const Json& part, Config* config) {
  try {
    read_all(part, config);
    return ACL_SUCCESS;
  } catch (const Error& error) {
    return fail(ACL_ERROR_INVALID_DUMP_CONFIG, "%s: the configuration of the dump: %s", entry, error.what());
  }
}

}  // namespace softcann::dump
