#pragma once

#include <ATen/core/Tensor.h>

#include "core/generator.h"

namespace torch_npu::native {

// The dtypes that CANN's mask applies to.
inline bool is_dropped_by_cann(at::ScalarType type) { return type == at::kFloat || type == at::kHalf || type == at::kBFloat16; }

// Bytes of a mask: a bit for each of `numel` elements, in whole blocks of 128.
int64_t dropout_mask_size(int64_t numel);

// A bit for each of `numel` elements, set with probability 1 - p; in whole blocks of 128 bits, on the device of `like`.
at::Tensor dropout_mask(const at::Tensor& like, int64_t numel, double p, int64_t seed, int64_t offset);
at::Tensor dropout_mask(const at::Tensor& like, int64_t numel, double p, const core::Draws& draws);

// Writes to `out`, and returns it, `self` / (1 - p) where the mask has a 1, else 0.
const at::Tensor& dropout_by_mask(const at::Tensor& self, const at::Tensor& mask, double p, const at::Tensor& out);

}  // namespace torch_npu::native
