// Products of matrices of few bits, and of weights in FRACTAL_NZ.
#include <cstdlib>

#include "aclnn/aclnn_trans_quant_param.h"
#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/counts.h"
#include "op/kernels/quant_product.h"
#include "op/kernels/quantize.h"
#include "op/kernels/storage_format.h"
#include "rt/base/error.h"

using namespace softcann::op;

namespace {

constexpr int64_t mantissa_kept = 0xFFFFE000, offset_bits = 0x1FF, offset_place = 37, marked = int64_t{1} << 46;
constexpr int64_t mx_block = 32;

at::Tensor turned(const at::Tensor& x, bool transpose) { return transpose && x.defined() ? x.transpose(-1, -2) : x; }

// See Note [Deq scale].
void put_deq_scale(const at::Tensor& scale, const at::Tensor& offset, const at::Tensor& out, bool nearest) {
  at::Tensor bits = widened(scale).contiguous().view(at::kInt).to(at::kLong).bitwise_and(0xFFFFFFFF);
  if (nearest) bits = bits + 0x1000;  // half of what is cut off
  at::Tensor result = bits.bitwise_and(mantissa_kept).bitwise_or(marked);
  if (offset.defined()) {
    const at::Tensor whole = at::round(widened(offset)).clamp(-256, 255).to(at::kLong).bitwise_and(offset_bits);
    result = result.bitwise_or(whole.bitwise_left_shift(at::Scalar(offset_place)));
  }
  put(writable(out).view(at::kLong), result);
}

}  // namespace

extern "C" SOFTCANN_API aclnnStatus aclnnTransQuantParam(const float* scaleArray, uint64_t scaleSize, const float* offsetArray,
                                                         uint64_t offsetSize, uint64_t** quantParam, uint64_t* quantParamSize) {
  SOFTCANN_ENTRY(aclnnTransQuantParam);
  constexpr const char* name = "aclnnTransQuantParam";
  if (!scaleArray || !quantParam || !quantParamSize || (offsetSize && !offsetArray)) {
    return softcann::fail(ACLNN_ERR_PARAM_NULLPTR, "%s: a required argument is null", name);
  }
  const uint64_t count = std::max(scaleSize, offsetSize);
  const auto fits = [count](uint64_t size) { return size == 1 || size == count; };
  if (!fits(scaleSize) || (offsetSize && !fits(offsetSize))) {
    return softcann::fail(ACLNN_ERR_PARAM_INVALID, "%s: %llu scales and %llu offsets", name,
                          static_cast<unsigned long long>(scaleSize), static_cast<unsigned long long>(offsetSize));
  }
  const auto tensor = [](const float* data, uint64_t size) {
    return at::from_blob(const_cast<float*>(data), {static_cast<int64_t>(size)}, at::kFloat);
  };
  *quantParam = static_cast<uint64_t*>(std::malloc(count * sizeof(uint64_t)));
  if (!*quantParam)
    return softcann::fail(ACLNN_ERR_INNER, "%s: no memory for %llu numbers", name, static_cast<unsigned long long>(count));
  *quantParamSize = count;
  const at::Tensor out = at::from_blob(*quantParam, {static_cast<int64_t>(count)}, at::kLong);
  put_deq_scale(tensor(scaleArray, scaleSize).expand({out.numel()}), offsetSize ? tensor(offsetArray, offsetSize) : at::Tensor(),
                out, false);
  return ACLNN_SUCCESS;
}
OP(aclnnTransQuantParamV2) { put_deq_scale(scale, offset, out, false); }
OP(aclnnTransQuantParamV3) { put_deq_scale(scale, offset, out, roundMode == 1); }

