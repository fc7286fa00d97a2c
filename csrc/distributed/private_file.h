// Files that other users of the machine can neither read nor choose.
#pragma once

#include <string>

namespace torch_npu::distributed {

// Writes `text` to the file <start><name>, readable by this user alone, replacing one that is there; a link at its place is
// replaced, not followed. An empty `start` stands for `usual` in /tmp/torch_npu-<uid>, which is made for this user
// alone, and refused if it is somebody else's or others can write to it. Returns the path; empty, with the reason logged, if
// the file could not be written.
std::string write_private_file(const std::string& start, const std::string& name, const std::string& text,
                               const std::string& usual = "hccl_trace_rank_");

}  // namespace torch_npu::distributed
