// Running sums and products along one dimension.
#pragma once

#include <ATen/core/Tensor.h>

namespace softcann::op {

// out = the running sum (or product) of `self` along `dim`, bit for bit ATen's: one addition after the other, in float64 for
// float32, in float32 for halves, in int64 for integers and bool. Touches nothing and returns false where dtypes or layouts are
// not what it is made for.
bool scan_along(const at::Tensor& self, int64_t dim, bool product, const at::Tensor& out);

}  // namespace softcann::op
