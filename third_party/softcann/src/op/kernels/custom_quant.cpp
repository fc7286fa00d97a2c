// Quantization: int8 with scales, and the products of what was quantized.
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/round.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>

#include "op/kernel.h"
#include "op/kernels/common.h"

using namespace softcann::op;

namespace {

constexpr double largest_int8 = 127;

// Rounded to the nearest, ties to even, within the range of out's type.
void put_rounded(const at::Tensor& out, const at::Tensor& value) {
  double low = -128, high = 127;
  if (out.scalar_type() == at::kByte) low = 0, high = 255;
  if (out.scalar_type() == at::kInt) low = -2147483648.0, high = 2147483520.0;  // the largest float32 below 2^31
  put(out, at::clamp(at::round(value), low, high));
}

// One number for each element of dimension `axis`, or for all.
at::Tensor along(const at::Tensor& numbers, const at::Tensor& x, int64_t axis) {
  if (!numbers.defined() || numbers.numel() == 1) return widened(numbers);
  std::vector<int64_t> sizes(static_cast<size_t>(x.dim()), 1);
  sizes[static_cast<size_t>(axis < 0 ? axis + x.dim() : axis)] = -1;
  return widened(numbers).view(sizes);
}

}  // namespace

namespace {
void quantize_tokens(const at::Tensor& values, const at::Tensor& out, const at::Tensor& scales) {
  const at::Tensor scale = values.abs().amax({-1}, true) / largest_int8;
  put_rounded(out, at::where(scale > 0, values / scale, 0.0));
  put(scales, scale.squeeze(-1));
}
}  // namespace

OP(aclnnDynamicQuant) {
  TORCH_CHECK(yOut.scalar_type() == at::kChar, "aclnnDynamicQuant: results of other types than int8 are not supported");
  at::Tensor values = widened(x);
  if (smoothScalesOptional.defined()) values = values * widened(smoothScalesOptional);
  quantize_tokens(values, yOut, scaleOut);
}
// With an offset for each token: from its least to its greatest value. Without, as aclnnDynamicQuant.
OP(aclnnDynamicQuantV2) {
  TORCH_CHECK(yOut.scalar_type() == at::kChar, "aclnnDynamicQuantV2: results of other types than int8 are not supported");
  TORCH_CHECK(!groupIndexOptional.defined(), "aclnnDynamicQuantV2: groupIndex is not supported");
  at::Tensor values = widened(x);
  if (smoothScalesOptional.defined()) values = values * widened(smoothScalesOptional);
  if (!offsetOut.defined()) return quantize_tokens(values, yOut, scaleOut);
  const at::Tensor top = values.amax({-1}, true), scale = (top - values.amin({-1}, true)) / (2 * largest_int8 + 1);
  const at::Tensor offset = at::where(scale > 0, largest_int8 - top / scale, 0.0);
  put_rounded(yOut, at::where(scale > 0, values / scale, 0.0) + offset);
  put(scaleOut, scale.squeeze(-1));
  put(offsetOut, offset.squeeze(-1));
}
OP(aclnnQuantize) {
  at::Tensor value = widened(x) / along(scales, x, axis);
  if (zeroPoints.defined()) value = at::round(value) + along(zeroPoints, x, axis);
  put_rounded(out, value);
}
OP(aclnnAscendQuantV3) {
  const std::string_view mode = roundMode;
  TORCH_CHECK(mode.empty() || mode == "round", "aclnnAscendQuantV3: roundMode '", mode, "' is not supported");
  at::Tensor value = widened(x) * along(scale, x, axis);
  if (sqrtMode) value = value * along(scale, x, axis);
  if (offset.defined()) value = value + along(offset, x, axis);
  put_rounded(y, value);
}
OP(aclnnAscendAntiQuant) {
  at::Tensor value = widened(x);
  if (offset.defined()) value = value + widened(offset);
  value = value * widened(scale);
  put(y, sqrtMode ? value * widened(scale) : value);
}

