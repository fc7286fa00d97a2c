// Settings of HCCL's communicators, which users give by name: ProcessGroupHCCL.Options.hccl_config.
#pragma once

#include <map>
#include <string>
#include <variant>

#include <c10/macros/Export.h>

#include "acl/hccl.h"

namespace torch_npu::distributed {

using SettingValue = std::variant<int64_t, std::string>;
// What is not there is left to HCCL.
using CommunicatorSettings = std::map<std::string, SettingValue>;

// Throws InvalidArgument for an unknown name or a value out of its range, InvalidType for text where a number belongs, or a
// number where text does.
C10_EXPORT void check_setting(const std::string& name, const SettingValue& value);
// For settings that have been checked.
HcclCommConfig make_config(const CommunicatorSettings& settings);

}  // namespace torch_npu::distributed
