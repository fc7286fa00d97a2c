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
#include "op/kernels/quantize.h"

using namespace softcann::op;

namespace {

// One number for each element of dimension `axis`, or for all.
at::Tensor along(const at::Tensor& numbers, const at::Tensor& x, int64_t axis) {
  if (!numbers.defined() || numbers.numel() == 1) return widened(numbers);
  std::vector<int64_t> sizes(static_cast<size_t>(x.dim()), 1);
  sizes[static_cast<size_t>(axis < 0 ? axis + x.dim() : axis)] = -1;
  return widened(numbers).view(sizes);
}

}  // namespace

OP(aclnnDynamicQuant) {
  at::Tensor values = widened(x);
  if (smoothScalesOptional.defined()) values = values * widened(smoothScalesOptional);
  quantize_rows(values, yOut, scaleOut);
}
// With an offset for each token: from its least to its greatest value. Without, as aclnnDynamicQuant.
OP(aclnnDynamicQuantV2) {
  TORCH_CHECK(!groupIndexOptional.defined(), "aclnnDynamicQuantV2: groupIndex is not supported");
  at::Tensor values = widened(x);
  if (smoothScalesOptional.defined()) values = values * widened(smoothScalesOptional);
  if (!offsetOut.defined()) return quantize_rows(values, yOut, scaleOut);
  quantize_rows_with_offset(values, yOut, scaleOut, offsetOut);
}
OP(aclnnQuantize) {
  at::Tensor value = widened(x) / along(scales, x, axis);
  if (zeroPoints.defined()) value = at::round(value) + along(zeroPoints, x, axis);
  put_quantized(out, value);
}
OP(aclnnAscendQuantV3) {
  at::Tensor value = widened(x) * along(scale, x, axis);
  if (sqrtMode) value = value * along(scale, x, axis);
  if (offset.defined()) value = value + along(offset, x, axis);
  put_quantized(y, value, roundMode);
}
OP(aclnnAscendAntiQuant) {
  at::Tensor value = widened(x);
  if (offset.defined()) value = value + widened(offset);
  value = value * widened(scale);
  put(y, sqrtMode ? value * widened(scale) : value);
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
namespace {

// Attention over two parts of the keys into one. Statistics are [B, N, S, 8] for attention [S, B, N * D], and [T, N, 8] for
// [T, N, D].
struct RingUpdate {
  const at::Tensor &out, &maximum, &sum;

  void run(const RingUpdate& previous, const RingUpdate& current, std::string_view layout) const {
    TORCH_CHECK(layout.empty() || layout == "SBH" || layout == "TND", "ring attention: layout '", layout,
                "' is not one of SBH, TND");
    const at::Tensor top = previous.maximum.maximum(current.maximum);
    const at::Tensor before = previous.sum * (previous.maximum - top).exp(), now = current.sum * (current.maximum - top).exp();
    const at::Tensor total = before + now;
    const bool tokens = layout == "TND";
    const auto share = [&](const at::Tensor& part) {
      const at::Tensor one = (part / total).select(-1, 0);
      return (tokens ? one : one.permute({2, 0, 1})).unsqueeze(-1);
    };
    const auto heads = [&](const at::Tensor& t) {
      return tokens ? widened(t) : widened(t).unflatten(-1, at::IntArrayRef{top.size(1), t.size(-1) / top.size(1)});
    };
    put(out, (heads(previous.out) * share(before) + heads(current.out) * share(now)).reshape(out.sizes()));
    put(maximum, top);
    put(sum, total);
  }
};

}  // namespace

OP(aclnnRingAttentionUpdate) {
  RingUpdate{attnOutOut, softmaxMaxOut, softmaxSumOut}.run({prevAttnOut, prevSoftmaxMax, prevSoftmaxSum},
                                                           {curAttnOut, curSoftmaxMax, curSoftmaxSum}, inputLayoutOptional);
}
OP(aclnnRingAttentionUpdateV2) {
  RingUpdate{attnOutOut, softmaxMaxOut, softmaxSumOut}.run({prevAttnOut, prevSoftmaxMax, prevSoftmaxSum},
                                                           {curAttnOut, curSoftmaxMax, curSoftmaxSum}, inputLayoutOptional);
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
    quantize_rows(value, out, scales);
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
    put_quantized(out, zeros.defined() ? value + widened(zeros) : value);
  };
  quantized(y1Out, scales1, zeroPoints1Optional);
  if (scales2Optional.defined()) {
    quantized(y2Out, scales2Optional, zeroPoints2Optional);
  } else {
    writable(y2Out).zero_();
  }
}
