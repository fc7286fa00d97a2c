// The "dump" part of a client's configuration file.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rt/runtime.h"

namespace softcann {
struct Json;
}

namespace softcann::dump {

struct Config {
  struct Listed {
    std::string model;                // empty: operators that are called one by one
    std::vector<std::string> layers;  // names or patterns; empty: all
  };
  enum class Only : uint8_t { all, nan, overflow, failed };

  std::string path;
  bool reads = false, writes = true;
  bool tensors = true;  // false: statistics alone
  bool singles = false;
  std::vector<Listed> list;
  std::vector<std::pair<int64_t, int64_t>> steps;  // first and last; empty: all
  Only only = Only::all;
  std::set<std::string> statistics;  // empty: all

  bool wants_step(int64_t step) const;
  bool wants_name(const std::string& model, const std::string& name) const;
};

aclError read_config(const char* entry, const Json& part, Config* config);

}  // namespace softcann::dump
