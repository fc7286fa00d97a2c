// Steps before keys and values are cached, and writing them. See Note [Cache layouts].
#pragma once

#include <ATen/core/Tensor.h>

namespace softcann::op {

// x / rms(x) * gamma over the last dimension, in float32.
at::Tensor row_norm(const at::Tensor& x, const at::Tensor& gamma, double epsilon);
// Turned by pairs of the two halves, in float32; `interleaved`: neighbours belong together, and come apart into the halves.
at::Tensor rope(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, bool interleaved);
// values [tokens, heads, size] to slots that are all there, where `cache` is in pages whose rows do not lie one behind the other,
// as where keys and values share them. False, and nothing is written, where they do.
bool write_strided_pages(const at::Tensor& cache, const at::Tensor& slot, const at::Tensor& values);
// rows [tokens, heads, size]
void write_slots(const at::Tensor& cache, const at::Tensor& slots, const at::Tensor& rows, bool tiled);

}  // namespace softcann::op
