// Tensors in internal storage formats, for kernels that compute with them.
#pragma once

#include <ATen/core/Tensor.h>

namespace softcann::op {

// The tensor's elements in the base format: itself where it is in that already, else a copy. An argument of the operator
// or an element of a list; other tensors stay. A matrix whose view is transposed lies in memory as it was before.
at::Tensor in_base_format(const at::Tensor& argument);

}  // namespace softcann::op
