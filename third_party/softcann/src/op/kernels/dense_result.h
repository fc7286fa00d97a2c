// Results that are written through views of other sizes.
#pragma once

#include <ATen/core/Tensor.h>

namespace softcann::op {

// A result without gaps: the client's own where it lies so, else a copy of it, which is stored at the end.
class DenseResult {
 public:
  explicit DenseResult(const at::Tensor& target) : target_(target), value_(target.defined() ? target.contiguous() : target) {}
  const at::Tensor& value() const { return value_; }
  void finish() const {
    if (!value_.is_same(target_)) target_.copy_(value_);
  }

 private:
  const at::Tensor& target_;
  at::Tensor value_;
};

}  // namespace softcann::op