namespace {

// x times the scale of each of its blocks. MX scales come in pairs along `axis`: [.., size / 64, .., 2].
at::Tensor unscaled(const at::Tensor& stored, const at::Tensor& scale, int64_t axis) {
  const at::Tensor x = unpacked(stored);
  TORCH_CHECK(scale.numel() > 0, "product of quantized matrices: scales ", scale.sizes());
  at::Tensor spread = scale_of(scale);
  if (scale.dim() == x.dim() + 1 && scale.size(-1) == 2) {
    const int64_t from = axis < 0 ? axis + x.dim() : axis;
    spread = spread.movedim(-1, from + 1).flatten(from, from + 1).repeat_interleave(mx_block, from).narrow(from, 0, x.size(from));
  } else {
    for (int64_t dim = -1; dim >= -2; --dim) {
      if (spread.size(dim) == 1 || spread.size(dim) == x.size(dim)) continue;
      const int64_t block = (x.size(dim) + spread.size(dim) - 1) / spread.size(dim);
      spread = spread.repeat_interleave(block, dim).narrow(dim, 0, x.size(dim));
    }
  }
  return x * spread;
}

at::Tensor block_product(const QuantProduct& in) {
  const at::Tensor left = in.token_scale.defined() ? unscaled(in.x1, in.token_scale, -1) : unpacked(in.x1);
  if (in.offset.defined() && in.offset.dim() == 2) {  // of groups of int4, like the scale
    const at::Tensor right = unpacked(in.x2);
    const int64_t group = right.size(0) / in.offset.size(0);
    return at::matmul(left, unscaled(right - widened(in.offset).repeat_interleave(group, 0), in.scale, -2));
  }
  return at::matmul(left, unscaled(in.x2, in.scale, -2));
}

// [m] and [m, 1] as a column.
at::Tensor column(const at::Tensor& t) { return t.numel() == 1 ? widened(t).reshape({}) : widened(t).reshape({-1, 1}); }

}  // namespace

at::Tensor softcann::op::quantized_value(const QuantProduct& in, bool scaled) {
  if (in.in_blocks()) {
    const at::Tensor value = block_product(in);
    return in.bias.defined() ? value + widened(in.bias) : value;
  }
  const bool whole = in.bias.defined() && in.bias.scalar_type() == at::kInt;
  const bool exact = in.x1.scalar_type() == at::kChar;  // float32 would not hold their sums
  const auto factor = [&](const at::Tensor& t) { return exact ? t.to(at::kDouble) : unpacked(t); };
  at::Tensor sum = at::matmul(factor(in.x1), factor(in.x2));
  if (whole) sum = sum + in.bias.to(at::kDouble);
  if (!scaled) return sum;
  at::Tensor value = sum.to(at::kFloat);
  if (in.scale.defined()) value = value * scale_of(in.scale);
  if (in.token_scale.defined()) value = value * column(in.token_scale);
  return in.bias.defined() && !whole ? value + widened(in.bias) : value;
}

namespace {

// What is added to a quantized result: the client's offset, else that of the scale's bits.
at::Tensor result_offset(const at::Tensor& scale, const at::Tensor& offset) {
  if (given(offset)) return widened(offset);
  if (!given(scale) || (scale.scalar_type() != at::kLong && scale.scalar_type() != at::kUInt64)) return at::zeros({}, at::kFloat);
  const at::Tensor bits = scale.view(at::kLong).bitwise_right_shift(at::Scalar(offset_place)).bitwise_and(offset_bits);
  return at::where(bits > offset_bits / 2, bits - (offset_bits + 1), bits).to(at::kFloat);
}

void quantized_product(const QuantProduct& in, const at::Tensor& out) {
  const at::Tensor value = quantized_value(in, out.scalar_type() != at::kInt);
  if (out.scalar_type() != at::kChar) return put(out, value);
  put_quantized(out, value + result_offset(in.scale, in.offset));
}

// Clients give an empty tensor for none, too.
bool has_elements(const at::Tensor& tensor) { return given(tensor) && tensor.numel() != 0; }

const at::Tensor& absent(const at::Tensor& tensor, const char* what) {
  TORCH_CHECK(!has_elements(tensor), "product of quantized matrices: ", what, " is not supported");
  return tensor;
}

}  // namespace

OP(aclnnQuantMatmul) { quantized_product({x1, x2, at::full({1}, deqScale, at::kFloat), {}, {}, bias}, out); }
// The scales fill blocks of 16 columns.
OP(aclnnQuantMatmulV2) {
  quantized_product({turned(x1, adjX1), turned(x2, adjX2), deqScale.reshape({-1}).slice(0, 0, out.size(-1)), {}, {}, bias}, out);
}
OP(aclnnQuantMatmulV3) {
  quantized_product({turned(x1, transposeX1), turned(in_base_format(x2), transposeX2), scale, offset, {}, bias}, out);
}
// Numbers that become int8 by one scale or by one a column.
OP(aclnnBatchMatmulQuant) {
  at::Tensor value = at::matmul(turned(widened(x1), transposeX1), turned(widened(x2), transposeX2));
  if (given(bias)) value = value + widened(bias);
  const at::Tensor bits = quantParam.reshape({-1}), own = bits.numel() == 1 ? bits : bits.slice(0, 0, out.size(-1));
  put_quantized(out, value * scale_of(own) + result_offset(own, {}));
}
OP(aclnnQuantMatmulV4) {
  quantized_product(
      {turned(x1, transposeX1), turned(in_base_format(x2), transposeX2), scale, offset, pertokenScaleOptional, bias}, out);
}

