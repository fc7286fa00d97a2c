// Products of matrices of few bits, for operators that do something more with them.
#pragma once

#include <ATen/core/Tensor.h>

namespace softcann::op {

// Absent tensors are undefined.
struct QuantProduct {
  at::Tensor x1, x2, scale, offset, token_scale, bias;
  int64_t group_size = 0;  // not 0: scales are for blocks

  bool in_blocks() const { return group_size != 0 || (scale.defined() && scale.scalar_type() == at::kFloat8_e8m0fnu); }
};
// Their product, in float32; the bare sums of int8 where not `scaled`, in float64.
at::Tensor quantized_value(const QuantProduct& in, bool scaled);

// A weight of few bits times numbers that are not: a scale for each column, or for `group_size` rows of one.
struct WeightQuantProduct {
  const at::Tensor &scale, &offset, &bias;
  int64_t group_size;

  at::Tensor value(const at::Tensor& x, const at::Tensor& weight) const;
};

}  // namespace softcann::op
