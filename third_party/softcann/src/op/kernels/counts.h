// Numbers of rows that a tensor holds: of groups, of experts, of repetitions.
#pragma once

#include <ATen/ATen.h>

#include <vector>

namespace softcann::op {

// Where groups of rows end; `numbers` are that already where they are `cumulative`. Refused where one has less than 0 rows, or
// all together more than there are.
inline std::vector<int64_t> group_ends(const at::Tensor& numbers, bool cumulative, int64_t rows) {
  const at::Tensor wide = numbers.to(at::kLong).contiguous();
  std::vector<int64_t> ends(wide.const_data_ptr<int64_t>(), wide.const_data_ptr<int64_t>() + wide.numel());
  int64_t last = 0;
  for (int64_t& end : ends) {
    const int64_t count = cumulative && end >= 0 ? end - last : end;
    TORCH_CHECK(count >= 0 && count <= rows - last, cumulative ? "groups that end at " : "groups of ", wide.reshape({-1}),
                " do not follow each other in ", rows, " rows");
    end = last += count;
  }
  return ends;
}
// The same of what CANN calls a list's type: 0 ends, 1 counts.
inline std::vector<int64_t> group_ends_of_type(const at::Tensor& list, int64_t type, int64_t rows) {
  TORCH_CHECK(type == 0 || type == 1, "a list of groups of type ", type, " is not supported; 0, of ends, and 1, of counts, are");
  return group_ends(list, type == 0, rows);
}

}  // namespace softcann::op
