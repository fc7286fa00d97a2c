#include "rt/process/init_config.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <iterator>
#include <optional>
#include <string>

#include "rt/device/device.h"
#include "rt/base/error.h"
#include "rt/base/error_mode.h"
#include "rt/base/json.h"
#include "rt/base/log.h"
#include "rt/profile/collector.h"

namespace softcann {
namespace {

struct Profile {
  std::string folder;
  recorder::Wanted wanted;
};

struct Asked {
  std::optional<Profile> profile;
  std::optional<int32_t> device;
  bool shared_errors = false;
};

// Started by a file, and so to be stopped at aclFinalize.
std::atomic<bool> recording{false};

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorKind::bad_argument, why); }

// Numbers are written as texts in CANN's files; both are taken.
int64_t whole_number(const Json& value, const char* name) {
  if (value.is(Json::Kind::number) && value.number == static_cast<double>(static_cast<int64_t>(value.number)))
    return static_cast<int64_t>(value.number);
  int64_t made = 0;
  if (value.is(Json::Kind::text)) {
    const char* end = value.text.data() + value.text.size();
    const auto [stop, problem] = std::from_chars(value.text.data(), end, made);
    if (problem == std::errc() && stop == end && !value.text.empty()) return made;
  }
  refuse(std::string(name) + " is no whole number");
}

const Json& member(const Json& part, const char* part_name, const char* name) {
  const Json* found = part.is(Json::Kind::object) ? part.find(name) : nullptr;
  if (found == nullptr) refuse(std::string(part_name) + " is to be an object with " + name);
  return *found;
}

std::string text_of(const Json& part, const char* name, const char* otherwise) {
  const Json* found = part.find(name);
  if (found == nullptr) return otherwise;
  if (!found->is(Json::Kind::text)) refuse(std::string(name) + " is no text");
  return found->text;
}

bool is_on(const Json& part, const char* name, const char* otherwise) {
  const std::string text = text_of(part, name, otherwise);
  if (text != "on" && text != "off") refuse(std::string(name) + " is '" + text + "'; on or off is expected");
  return text == "on";
}

// The switches of parts of the chip that softcann does not have are taken, and leave no records.
std::optional<Profile> read_profile(const Json& part) {
  if (!part.is(Json::Kind::object)) refuse("an object is expected");
  static constexpr const char* known[] = {"switch",
                                          "output",
                                          "storage_limit",
                                          "aic_metrics",
                                          "aicpu",
                                          "l2",
                                          "hccl",
                                          "task_time",
                                          "ascendcl",
                                          "runtime_api",
                                          "msproftx",
                                          "task_trace",
                                          "training_trace",
                                          "sys_hardware_mem_freq",
                                          "sys_io_sampling_freq",
                                          "sys_interconnection_freq",
                                          "dvpp_freq",
                                          "llc_profiling",
                                          "instr_profiling_freq",
                                          "host_sys",
                                          "host_sys_usage",
                                          "host_sys_usage_freq",
                                          "ge_api",
                                          "mstx_domain_include",
                                          "mstx_domain_exclude"};
  for (const auto& [key, value] : part.object) {
    if (std::find(std::begin(known), std::end(known), key) == std::end(known)) refuse("'" + key + "' is not known");
  }
  if (!is_on(part, "switch", "off")) return std::nullopt;
  const std::string tasks = text_of(part, "task_time", "on");
  Profile made;
  made.folder = text_of(part, "output", ".");
  made.wanted.tasks = tasks != "off";
  made.wanted.calls = is_on(part, "ascendcl", "on");
  made.wanted.marks = is_on(part, "msproftx", "on");
  return made;
}

