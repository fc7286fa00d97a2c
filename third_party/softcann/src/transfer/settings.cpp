#include "transfer/settings.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "adxl/adxl_types.h"
#include "rt/base/error.h"
#include "rt/base/json.h"
#include "rt/base/options.h"
#include "rt/base/soc_spec.h"
#include "rt/base/text_file.h"

namespace softcann::transfer {
namespace {

using Texts = std::map<std::string, std::string>;

constexpr size_t kMostFile = 1 << 20;  // of communication resources: CANN's own limit

bool to_number(const std::string& text, int64_t* number) {
  const char* end = text.data() + text.size();
  const auto [last, code] = std::from_chars(text.data(), end, *number);
  return code == std::errc() && last == end;
}

// A number, or one written as a text.
bool to_number(const Json& value, int64_t* number) {
  if (value.is(Json::Kind::text)) return to_number(value.text, number);
  if (!value.is(Json::Kind::number) || value.number != std::floor(value.number) || std::abs(value.number) > 1e15) return false;
  *number = static_cast<int64_t>(value.number);
  return true;
}

// Reads options one after the other; after the first that is wrong, none.
class Reader {
 public:
  Reader(const char* entry, Texts options) : entry_(entry), options_(std::move(options)) {}

  hixl::Status status() const { return status_; }
  bool wrong(hixl::Status status, const std::string& name, const std::string& found, const char* expected) {
    if (status_ == hixl::SUCCESS) {
      status_ = status;
      fail(static_cast<int>(status), "%s: option %s is %s: %s", entry_, name.c_str(), found.c_str(), expected);
    }
    return false;
  }
  // By either of its names.
  std::optional<std::string> text(const char* name, const char* older = nullptr) const {
    for (const char* known : {name, older}) {
      const auto found = known == nullptr ? options_.end() : options_.find(known);
      if (found != options_.end()) return found->second;
    }
    return std::nullopt;
  }
  void range(const char* name, const char* older, int64_t most, int64_t multiple, const char* expected) {
    const std::string value = text(name, older).value_or("");
    int64_t number = 0;
    if (value.empty()) return;
    if (!to_number(value, &number) || number < 0 || number > most || number % multiple != 0) {
      wrong(hixl::PARAM_INVALID, name, value, expected);
    }
  }
  bool flag(const char* name, bool may_be_empty) {
    const std::optional<std::string> value = text(name);
    if (value && *value != "0" && *value != "1" && !(may_be_empty && value->empty())) {
      wrong(hixl::PARAM_INVALID, name, *value, "0 and 1 are possible");
    }
    return value == "1";
  }
  Json object(const std::string& name, const std::string& value) {
    try {
      Json parsed = parse_json(value);
      if (parsed.is(Json::Kind::object)) return parsed;
    } catch (const Error&) {
      // Told like the other case.
    }
    wrong(hixl::PARAM_INVALID, name, value, "a JSON object is expected");
    return {};
  }
  std::optional<int64_t> member(const Json& json, const char* name, int64_t least, int64_t most) {
    const Json* found = json.find(name);
    int64_t number = 0;
    if (found == nullptr) return std::nullopt;
    if (to_number(*found, &number) && number >= least && number <= most) return number;
    wrong(hixl::PARAM_INVALID, name, found->text, "it is out of range");
    return std::nullopt;
  }
  void only(const std::set<std::string>& known) {
    for (const auto& [name, value] : options_) {
      if (known.count(name) == 0) wrong(hixl::PARAM_INVALID, name, value, "this kind of engine has no such option");
    }
  }

