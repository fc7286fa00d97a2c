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
  const bool words = weightInt4Pack.scalar_type() == at::kInt, floating = weight.scalar_type() == at::kFloat;
  TORCH_CHECK(floating || weight.scalar_type() == at::kInt, name, ": weight is ", weight.scalar_type(), ", not int32 or float32");
  TORCH_CHECK(words || (halved(weightInt4Pack) && (weightInt4Pack.scalar_type() == at::ScalarType::Bits4x2) == !floating), name,
              ": int32 becomes int4 or int32, float32 becomes float4_e2m1 or float32, not ", weightInt4Pack.scalar_type());
  TORCH_CHECK(!words || !floating, name, ": weight of float32 for a result of int32");
  const int64_t each = words ? 8 : 2;
  TORCH_CHECK(weight.dim() >= 2 && weight.dim() <= 3 && weight.size(-1) % each == 0, name, ": weight ", weight.sizes(),
              " where two or three dimensions are expected, the last a multiple of ", each);
  const aclTensor& made = *descriptor_of(weightInt4Pack);
  if (is_base_format(made.format)) return put_quantized(weightInt4Pack, widened(weight));
  TORCH_CHECK(!words, name, ": int32 in the storage format ", static_cast<int>(made.format), " is not supported; int4 is");
  at::Tensor packed = at::empty(weightInt4Pack.sizes(), weightInt4Pack.options());
  put_quantized(packed, widened(weight));
  store({weightInt4Pack, made.format, made.type, made.capacity}, packed);
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