namespace {

// Note [Deq scale]
// The cube unit takes a scale as 64 bits: a float32 whose last 13 bits count as 0 in bits 0 to 31, a 9-bit offset
// from bit 37 on, and bit 46 set.
constexpr int64_t mantissa_kept = 0xFFFFE000, offset_bits = 0x1FF, offset_place = 37, marked = int64_t{1} << 46;

at::Tensor scale_of(const at::Tensor& scale) {
  if (scale.scalar_type() != at::kLong && scale.scalar_type() != at::kUInt64) return widened(scale);
  const at::Tensor bits = scale.view(at::kLong).bitwise_and(mantissa_kept).to(at::kInt);
  return bits.view(at::kFloat);
}
at::Tensor turned(const at::Tensor& x, bool transpose) { return transpose ? x.transpose(-1, -2) : x; }

}  // namespace

OP(aclnnTransQuantParamV2) {
  const at::Tensor bits = widened(scale).contiguous().view(at::kInt).to(at::kLong).bitwise_and(mantissa_kept);
  at::Tensor result = bits.bitwise_or(marked);
  if (offset.defined()) {
    const at::Tensor rounded = at::round(widened(offset)).to(at::kLong).bitwise_and(offset_bits);
    result = result.bitwise_or(rounded.bitwise_left_shift(at::Scalar(offset_place)));
  }
  put(writable(out).view(at::kLong), result);
}

namespace {

struct QuantProduct {
  at::Tensor x1, x2, scale, offset, token_scale, bias;
};
void quantized_product(const QuantProduct& in, const at::Tensor& out) {
  // int8 products are exact in float64; float32 would not hold their sums.
  at::Tensor sum = at::matmul(in.x1.to(at::kDouble), in.x2.to(at::kDouble));
  const bool whole = in.bias.defined() && in.bias.scalar_type() == at::kInt;
  if (whole) sum = sum + in.bias.to(at::kDouble);
  if (out.scalar_type() == at::kInt) return put(out, sum);
  at::Tensor value = sum.to(at::kFloat) * scale_of(in.scale);
  if (in.token_scale.defined()) value = value * widened(in.token_scale).unsqueeze(-1);
  if (in.bias.defined() && !whole) value = value + widened(in.bias);
  if (out.scalar_type() != at::kChar) return put(out, value);
  put_rounded(out, in.offset.defined() ? value + widened(in.offset) : value);
}

}  // namespace

