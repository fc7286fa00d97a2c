// Copies that turn rows into columns.
#pragma once

#include <ATen/core/Tensor.h>

namespace softcann::op {

// target = source, of one size and dtype, where the dimension along which the source's elements lie side by side is not the
// target's. Touches nothing and returns false for other tensors, small ones, and memory in common.
bool copy_transposed(const at::Tensor& target, const at::Tensor& source);

}  // namespace softcann::op