namespace {

// A result times a scale for each column (yScale of float8 times float4), or with what clients computed beforehand added before
// the rows' scales (yOffset of int8 times int4). CANN has both for those products only.
void product_with_extras(const QuantProduct& in, const at::Tensor& result_scale, const at::Tensor& row_sums,
                         const at::Tensor& out) {
  if (has_elements(result_scale)) {
    TORCH_CHECK(in.x2.scalar_type() == at::ScalarType::Float4_e2m1fn_x2,
                "product of quantized matrices: yScale is not supported, but with x2 of float4_e2m1");
    return put(out, quantized_value(in, true) * scale_of(result_scale));
  }
  if (has_elements(row_sums)) {
    TORCH_CHECK(in.x1.scalar_type() == at::kChar && in.x2.scalar_type() == at::kInt,
                "product of quantized matrices: yOffset is not supported, but with x1 of int8 and x2 of int4 in int32");
    QuantProduct rows = in;
    rows.token_scale = at::Tensor();
    const at::Tensor value = quantized_value(rows, true) + widened(row_sums);
    return put(out, given(in.token_scale) ? value * column(in.token_scale) : value);
  }
  quantized_product(in, out);
}

}  // namespace

#define QUANT_MATMUL_FIVE(NAME)                                                                                                  \
  OP(NAME) {                                                                                                                     \
    absent(x1Offset, "x1Offset");                                                                                                \
    const bool blocks = groupSize != 0 || (given(x2Scale) && x2Scale.scalar_type() == at::kFloat8_e8m0fnu);                      \
    const bool four_bits = x1.scalar_type() == at::kInt || x1.scalar_type() == at::ScalarType::Bits4x2; /* [groups, n] always */ \
    const auto scales = [&](const at::Tensor& t, bool turn) {                                                                    \
      return blocks && turn && !four_bits && t.defined() && t.dim() > 1 ? t.transpose(0, 1) : t;                                 \
    };                                                                                                                           \
    product_with_extras({turned(x1, transposeX1), turned(in_base_format(x2), transposeX2), scales(x2Scale, transposeX2),         \
                         x2Offset, scales(x1Scale, transposeX1), bias, groupSize},                                               \
                        yScale, yOffset, out);                                                                                   \
  }
QUANT_MATMUL_FIVE(aclnnQuantMatmulV5)
QUANT_MATMUL_FIVE(aclnnQuantMatmulWeightNz)

// The sum over the batch of the products.
OP(aclnnQuantMatmulReduceSumWeightNz) {
  absent(yScale, "yScale"), absent(x1Offset, "x1Offset"), absent(x2Offset, "x2Offset"), absent(yOffset, "yOffset");
  absent(bias, "bias");
  const at::Tensor product = quantized_matmul(turned(x1, transposeX1), turned(in_base_format(x2), transposeX2));
  const at::Tensor value = product * widened(x1Scale).unsqueeze(-1) * widened(x2Scale);
  put(out, value.sum(dims.empty() ? at::IntArrayRef{0} : dims, keepDims));
}

namespace {

void fused_product(const QuantProduct& in, const at::Tensor& x3, std::string_view kind, const at::Tensor& out) {
  const at::Tensor value = quantized_value(in, true);
  if (kind.empty()) return put(out, value);
  if (kind == "relu") return put(out, at::relu(value));
  if (kind == "gelu_erf" || kind == "gelu_tanh") return put(out, at::gelu(value, kind == "gelu_erf" ? "none" : "tanh"));
  if (kind == "add") return put(out, value + widened(x3));
  if (kind == "mul") return put(out, value * widened(x3));
  TORCH_CHECK(false, "product of quantized matrices: fusedOpType '", kind, "' is not one of relu, gelu_erf, gelu_tanh, add, mul");
}

}  // namespace

#define FUSED_QUANT_MATMUL(NAME)                                                                                            \
  OP(NAME) {                                                                                                                \
    absent(yScaleOptional, "yScale"), absent(x1OffsetOptional, "x1Offset"), absent(x2OffsetOptional, "x2Offset");           \
    absent(yOffsetOptional, "yOffset");                                                                                     \
    fused_product({x1, in_base_format(x2), x2Scale, {}, x1Scale, biasOptional, groupSizeOptional}, x3Optional, fusedOpType, \
                  out);                                                                                                     \
  }