// The size of queues and of stacks, and how events are kept, are of the chip: they are checked, and mean nothing here.
void check_sizes(const Json& content) {
  if (const Json* found = content.find("StackSize")) {
    if (whole_number(member(*found, "StackSize", "aicore_stack_size"), "aicore_stack_size") < 0)
      refuse("aicore_stack_size is negative");
  }
  if (const Json* found = content.find("simd_printf_fifo_size_per_core")) {
    const int64_t bytes = whole_number(*found, "simd_printf_fifo_size_per_core");
    if (bytes < 1 << 10 || bytes > 64 << 20) refuse("simd_printf_fifo_size_per_core is not of 1024 to 67108864 bytes");
  }
  if (const Json* found = content.find("acl_graph")) {
    const int64_t mode = whole_number(member(*found, "acl_graph", "event_mode"), "event_mode");
    if (mode != 0 && mode != 1) refuse("event_mode is neither 0 nor 1");
  }
}

void warn_of_unknown(const Json& content) {
  static constexpr const char* known[] = {
      "dump",     "profiler", "max_opqueue_num", "err_msg_mode", "defaultDevice", "StackSize", "simd_printf_fifo_size_per_core",
      "acl_graph"};
  for (const auto& [key, value] : content.object) {
    if (std::find(std::begin(known), std::end(known), key) != std::end(known)) continue;
    SOFTCANN_LOG(ACL_WARNING, "RUNTIME", "aclInit: '%s' of the configuration has no effect here", key.c_str());
  }
}

// A part of the file, its failure with the code of that part.
template <class Read>
aclError read_part(const Json& content, const char* name, aclError code, Read read) {
  const Json* found = content.find(name);
  if (found == nullptr) return ACL_SUCCESS;
  try {
    read(*found);
    return ACL_SUCCESS;
  } catch (const Error& error) {
    return fail(code, "aclInit: %s of the configuration: %s", name, error.what());
  }
}

aclError read_all(const Json& content, Asked* asked) {
  if (const aclError code = read_part(content, "profiler", ACL_ERROR_INVALID_PROFILING_CONFIG,
                                      [&](const Json& part) { asked->profile = read_profile(part); })) {
    return code;
  }
  if (const aclError code =
          read_part(content, "max_opqueue_num", ACL_ERROR_INVALID_MAX_OPQUEUE_NUM_CONFIG, [](const Json& value) {
            if (whole_number(value, "it") <= 0) refuse("it is not above 0");
          })) {
    return code;
  }
  if (const aclError code = read_part(content, "err_msg_mode", ACL_ERROR_INVALID_PARAM, [&](const Json& value) {
        const int64_t mode = whole_number(value, "it");
        if (mode != 0 && mode != 1) refuse("it is neither 0 (each thread has its own) nor 1 (the process has one)");
        asked->shared_errors = mode == 1;
      })) {
    return code;
  }
  if (const aclError code = read_part(content, "defaultDevice", ACL_ERROR_INVALID_PARAM, [&](const Json& part) {
        const int64_t id = whole_number(member(part, "defaultDevice", "default_device"), "default_device");
        if (id < 0 || id >= device_count()) {
          refuse("device " + std::to_string(id) + " does not exist: there are " + std::to_string(device_count()));
        }
        asked->device = static_cast<int32_t>(id);
      })) {
    return code;
  }
  try {
    check_sizes(content);
    return ACL_SUCCESS;
  } catch (const Error& error) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclInit: the configuration: %s", error.what());
  }
}

}  // namespace

aclError follow_init_config(const Json& content) {
  Asked asked;
  if (const aclError code = read_all(content, &asked)) return code;
  warn_of_unknown(content);
  if (asked.profile) {
    if (const aclError code = recorder::start(asked.profile->folder, asked.profile->wanted)) return code;
    recording.store(true);
  }
  share_errors(asked.shared_errors);
  // Of the thread that initialises; others choose theirs, as without a default.
  return asked.device ? aclrtSetDevice(*asked.device) : ACL_SUCCESS;
}

aclError end_init_config() {
  share_errors(false);
  return recording.exchange(false) ? recorder::stop() : ACL_SUCCESS;
}

}  // namespace softcann