OP(aclnnQuantMatmulV4) {
  quantized_product({turned(x1, transposeX1), turned(x2, transposeX2), scale, offset, pertokenScaleOptional, bias}, out);
}
OP(aclnnQuantMatmulV5) {
  const auto refuse = [](const at::Tensor& given, const char* name) {
    TORCH_CHECK(!given.defined() || given.numel() == 0, "aclnnQuantMatmulV5: ", name, " is not supported");
  };
  refuse(yScale, "yScale");
  refuse(x1Offset, "x1Offset");
  refuse(yOffset, "yOffset");
  TORCH_CHECK(groupSize == 0, "aclnnQuantMatmulV5: groupSize ", groupSize, " is not supported");
  TORCH_CHECK(x1.scalar_type() == at::kChar && x2.scalar_type() == at::kChar, "aclnnQuantMatmulV5: only int8 is supported");
  quantized_product({turned(x1, transposeX1), turned(x2, transposeX2), x2Scale, x2Offset, x1Scale, bias}, out);
}
OP(aclnnWeightQuantBatchMatmulV2) {
  TORCH_CHECK(!quantScaleOptional.defined(), "aclnnWeightQuantBatchMatmulV2: quantized results are not supported");
  at::Tensor w = widened(weight), scale = widened(antiquantScale), offset = widened(antiquantOffsetOptional);
  if (antiquantGroupSize > 0) {  // a scale for so many rows
    const auto rows = [&](const at::Tensor& t) {
      return t.defined() ? t.repeat_interleave(antiquantGroupSize, 0).slice(0, 0, w.size(0)) : t;
    };
    scale = rows(scale);
    offset = rows(offset);
  }
  if (offset.defined()) w = w + offset;
  at::Tensor value = at::matmul(widened(x), w * scale);
  put(y, biasOptional.defined() ? value + widened(biasOptional) : value);
}
OP(aclnnApplyTopKTopP) {
  const auto [sorted, order] = at::sort(widened(logits), -1, false);
  at::Tensor hidden = at::full(sorted.sizes(), false, sorted.options().dtype(at::kBool));
  const int64_t size = sorted.size(-1);
  if (k.defined()) {
    const at::Tensor first = (size - k.to(at::kLong)).clamp(0, size - 1).unsqueeze(-1);
    hidden = sorted < sorted.gather(-1, first);
  }
  if (p.defined()) {
    const at::Tensor weights = at::softmax(at::where(hidden, -std::numeric_limits<double>::infinity(), sorted), -1);
    at::Tensor small = at::cumsum(weights, -1) <= 1 - widened(p).unsqueeze(-1);
    small.select(-1, size - 1).fill_(false);  // at least one stays
    hidden = hidden.logical_or(small);
  }
  const at::Tensor kept = at::where(hidden, -std::numeric_limits<double>::infinity(), sorted);
  put(out, at::empty_like(kept).scatter_(-1, order, kept));
}
// Attention over parts of the keys, [rows, size] and the logarithms of the sums of exponentials, [rows], into one.
OP(aclnnAttentionUpdate) {
  TORCH_CHECK(updateType == 0 || updateType == 1, "aclnnAttentionUpdate: updateType ", updateType, " is not supported");
  const at::Tensor sums = widened(at::stack(lse)), top = sums.amax({0}), weights = (sums - top).exp(), total = weights.sum({0});
  put(out, (widened(at::stack(localOut)) * (weights / total).unsqueeze(-1)).sum({0}));
  if (updateType == 1) {
    put(lseOut, top + at::log(total));
  } else {
    writable(lseOut).zero_();
  }
}
OP(aclnnRingAttentionUpdate) {
  const std::string_view layout = inputLayoutOptional;
  TORCH_CHECK(layout.empty() || layout == "SBH", "aclnnRingAttentionUpdate: layout ", layout, " is not supported");
  const at::Tensor top = prevSoftmaxMax.maximum(curSoftmaxMax);
  const at::Tensor previous = prevSoftmaxSum * (prevSoftmaxMax - top).exp(),
                   current = curSoftmaxSum * (curSoftmaxMax - top).exp();
  const at::Tensor sum = previous + current;
  // Statistics are [B, N, S, 8], attention [S, B, N * D].
  const auto share = [&](const at::Tensor& part) { return (part / sum).select(-1, 0).permute({2, 0, 1}).unsqueeze(-1); };
  const auto heads = [&](const at::Tensor& t) {
    return widened(t).unflatten(-1, at::IntArrayRef{top.size(1), t.size(-1) / top.size(1)});
  };
  put(attnOutOut, (heads(prevAttnOut) * share(previous) + heads(curAttnOut) * share(current)).flatten(-2));
  put(softmaxMaxOut, top);
  put(softmaxSumOut, sum);
}

namespace {

// Quantization of swiglu's result, and what comes before it. Groups follow each other along the rows; rows behind the
// last become zero.
struct Swiglu {
  const at::Tensor &smooth, &group_index;
  bool activate_left, cumulative;
  std::string_view mode;

