// What operators are launched with, for a profile: shapes, dtypes and storage formats of the tensors.
#pragma once

#include <vector>

#include <ATen/core/DimVector.h>

#include "op/check_numbers.h"

namespace torch_npu::op {

struct Operand {
  at::DimVector sizes;
  c10::ScalarType dtype;
  int64_t format;
  bool read, written;
};

C10_EXPORT void set_note_operands(bool on);
// Keeps those of the launch that this thread prepares.
void note_operands(const char* op, c10::ArrayRef<NumberSource> sources);
// Takes them where it begins; empty where nothing was noted. `op` is the pointer that was noted.
C10_EXPORT std::vector<Operand> take_operands(const char* op);

}  // namespace torch_npu::op
