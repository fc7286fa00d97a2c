// The latest collective of each group of this process, in a file for programs that watch over the job.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "distributed/group_state.h"

namespace torch_npu::distributed {

struct StatusFile {
  std::string folder;  // empty: this user's own, as for the flight recorder
  std::string name;
  std::chrono::milliseconds interval{0};
  bool master = false;
};

// Writes it anew. `error`: the failure of a group, or empty.
void write_status(const StatusFile& file, const std::vector<std::shared_ptr<GroupState>>& groups, const std::string& error);

}  // namespace torch_npu::distributed
