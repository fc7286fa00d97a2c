// A dimension of a tensor as rows without gaps, for kernels that take one row at a time.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_cpu_dispatch.h>
#include <c10/core/CPUAllocator.h>
#include <algorithm>

#include "op/simd/thresholds.h"

namespace softcann::op {

// The elements along `dim` next to each other, copied only where they are not.
inline at::Tensor as_rows(const at::Tensor& tensor, int64_t dim) { return tensor.transpose(dim, -1).contiguous(); }

// How far apart the elements along `dim` of a contiguous tensor are; a stride says it only where there are two.
inline int64_t inner_of(const at::Tensor& tensor, int64_t dim) {
  int64_t inner = 1;
  for (int64_t d = (dim < 0 ? dim + tensor.dim() : dim) + 1; d < tensor.dim(); ++d) inner *= tensor.size(d);
  return inner;
}

// Whether kernels that write one and read the other later may meet their own results.
inline bool overlap(const at::Tensor& a, const at::Tensor& b) {
  const auto end = [](const at::Tensor& t) {
    int64_t last = 0;
    for (int64_t d = 0; d < t.dim(); ++d) last += (t.size(d) - 1) * t.stride(d);
    return static_cast<const char*>(t.const_data_ptr()) + (last + 1) * static_cast<int64_t>(t.itemsize());
  };
  if (a.numel() == 0 || b.numel() == 0) return false;
  return static_cast<const char*>(a.const_data_ptr()) < end(b) && static_cast<const char*>(b.const_data_ptr()) < end(a);
}

// Rows for a result: the output's own memory where it has this form, else memory that finish() copies from.
class RowsResult {
 public:
  RowsResult(const at::Tensor& target, int64_t dim, at::ScalarType type) : view_(target.transpose(dim, -1)) {
    own_ = view_.scalar_type() != type || !view_.is_contiguous();
    rows_ = own_ ? at::cpu::empty(view_.sizes(), view_.options().dtype(type)) : view_;
  }
  const at::Tensor& rows() const { return rows_; }
  void finish() const {
    if (own_) view_.copy_(rows_);
  }

 private:
  at::Tensor view_, rows_;
  bool own_ = false;
};

// Memory for a thread's part of the work, from the kernels' cache where there is one; see Note [Scratch].
class RowScratch {
 public:
  explicit RowScratch(int64_t bytes) : memory_(c10::GetCPUAllocator()->allocate(static_cast<size_t>(bytes))) {}
  char* data() const { return static_cast<char*>(memory_.get()); }

 private:
  c10::DataPtr memory_;
};

// Rows that are worth a thread.
inline int64_t row_grain(int64_t length, double work_of_an_element) {
  return std::max<int64_t>(
      1, static_cast<int64_t>(static_cast<double>(threshold::grain) / (work_of_an_element * static_cast<double>(length))));
}

}  // namespace softcann::op