 private:
  const char* entry_;
  const Texts options_;
  hixl::Status status_ = hixl::SUCCESS;
};

// A list of protocols, or one.
bool has_protocols(Reader& reader, const Json& resources, bool is_950) {
  constexpr const char* kName = "comm_resource_config.protocol_desc";
  const Json* found = resources.find(kName);
  if (found == nullptr) return false;
  static const std::set<std::string> of_950 = {"roce:device", "roce:host",   "ub_ctp:device",
                                               "ub_ctp:host", "uboe:device", "ub_rtp:device"};
  static const std::set<std::string> of_others = {"roce:device", "roce:host", "hccs:device"};
  const std::set<std::string>& known = is_950 ? of_950 : of_others;
  Json one;
  one.list.push_back(*found);
  const bool is_list = found->is(Json::Kind::list);
  for (const Json& protocol : is_list ? found->list : one.list) {
    if (!protocol.is(Json::Kind::text) || known.count(protocol.text) == 0) {
      reader.wrong(hixl::PARAM_INVALID, kName, protocol.text,
                   "a protocol:place that this chip has is expected, as in roce:device");
    }
  }
  return !is_list || !found->list.empty();
}

std::string resources_of_file(Reader& reader, const Json& resources) {
  constexpr const char* kName = "local_comm_res_path";
  const Json* path = resources.find(kName);
  if (path == nullptr) return "";
  std::string content = path->is(Json::Kind::text) ? read_text_file(path->text.c_str(), kMostFile).value_or("") : "";
  if (content.empty() || content.size() > kMostFile) {
    reader.wrong(hixl::PARAM_INVALID, kName, path->text, "the name of a file of 1 byte to 1 MiB is expected");
  }
  return content;
}

}  // namespace

hixl::Status Settings::parse(const char* entry, const std::map<hixl::AscendString, hixl::AscendString>& options) {
  Texts texts;
  for (const auto& [name, value] : options) {
    const char *known = name.GetString(), *text = value.GetString();
    texts[known == nullptr ? "" : known] = text == nullptr ? "" : text;
  }
  Reader reader(entry, std::move(texts));
  const bool is_950 = std::strcmp(persona_of(softcann::options().soc).family, "Ascend950") == 0;
  reader.range(hixl::OPTION_RDMA_TRAFFIC_CLASS, adxl::OPTION_RDMA_TRAFFIC_CLASS, 255, 4,
               "a multiple of 4, up to 255, is expected");
  reader.range(hixl::OPTION_RDMA_SERVICE_LEVEL, adxl::OPTION_RDMA_SERVICE_LEVEL, 7, 1, "0 to 7 is expected");
  auto_connect = reader.flag(hixl::OPTION_AUTO_CONNECT, false);
  if (reader.flag(hixl::OPTION_ENABLE_USE_FABRIC_MEM, true)) {
    reader.wrong(hixl::UNSUPPORTED, hixl::OPTION_ENABLE_USE_FABRIC_MEM, "1", "softcann has no such memory");
  }

  std::string local = reader.text(hixl::OPTION_LOCAL_COMM_RES, adxl::OPTION_LOCAL_COMM_RES).value_or("");
  const std::string text = reader.text(hixl::OPTION_GLOBAL_RESOURCE_CONFIG).value_or("");
  if (!text.empty()) {
    const Json resources = reader.object(hixl::OPTION_GLOBAL_RESOURCE_CONFIG, text);
    threads = static_cast<uint32_t>(reader.member(resources, "connect_pool.thread_num", 1, 64).value_or(threads));
    queue = static_cast<uint32_t>(reader.member(resources, "connect_pool.task_queue_capacity", 1, 65535).value_or(queue));
    reader.member(resources, "comm_resource_config.listen_port", 1, 65535);
    reader.member(resources, "comm_resource_config.qos", 0, 7);
    reader.member(resources, "comm_resource_config.max_active_channels", 1, UINT32_MAX);
    // An engine with a pool of connections makes those that it needs.
    auto_connect |= reader.member(resources, "channel_pool.max_channel", 1, 512).has_value();
    client_server = has_protocols(reader, resources, is_950);
    const std::string from_file = resources_of_file(reader, resources);
    if (local.empty()) local = from_file;
  }
  const bool has_resources = !local.empty() || client_server;
  if (!local.empty()) {
    const Json parsed = reader.object(hixl::OPTION_LOCAL_COMM_RES, local);
    const Json* version = parsed.find("version");
    client_server = version != nullptr && version->text == "1.3";
  }
  if (is_950) {
    client_server = true;
    if (!has_resources)
      reader.wrong(hixl::PARAM_INVALID, hixl::OPTION_LOCAL_COMM_RES, "not given", "this chip has no default for it");
  }

  const std::string pool =
      reader.text(hixl::OPTION_BUFFER_POOL, adxl::OPTION_BUFFER_POOL).value_or(client_server ? "0:0" : "4:8");
  buffer_pool = pool != "0:0";
  int64_t count = 0, size = 0;
  const size_t colon = pool.find(':');
  if (colon == std::string::npos || !to_number(pool.substr(0, colon), &count) || !to_number(pool.substr(colon + 1), &size) ||
      (buffer_pool && (client_server || count <= 0 || size <= 0))) {
    reader.wrong(hixl::PARAM_INVALID, hixl::OPTION_BUFFER_POOL, pool,
                 client_server ? "this kind of engine has none: 0:0 is expected" : "number:MiB is expected, as in 4:8");
  }
  std::set<std::string> known = {hixl::OPTION_RDMA_TRAFFIC_CLASS, adxl::OPTION_RDMA_TRAFFIC_CLASS,
                                 hixl::OPTION_RDMA_SERVICE_LEVEL, adxl::OPTION_RDMA_SERVICE_LEVEL,
                                 hixl::OPTION_LOCAL_COMM_RES,     adxl::OPTION_LOCAL_COMM_RES,
                                 hixl::OPTION_BUFFER_POOL,        adxl::OPTION_BUFFER_POOL,
                                 hixl::OPTION_AUTO_CONNECT,       hixl::OPTION_GLOBAL_RESOURCE_CONFIG};
  if (!client_server) known.insert(hixl::OPTION_ENABLE_USE_FABRIC_MEM);
  reader.only(known);
  return reader.status();
}

}  // namespace softcann::transfer
