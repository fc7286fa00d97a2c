// The "dump" part of a client's configuration file.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rt/dump/dump.h"

namespace softcann::dump {

struct Config {
  // Inputs and outputs of a model's operators that are not dumped (optype_blacklist, opname_blacklist).
  struct LeftOut {
    bool by_type = false;
    std::string name;
    std::vector<std::pair<bool, size_t>> places;  // whether of the outputs, and the number among them
  };
  struct Listed {
    std::string model;                                        // empty: all models, and operators that are called one by one
    std::vector<std::string> layers;                          // names or patterns
    std::vector<std::pair<std::string, std::string>> ranges;  // of a model's operators: from one to another, with both
    std::vector<LeftOut> left_out;
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
  // Whether dump_list has the call, or there is none of its kind.
  bool wants(const Call& call) const;
  // Whether a tensor of such a call is left out: number `place` of what it writes, or reads.
  bool leaves_out(const Call& call, bool written, size_t place) const;
};

aclError read_config(const char* entry, const Json& part, Config* config);

}  // namespace softcann::dump