  // The group of each row, the number of groups for those behind the last.
  at::Tensor groups(int64_t rows) const {
    at::Tensor counts = group_index.to(at::kLong).reshape({-1});
    if (cumulative) counts = at::cat({counts.slice(0, 0, 1), counts.slice(0, 1) - counts.slice(0, 0, -1)});
    const at::Tensor left = rows - counts.sum({0}, true);
    return at::repeat_interleave(at::arange(counts.numel() + 1, at::kLong), at::cat({counts, left}), 0, rows);
  }
  // A row of `table` for each row of x.
  at::Tensor chosen(const at::Tensor& table, const at::Tensor& group) const {
    const at::Tensor wide = widened(table);
    if (wide.dim() < 2) return wide;
    if (!group.defined() || wide.size(0) == 1) return wide[0];
    return wide.index_select(0, group.clamp_max(wide.size(0) - 1));
  }
  void quantize(const at::Tensor& x, const at::Tensor& group, const at::Tensor& out, const at::Tensor& scales) const {
    TORCH_CHECK(mode == "dynamic", "swiglu with quantization: mode '", mode, "' is not supported");
    TORCH_CHECK(out.scalar_type() == at::kChar, "swiglu with quantization: only int8 is supported");
    const int64_t half = x.size(-1) / 2;
    const at::Tensor left = x.narrow(-1, 0, half), right = x.narrow(-1, half, half);
    at::Tensor value = activate_left ? at::silu(left) * right : left * at::silu(right);
    if (smooth.defined()) value = value * chosen(smooth, group);
    if (group.defined()) value = at::where((group < group_index.numel()).unsqueeze(-1), value, 0.0);
    const at::Tensor scale = value.abs().amax({-1}, true) / largest_int8;
    put_rounded(out, at::where(scale > 0, value / scale, 0.0));
    put(scales, scale.squeeze(-1));
  }
};

}  // namespace

OP(aclnnSwiGluQuantV2) {
  TORCH_CHECK(!offsetsOptional.defined(), "aclnnSwiGluQuantV2: offsets are not supported");
  const Swiglu swiglu{smoothScalesOptional, groupIndexOptional, activateLeft, groupListType == 0, quantModeOptional};
  const at::Tensor rows = widened(x).reshape({-1, x.size(-1)});
  swiglu.quantize(rows, groupIndexOptional.defined() ? swiglu.groups(rows.size(0)) : at::Tensor(), yOut, scaleOut);
}
OP(aclnnDequantSwigluQuant) {
  TORCH_CHECK(!quantOffsetOptional.defined(), "aclnnDequantSwigluQuant: quantOffset is not supported");
  const Swiglu swiglu{quantScaleOptional, groupIndexOptional, activateLeft, /*cumulative=*/false, quantModeOptional};
  at::Tensor rows = widened(x).reshape({-1, x.size(-1)});
  const at::Tensor group = groupIndexOptional.defined() ? swiglu.groups(rows.size(0)) : at::Tensor();
  const bool whole = biasOptional.defined() && biasOptional.scalar_type() == at::kInt;
  if (whole) rows = rows + swiglu.chosen(biasOptional, group);
  if (weightScaleOptional.defined()) rows = rows * swiglu.chosen(weightScaleOptional, group);
  if (activationScaleOptional.defined()) rows = rows * widened(activationScaleOptional).reshape({-1, 1});
  if (biasOptional.defined() && !whole) rows = rows + swiglu.chosen(biasOptional, group);
  swiglu.quantize(rows, group, yOut, scaleOut);
}
OP(aclnnAddRmsNormQuant) {
  TORCH_CHECK(axis == -1 || axis == x1.dim() - 1, "aclnnAddRmsNormQuant: axis ", axis, " is not supported");
  TORCH_CHECK(gamma.dim() == 1, "aclnnAddRmsNormQuant: gamma of ", gamma.dim(), " dimensions is not supported");
  const at::Tensor sum = widened(x1) + widened(x2);
  put(xOut, sum);
  const at::Tensor normal = sum * sum.square().mean({-1}, true).add_(epsilon).rsqrt_() * widened(gamma);
  const auto quantized = [&](const at::Tensor& out, const at::Tensor& scales, const at::Tensor& zeros) {
    const at::Tensor value = divMode ? normal / widened(scales) : normal * widened(scales);
    put_rounded(out, zeros.defined() ? value + widened(zeros) : value);
  };
  quantized(y1Out, scales1, zeroPoints1Optional);
  if (scales2Optional.defined()) {
    quantized(y2Out, scales2Optional, zeroPoints2Optional);
  } else {
    writable(y2Out).zero_();
  }
}
