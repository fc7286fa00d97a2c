#include "distributed/communicator_settings.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "distributed/arguments.h"
#include "distributed/communicator.h"

namespace torch_npu::distributed {
namespace {

struct Number {
  const char* name;
  int64_t least, greatest;
  void (*set)(HcclCommConfig&, int64_t);
};

struct Text {
  const char* name;
  size_t room;  // with the zero at its end
  char* (*target)(HcclCommConfig&);
};

constexpr int64_t kInt32 = std::numeric_limits<int32_t>::max();
constexpr int64_t kUint32 = std::numeric_limits<uint32_t>::max();
constexpr int64_t kInt64 = std::numeric_limits<int64_t>::max();

#define NUMBER(name, least, greatest, field)                                                                     \
  Number {                                                                                                       \
    name, least, greatest,                                                                                       \
        [](HcclCommConfig& config, int64_t value) { config.field = static_cast<decltype(config.field)>(value); } \
  }
#define TEXT(name, field)                                                                            \
  Text {                                                                                             \
    name, sizeof HcclCommConfig::field, [](HcclCommConfig& config) -> char* { return config.field; } \
  }

const Number kNumbers[] = {
    NUMBER("hccl_buffer_size", 0, kUint32, hcclBufferSize),
    NUMBER("hccl_deterministic", 0, kUint32, hcclDeterministic),
    NUMBER("qos_service_level", 0, 7, hcclRdmaServiceLevel),
    NUMBER("qos_traffic_class", 0, 255, hcclRdmaTrafficClass),
    NUMBER("hccl_op_expansion_mode", 0, kUint32, hcclOpExpansionMode),
    NUMBER("hccl_exec_timeout", -1, kInt32, hcclExecTimeOut),
    NUMBER("hccl_world_rank_id", 0, kUint32, hcclWorldRankID),
    NUMBER("hccl_job_id", 0, kInt64, hcclJobID),
    NUMBER("hccl_sdma_qos", 0, kUint32, hcclQos),
    NUMBER("hccl_sym_win_max_mem_size_per_rank", 0, kInt64, hcclSymWinMaxMemSizePerRank),
};

const Text kTexts[] = {
    TEXT("group_name", hcclCommName),           TEXT("hccl_algo", hcclAlgo),
    TEXT("hccl_retry_enable", hcclRetryEnable), TEXT("hccl_retry_params", hcclRetryParams),
    TEXT("hccl_buffer_name", hcclBufferName),
};

#undef NUMBER
#undef TEXT

template <typename Table>
auto find(const Table& table, const std::string& name) {
  const auto* found = std::find_if(std::begin(table), std::end(table), [&](const auto& each) { return name == each.name; });
  return found == std::end(table) ? nullptr : found;
}

std::string all_names() {
  std::string names;
  for (const auto& each : kNumbers) names += std::string(names.empty() ? "" : ", ") + each.name;
  for (const auto& each : kTexts) names += std::string(", ") + each.name;
  return names;
}

}  // namespace

void check_setting(const std::string& name, const SettingValue& value) {
  if (const auto* number = find(kNumbers, name)) {
    const auto* given = std::get_if<int64_t>(&value);
    NPU_CHECK_ARGUMENT_TYPE(given, "hccl_config: ", name, " must be a number, got '", std::get<std::string>(value), "'");
    NPU_CHECK_ARGUMENT(*given >= number->least && *given <= number->greatest, "hccl_config: ", name, " is ", *given,
                       ", but must be ", number->least, " to ", number->greatest);
    return;
  }
  const auto* text = find(kTexts, name);
  NPU_CHECK_ARGUMENT(text, "hccl_config: unknown setting ", name, "; known are ", all_names());
  const auto* given = std::get_if<std::string>(&value);
  NPU_CHECK_ARGUMENT_TYPE(given, "hccl_config: ", name, " must be text, got ", std::get<int64_t>(value));
  NPU_CHECK_ARGUMENT(given->size() < text->room, "hccl_config: ", name, " '", *given, "' is longer than ", text->room - 1,
                     " characters");
}

HcclCommConfig make_config(const CommunicatorSettings& settings) {
  auto config = default_config();
  for (const auto& [name, value] : settings) {
    if (const auto* number = find(kNumbers, name)) {
      number->set(config, std::get<int64_t>(value));
    } else if (const auto* text = find(kTexts, name)) {
      const auto& given = std::get<std::string>(value);
      std::memcpy(text->target(config), given.c_str(), given.size() + 1);
    }
  }
  return config;
}

}  // namespace torch_npu::distributed
