// Weights of products that clients prepare: packed to four bits, with 8 bits and a scale, and of convolutions in blocks.
#include "op/formats.h"
#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/quantize.h"
#include "op/kernels/storage_format.h"
#include "op/tensor.h"
#include "rt/base/error.h"

using namespace softcann::op;

// A number in each int32 (or float32, of float4_e2m1) becomes one of four bits: two in a byte, or eight in an int32, lowest
// first.
OP(aclnnConvertWeightToINT4Pack) {
  constexpr const char* name = "aclnnConvertWeightToINT4Pack";
  const auto type = weightInt4Pack.scalar_type();
  const bool floating = weight.scalar_type() == at::kFloat, words = type == (floating ? at::kFloat : at::kInt);
  const auto nibbles = floating ? at::ScalarType::Float4_e2m1fn_x2 : at::ScalarType::Bits4x2;
  TORCH_CHECK(floating || weight.scalar_type() == at::kInt, name, ": weight is ", weight.scalar_type(), ", not int32 or float32");
  TORCH_CHECK(words || type == nibbles, name, ": int32 becomes int4 or int32, float32 becomes float4_e2m1 or float32, not ",
              type);
  const int64_t each = words ? 8 : 2;
  TORCH_CHECK(weight.dim() >= 2 && weight.dim() <= 3 && weight.size(-1) % each == 0, name, ": weight ", weight.sizes(),
              " where two or three dimensions are expected, the last a multiple of ", each);
  std::vector<int64_t> sizes = weight.sizes().vec();
  sizes.back() /= 2;
  const at::Tensor packed = at::empty(sizes, at::TensorOptions(nibbles));
  put_quantized(packed, widened(weight));
  const at::Tensor result = packed.view(at::kByte).view(words ? type : at::kByte);
  const aclTensor& made = *descriptor_of(weightInt4Pack);
  if (is_base_format(made.format)) return put(words ? weightInt4Pack : weightInt4Pack.view(at::kByte), result);
  store(stored_of(made), result);
}

// x2 in 8 bits: ((x2 - antiquantOffset) * antiquantScale + addOffset) * mulScale. For up to 64 rows of x1 the client has made of
// these, for the matrix unit, (x2 + deqOffset) * deqScale.
OP(aclnnWeightQuantBatchMatmul) {
  constexpr const char* name = "aclnnWeightQuantBatchMatmul";
  constexpr int64_t few_rows = 64;
  TORCH_CHECK(x1.dim() == 2 && x2.dim() == 2, name, ": x1 ", x1.sizes(), " and x2 ", x2.sizes(), " where matrices are expected");
  const auto turned = [](const at::Tensor& x, bool turn) { return turn ? x.t() : x; };
  const at::Tensor left = widened(turned(x1, transposeX1)), right = widened(turned(x2, transposeX2));
  at::Tensor real;
  if (left.size(0) <= few_rows) {
    TORCH_CHECK(given(deqOffset) && given(deqScale), name, ": deqOffset and deqScale are needed for up to 64 rows");
    real = (right + widened(deqOffset).reshape({-1})) * scale_of(deqScale).reshape({-1});
  } else {
    real = (right - antiquantOffset) * antiquantScale;
    if (given(addOffset)) real = real + widened(addOffset).reshape({-1});
    if (given(mulScale)) real = real * widened(mulScale).reshape({-1});
  }
  const at::Tensor product = at::matmul(left, real);
  put(out, given(bias) ? product + widened(bias) : product);
}
