// Sort and selection along one dimension.
#pragma once

#include <ATen/core/Tensor.h>

namespace softcann::op {

// values and indices (int64) = `self` in order along `dim`, NaN greatest, equals in the order of their places. Touches nothing
// and returns false for dtypes without a kernel of its own.
bool sort_rows(const at::Tensor& self, int64_t dim, bool descending, const at::Tensor& values, const at::Tensor& indices);

// The first k of that order; of equals the first ones.
bool topk_rows(const at::Tensor& self, int64_t k, int64_t dim, bool largest, const at::Tensor& values, const at::Tensor& indices);

}  // namespace softcann::op
