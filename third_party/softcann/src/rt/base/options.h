// The values of options.def. Nothing else in softcann reads the environment.
#pragma once

#include <cstdint>
#include <string>

namespace softcann {

struct Options {
  using Count = uint64_t;
  using Bytes = uint64_t;
  using Flag = bool;
  using Text = std::string;
#define SOFTCANN_OPTION(field, name, kind, fallback, doc) kind field = fallback;
#include "rt/base/options.def"
#undef SOFTCANN_OPTION
  // First wrong value or unknown SOFTCANN_* name found in the environment; empty when all is well. Entry points that
  // open a device refuse with this text.
  std::string error;
};

// Read once, at first use.
__attribute__((visibility("default"))) const Options& options();

}  // namespace softcann