FUSED_QUANT_MATMUL(aclnnFusedQuantMatmul)
FUSED_QUANT_MATMUL(aclnnFusedQuantMatmulWeightNz)

OP(aclnnQuantBatchMatmulInplaceAdd) {
  // Clients whose PyTorch has no dtype for exponents give their bytes.
  const auto exponents = [](const at::Tensor& t) {
    return t.defined() && t.scalar_type() == at::kByte ? t.view(at::kFloat8_e8m0fnu) : t;
  };
  const bool blocks = exponents(x2Scale).scalar_type() == at::kFloat8_e8m0fnu;
  const auto scales = [&](const at::Tensor& t, bool turn) {
    const at::Tensor scale = exponents(t);
    return blocks && turn && scale.defined() ? scale.transpose(0, 1) : scale;
  };
  const QuantProduct in{turned(x1, transposeX1),
                        turned(x2, transposeX2),
                        scales(x2Scale, transposeX2),
                        {},
                        scales(x1ScaleOptional, transposeX1),
                        {},
                        groupSize};
  put(yRef, widened(yRef) + quantized_value(in, true));
}
// To each of the groups goes the product of its columns of x1 with its rows of x2.
OP(aclnnQuantGroupedMatmulInplaceAdd) {
  TORCH_CHECK(scale2.dim() < 3, "aclnnQuantGroupedMatmulInplaceAdd: MX scales are not supported");
  const auto ends = group_ends_of_type(groupList, groupListType, x2.size(0));
  const auto groups = static_cast<int64_t>(ends.size());
  const bool transposed = x1.size(0) == x2.size(0) && x1.size(1) != x2.size(0);  // x1 [k, m]
  const at::Tensor left = transposed ? x1.t() : x1;
  int64_t start = 0;
  for (int64_t i = 0; i < groups; ++i) {
    const int64_t end = ends[static_cast<size_t>(i)];
    at::Tensor product = quantized_matmul(left.slice(1, start, end), x2.slice(0, start, end));
    product = product * widened(scale2).reshape({groups, -1})[i];
    if (scale1Optional.defined()) product = product * widened(scale1Optional).reshape({groups, -1})[i];
    put(yRef[i], widened(yRef[i]) + product);
    start = end;
  }
}

namespace {

struct Dequantized {
  at::Tensor x, scale, offset, smooth;
  std::string_view mode;

  // x in int8, and the scale of each row.
  std::pair<at::Tensor, at::Tensor> quantized() const {
    const at::Tensor value = smooth.defined() ? widened(x) * widened(smooth) : widened(x);
    TORCH_CHECK(mode == "pertoken" || mode == "pertensor", "xQuantMode '", mode, "' is not one of pertoken, pertensor");
    if (!scale.defined()) {
      TORCH_CHECK(mode == "pertoken", "xQuantMode 'pertensor' needs xScale");
      const at::Tensor row = value.abs().amax({-1}, true) / 127;
      return {at::where(row > 0, at::round(value / row), 0.0).to(at::kChar), row};
    }
    const at::Tensor row = column(scale), steps = value / row;
    const at::Tensor whole = at::round(offset.defined() ? steps + widened(offset) : steps).clamp_(-128, 127).to(at::kChar);
    return {whole, row};
  }
};

// weight [n, k], or [k, n] where not `transposed`.
at::Tensor dequantized_product(const Dequantized& in, const at::Tensor& weight, const at::Tensor& weight_scale,
                               const at::Tensor& bias, bool transposed) {
  const auto [q, scale] = in.quantized();
  at::Tensor sum = at::matmul(q.to(at::kDouble), turned(weight, transposed).to(at::kDouble));
  if (in.offset.defined()) sum = sum - turned(weight, transposed).to(at::kDouble).sum({0}) * in.offset.to(at::kDouble);
  if (bias.defined()) sum = sum + bias.to(at::kDouble);
  return sum.to(at::kFloat) * scale * scale_of(weight_scale);
}

void grouped_dequantized(const Dequantized& all, const at::Tensor& weight, const at::Tensor& weight_scale, const at::Tensor& bias,
                         const at::Tensor& list, bool transposed, const at::Tensor& out) {
  writable(out).zero_();
  const auto part = [](const at::Tensor& t, int64_t i) { return t.defined() && t.dim() > 1 ? t[i] : t; };
  int64_t start = 0, i = 0;
  for (const int64_t end : group_ends(list, true, all.x.size(0))) {
    const at::Tensor scale = all.scale.defined() && all.scale.numel() > 1 ? all.scale.slice(0, start, end) : all.scale;
    const Dequantized rows{all.x.slice(0, start, end), scale, all.offset, part(all.smooth, i), all.mode};
    put(out.slice(0, start, end), dequantized_product(rows, weight[i], weight_scale[i], part(bias, i), transposed));
    start = end, ++i;
  }
}

}  // namespace

