// Numbers of few bits: how a real number is stored as one, and how products of them are taken.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

namespace softcann::op {

// The greatest number `out` holds of rows of `columns` numbers: 127 for int8, 7 for int4, which lies eight in an int32 (lowest
// first) or two in a byte, the format's for float8 and float4.
double quantum_limit(const at::Tensor& out, int64_t columns);
// Rounded by `mode` ("" and "rint": to nearest, ties to even; "round", "floor", "ceil", "trunc", as CANN calls them).
at::Tensor rounded(const at::Tensor& value, std::string_view mode);
// Stores `value` in an integer, float8 or float4 tensor, kept in its range; float4 takes "round" (ties away from 0) and "floor".
void put_quantized(const at::Tensor& out, const at::Tensor& value, std::string_view mode = "");
// value / scale with scale = max |value| / limit of each row (over all rows where `whole`); stores both. `limit` 0: out's.
void quantize_rows(const at::Tensor& value, const at::Tensor& out, const at::Tensor& scales, double limit = 0,
                   bool whole = false);
// The same with an offset, from each row's least to its greatest value.
void quantize_rows_with_offset(const at::Tensor& value, const at::Tensor& out, const at::Tensor& scales,
                               const at::Tensor& offsets, bool whole = false);

// Blocks of 32 along the last dimension and their powers of two, in pairs. See Note [MX].
void quantize_mx(const at::Tensor& value, const at::Tensor& out, const at::Tensor& scales);

// Whether two numbers share a byte, so that the sizes of `tensor` are halves: see Note [Four bits].
inline bool halved(const at::Tensor& tensor) {
  const auto type = tensor.scalar_type();
  return type == at::ScalarType::Float4_e2m1fn_x2 || type == at::ScalarType::Bits8 || type == at::ScalarType::Bits4x2;
}
// int4 in int32, int4 and float4 in bytes as one number each, anything else as it is; in float32.
at::Tensor unpacked(const at::Tensor& tensor);
// A scale of the matrix unit in float32. See Note [Deq scale].
at::Tensor scale_of(const at::Tensor& scale);
// a @ b in float32; int8 products are exact.
at::Tensor quantized_matmul(const at::Tensor& a, const at::Tensor& b);

// The group of each row by the groups' ends, and how many groups there are for rows behind the last.
at::Tensor groups_of_rows(int64_t rows, const at::Tensor& ends);

}  // namespace softcann::op
