// The adapter's options: one table (options.def), read from the environment once, changed by name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <c10/macros/Export.h>

namespace torch_npu::core {

struct Options {
#define NPU_OPTION(type, name, initial, variables, doc) type name = initial;
#include "core/options.def"
#undef NPU_OPTION
};

// The current values. Plain fields: they are written at start-up and by set_option, which callers
// serialise (Python holds the GIL).
C10_EXPORT const Options& options();

// Sets an option by name from text ("1"/"0"/"true"/"false" for bool, decimal for integers).
// Throws c10::ValueError for an unknown name or a value that does not parse.
C10_EXPORT void set_option(const std::string& name, const std::string& value);

struct OptionInfo {
  std::string name, type, initial, value, variables, doc;
};
C10_EXPORT std::vector<OptionInfo> describe_options();

}  // namespace torch_npu::core
