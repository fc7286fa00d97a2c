// Scalars as tensors, without an allocation.
#pragma once

#include <ATen/core/Tensor.h>

namespace softcann::op {

// `value` as a 0-dim tensor that takes part in type promotion the way a Python number does. Valid until the second next
// call on this thread.
const at::Tensor& wrapped(const at::Scalar& value);

// The same for an operator whose result is cast to `out`. The client has chosen out's type, so an integer tensor with
// a fractional number is computed in that type, not in torch's default one.
const at::Tensor& wrapped(const at::Scalar& value, const at::Tensor& self, const at::Tensor& out);

}  // namespace softcann::op
