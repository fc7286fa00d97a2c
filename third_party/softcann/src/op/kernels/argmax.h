// Where along a dimension the greatest or the least number stands.
#pragma once

#include <ATen/core/Tensor.h>

namespace softcann::op {

// indices (int64) = the index along `dim` of the first NaN, or else of the first of the greatest (the least); values = the number
// there, if defined. The outputs have their size, with or without `dim`. Touches nothing and returns false where dtype or layout
// are not what it is made for.
bool argmax_along(const at::Tensor& self, int64_t dim, bool greatest, const at::Tensor& values, const at::Tensor& indices);

}  // namespace softcann::op
