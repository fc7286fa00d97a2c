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

// Its purpose are operators that write into other's memory.
constexpr const char* kNoWatcher = "memory is not watched here; SOFTCANN_CHECK=memory looks at every operator";

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

const Json& member(const Json& of, const char* key, Json::Kind kind, const char* where) {
  const Json* value = of.is(Json::Kind::object) ? of.find(key) : nullptr;
  if (value == nullptr || !value->is(kind)) refuse(std::string("dump_list: ") + where);
  return *value;
}

// [{"begin": "conv1", "end": "relu1"}]
void read_ranges(const Json& list, Config::Listed* listed) {
  constexpr const char* where = "opname_range is a list of {\"begin\": name, \"end\": name} of the model's operators";
  for (const Json& one : list.list) {
    listed->ranges.emplace_back(member(one, "begin", Json::Kind::text, where).text,
                                member(one, "end", Json::Kind::text, where).text);
    if (listed->ranges.back().first.empty() || listed->ranges.back().second.empty()) refuse(std::string("dump_list: ") + where);
  }
}

// [{"name": "conv1", "pos": ["input0", "output1"]}]. One without a name, or without places, leaves nothing out.
void read_left_out(const Json& list, bool by_type, Config::Listed* listed) {
  constexpr const char* where = "a blacklist is a list of {\"name\": name, \"pos\": [\"input0\", \"output1\"]}";
  for (const Json& one : list.list) {
    Config::LeftOut left{by_type, member(one, "name", Json::Kind::text, where).text, {}};
    for (const Json& place : member(one, "pos", Json::Kind::list, where).list) {
      const bool written = place.text.starts_with("output");
      const std::string_view digits = std::string_view(place.text).substr(std::min(place.text.size(), written ? size_t{6} : 5));
      size_t number = 0;
      const auto [behind, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
      if ((!written && !place.text.starts_with("input")) || digits.empty() || problem != std::errc() ||
          behind != digits.data() + digits.size()) {
        refuse(std::string("dump_list: ") + where);
      }
      left.places.emplace_back(written, number);
    }
    listed->left_out.push_back(std::move(left));
  }
}

void read_listed(const std::string& key, const Json& value, Config::Listed* listed) {
  const bool is_list = value.is(Json::Kind::list);
  if (key == "model_name" && value.is(Json::Kind::text)) {
    listed->model = value.text;
  } else if (key == "layer" && is_list) {
    for (const Json& layer : value.list) {
      if (!layer.is(Json::Kind::text)) refuse("dump_list: a layer is a name");
      listed->layers.push_back(layer.text);
    }
  } else if (key == "opname_range" && is_list) {
    read_ranges(value, listed);
  } else if ((key == "optype_blacklist" || key == "opname_blacklist") && is_list) {
    read_left_out(value, key == "optype_blacklist", listed);
  } else if (key == "watcher_nodes") {
    refuse(std::string("dump_list: watcher_nodes: ") + kNoWatcher);
  } else {
    refuse("dump_list: '" + key +
           "' is not served so; model_name is a text, layer, opname_range, optype_blacklist and "
           "opname_blacklist are lists");
  }
}

void read_list(const Json& part, Config* config) {
  const Json* list = part.find("dump_list");
  if (list == nullptr) return;
  if (!list->is(Json::Kind::list)) refuse("dump_list: a list is expected");
  for (const Json& one : list->list) {
    if (!one.is(Json::Kind::object)) refuse("dump_list: objects with model_name and layer are expected");
    Config::Listed& listed = config->list.emplace_back();
    for (const auto& [key, value] : one.object) read_listed(key, value, &listed);
    if (!listed.ranges.empty() && listed.model.empty()) refuse("dump_list: opname_range: whose operators, model_name has to say");
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
  if (scene == "watcher") refuse(std::string("dump_scene=watcher: ") + kNoWatcher);
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
  const std::string plain = name.starts_with("aclnn") ? name.substr(5) : name;
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return fnmatch(pattern.c_str(), name.c_str(), 0) == 0 || fnmatch(pattern.c_str(), plain.c_str(), 0) == 0;
  });
}

bool is_of(const Config::Listed& listed, const Call& call) {
  return listed.model.empty() || (!call.model.empty() && fnmatch(listed.model.c_str(), call.model.c_str(), 0) == 0);
}

// Whether the call lies in a range. Of one that failed alone the begins of ranges were not seen: it is in each.
bool is_in_range(const Config::Listed& listed, size_t number, const Call& call) {
  if (call.ranges == nullptr) return !listed.ranges.empty();
  bool inside = false;
  for (size_t i = 0; i < listed.ranges.size(); ++i) {
    const auto& [first, last] = listed.ranges[i];
    if (call.name == first) call.ranges->emplace(number, i);
    inside = inside || call.ranges->count({number, i}) != 0;
    if (call.name == last) call.ranges->erase({number, i});
  }
  return inside;
}

}  // namespace

bool Config::wants_step(int64_t step) const {
  return steps.empty() ||
         std::any_of(steps.begin(), steps.end(), [&](const auto& range) { return range.first <= step && step <= range.second; });
}

// Entries with a model choose among models' operators, those without among all; where there are none of a kind, all are wanted.
bool Config::wants(const Call& call) const {
  if (call.model.empty() && !singles) return false;
  bool restricted = false, wanted = false;
  for (size_t i = 0; i < list.size(); ++i) {
    const Listed& listed = list[i];
    restricted = restricted || listed.model.empty() || !call.model.empty();
    if (!is_of(listed, call)) continue;
    const bool in_range = is_in_range(listed, i, call);  // of each entry, for the ranges' sake
    wanted = wanted || in_range || (listed.layers.empty() && listed.ranges.empty()) || matches(listed.layers, call.name);
  }
  return wanted || !restricted;
}

bool Config::leaves_out(const Call& call, bool written, size_t place) const {
  if (call.model.empty()) return false;
  return std::any_of(list.begin(), list.end(), [&](const Listed& listed) {
    if (!is_of(listed, call)) return false;
    return std::any_of(listed.left_out.begin(), listed.left_out.end(), [&](const LeftOut& left) {
      return left.name == (left.by_type ? call.type : call.name) &&
             std::find(left.places.begin(), left.places.end(), std::pair{written, place}) != left.places.end();
    });
  });
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