OP(aclnnQuantMatmulDequant) {
  put(out, dequantized_product({x, xScaleOptional, xOffsetOptional, smoothScaleOptional, xQuantMode}, weight, weightScale,
                               biasOptional, transposeWeight));
}
#define QUANT_GROUPED_DEQUANT(NAME)                                                                                    \
  OP(NAME) {                                                                                                           \
    grouped_dequantized({x, xScaleOptional, xOffsetOptional, smoothScaleOptional, xQuantMode}, in_base_format(weight), \
                        weightScale, biasOptional, groupList, transposeWeight, out);                                   \
  }
QUANT_GROUPED_DEQUANT(aclnnQuantGroupedMatmulDequant)
QUANT_GROUPED_DEQUANT(aclnnQuantGroupedMatmulDequantWeightNZ)

at::Tensor softcann::op::WeightQuantProduct::value(const at::Tensor& x, const at::Tensor& weight) const {
  // Eight of float4_e2m1 lie in what is called a float32.
  const bool words = weight.scalar_type() == at::kFloat;
  at::Tensor w = unpacked(words ? weight.contiguous().view(at::kByte).view(at::ScalarType::Float4_e2m1fn_x2) : weight);
  const int64_t rows = w.size(0);
  const auto spread = [&](const at::Tensor& t) {
    return group_size > 0 ? widened(t).repeat_interleave(group_size, 0).slice(0, 0, rows) : widened(t);
  };
  if (offset.defined()) w = w + spread(offset);
  const at::Tensor product = at::matmul(widened(x), w * spread(scale));
  return bias.defined() ? product + widened(bias) : product;
}

#define WEIGHT_QUANT_MATMUL(NAME)                                                                                   \
  OP(NAME) {                                                                                                        \
    const WeightQuantProduct product{antiquantScale, antiquantOffsetOptional, biasOptional, antiquantGroupSize};    \
    const at::Tensor value = product.value(x, in_base_format(weight));                                              \
    if (!given(quantScaleOptional)) return put(y, value);                                                           \
    put_quantized(y, value* scale_of(quantScaleOptional) + result_offset(quantScaleOptional, quantOffsetOptional)); \
  }
WEIGHT_QUANT_MATMUL(aclnnWeightQuantBatchMatmulV2)
WEIGHT_QUANT_MATMUL(aclnnWeightQuantBatchMatmulV3)
WEIGHT_QUANT_MATMUL(aclnnWeightQuantBatchMatmulNz)

namespace {

at::Tensor ordered(const at::Tensor& t, at::IntArrayRef permutation) { return permutation.empty() ? t : t.permute(permutation); }

// Of numbers in MX blocks along k; their scales come in pairs, ordered as the numbers are.
at::Tensor ordered_blocks(const at::Tensor& x1, const at::Tensor& scale1, at::IntArrayRef order1, const at::Tensor& x2,
                          const at::Tensor& scale2, at::IntArrayRef order2) {
  const auto with_pairs = [](at::IntArrayRef order) {
    std::vector<int64_t> dims = order.vec();
    if (!dims.empty()) dims.push_back(static_cast<int64_t>(dims.size()));
    return dims;
  };
  const auto pairs = [](const at::Tensor& scale, const at::Tensor& x) {
    TORCH_CHECK(given(scale) && scale.dim() == x.dim() + 1 && scale.size(-1) == 2, "product of matrices in blocks: scales ",
                given(scale) ? scale.sizes() : at::IntArrayRef{}, " of ", x.sizes());
  };
  pairs(scale1, x1), pairs(scale2, x2);
  return at::matmul(unscaled(ordered(x1, order1), ordered(scale1, with_pairs(order1)), -1),
                    unscaled(ordered(x2, order2), ordered(scale2, with_pairs(order2)), -2));
}

}  // namespace

