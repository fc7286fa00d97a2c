// What a dump tells of a tensor's values.
#pragma once

#include <set>
#include <string>

#include "rt/dump/dump.h"

namespace softcann::dump {

// Of the finite elements; complex numbers count by magnitude.
struct Statistics {
  bool known = false;  // false: of no elements, or of a type without arithmetic
  double min = 0, max = 0, mean = 0, norm = 0;
  uint64_t nan = 0, inf = 0;
};
Statistics statistics_of(const Tensor& tensor);
// JSON, of the chosen ones; empty: of all.
std::string text_of(const Statistics& statistics, const std::set<std::string>& chosen);

// A .npy file.
std::string npy_of(const Tensor& tensor);
// As PyTorch names it; of a type that it has not CANN's number.
std::string dtype_name(aclDataType type);
// As Ascend's tools print it.
SOFTCANN_API const char* format_name(aclFormat format);

// A copy of the `bytes` at `data`, which the caller may read (device_view()); elements without gaps, bfloat16 as float. Where
// they are not as many as `dims` says, a list of them.
SOFTCANN_API Tensor copy_of(std::string name, bool written, aclDataType type, std::vector<int64_t> dims, const void* data,
                            size_t bytes);

}  // namespace softcann::dump