// Scales [m] and [n], one number for all batches, or of MX blocks.
#define TRANSPOSE_QUANT(NAME)                                                                                         \
  OP(NAME) {                                                                                                          \
    TORCH_CHECK(batchSplitFactor == 1 || batchSplitFactor == 0, #NAME ": batchSplitFactor ", batchSplitFactor,        \
                " is not supported");                                                                                 \
    const at::Tensor right = in_base_format(x2);                                                                      \
    const bool blocks = given(x2Scale) && x2Scale.scalar_type() == at::kFloat8_e8m0fnu;                               \
    TORCH_CHECK(blocks || groupSize == 0, #NAME ": groupSize ", groupSize, " with scales that are not of MX blocks"); \
    at::Tensor value = blocks ? ordered_blocks(x1, x1Scale, permX1, right, x2Scale, permX2)                           \
                              : quantized_matmul(ordered(x1, permX1), ordered(right, permX2));                        \
    if (!blocks && given(x2Scale)) value = value * scale_of(x2Scale);                                                 \
    if (!blocks && given(x1Scale)) value = value * column(x1Scale);                                                   \
    if (given(bias)) value = value + widened(bias);                                                                   \
    put(out, ordered(value, permY));                                                                                  \
  }
TRANSPOSE_QUANT(aclnnTransposeQuantBatchMatMul)
TRANSPOSE_QUANT(aclnnTransposeQuantBatchMatMulWeightNz)

OP(aclnnTransposeBatchMatMulWeightNz) {
  TORCH_CHECK(batchSplitFactor == 1 || batchSplitFactor == 0, "aclnnTransposeBatchMatMulWeightNz: batchSplitFactor ",
              batchSplitFactor, " is not supported");
  at::Tensor value = at::matmul(ordered(widened(x1), permX1), ordered(widened(in_base_format(x2)), permX2));
  if (given(bias)) value = value + widened(bias);
  if (given(scale)) value = value * scale_of(scale).reshape({value.size(0), 1, -1});
  const at::Tensor result = ordered(value, permY);
  if (out.scalar_type() == at::kChar) return put_quantized(out, result.reshape(out.sizes()));
  put(out, result);
}
OP(aclnnMatmulWeightNz) { put(out, at::matmul(widened(self), widened(in_base_format(mat2)))); }
OP(aclnnBatchMatMulWeightNz) { put(out, at::matmul(widened(self), widened(in_base_format(mat2)))); }
OP(aclnnAddmmWeightNz) { put(out, widened(self) * beta + at::matmul(widened(mat1), widened(in_base_format(mat2))) * alpha); }
// The padding holds `offsetx`.
OP(aclnnQuantConvolution) {
  TORCH_CHECK(!transposed, "aclnnQuantConvolution: transposed convolutions are not supported");
  absent(offset, "offset");
  const auto dims = static_cast<size_t>(input.dim() - 2);
  const std::vector<int64_t> pads = spread(padding, dims), none(dims, 0);
  std::vector<int64_t> both;
  for (size_t i = dims; i-- > 0;) both.insert(both.end(), {pads[i], pads[i]});
  const at::Tensor image = at::constant_pad_nd(input.to(at::kDouble), both, offsetx);
  at::Tensor sum =
      at::convolution(image, weight.to(at::kDouble), {}, spread(stride, dims), none, spread(dilation, dims), false, none, groups);
  std::vector<int64_t> channels(dims + 2, 1);
  channels[1] = -1;
  const bool whole = given(bias) && bias.scalar_type() == at::kInt;
  if (whole) sum = sum + bias.to(at::kDouble).view(channels);
  at::Tensor value = sum.to(at::kFloat) * scale_of(scale).view(channels);
  if (given(bias) && !whole) value = value + widened(bias).view(channels);
  if (at::isFloatingType(output.scalar_type()) && output.itemsize() > 1) return put(output, value);
  put_quantized(output, value, roundMode);
}
// Low-rank adapters: to some columns of row i goes x[i] through the matrices of adapter indices[i]; negative ones have none.
OP(aclnnAddLora) {
  const at::Tensor chosen = indices.to(at::kLong), which = chosen.clamp_min(0);
  const auto matrices = [&](const at::Tensor& w) { return widened(w).select(1, layerIdx).index_select(0, which).mT(); };
  at::Tensor rows = widened(x).unsqueeze(1);
  if (weightAOptional.defined()) rows = at::matmul(rows, matrices(weightAOptional));
  rows = at::matmul(rows, matrices(weightB)).squeeze(1) * scale;
  rows = at::where((chosen >= 0).unsqueeze(-1), rows, 0.0);
  at::Tensor result = widened(y).clone();
  result.narrow(1, yOffset, ySliceSize < 0 ? y.size(1) - yOffset : ySliceSize).add_(rows);
  put(out, result);
}
