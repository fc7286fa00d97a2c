// Quantization to numbers of few bits by given scales or by those of each row, and back.
#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/quantize.h"

using namespace softcann::op;

namespace {

// One number for each element of dimension `axis`, or for all.
at::Tensor along(const at::Tensor& numbers, const at::Tensor& x, int64_t axis) {
  if (!numbers.defined() || numbers.numel() == 1) return widened(numbers);
  TORCH_CHECK(axis >= -x.dim() && axis < x.dim(), "quantize: axis ", axis, " of a tensor of ", x.sizes());
  std::vector<int64_t> sizes(static_cast<size_t>(x.dim()), 1);
  sizes[static_cast<size_t>(axis < 0 ? axis + x.dim() : axis)] = -1;
  return widened(numbers).view(sizes);
}

// Times the scales: one row for all, or with groups of rows, whose ends are given, one row for each group.
at::Tensor smoothed(const at::Tensor& values, const at::Tensor& scales, const at::Tensor& ends) {
  if (!scales.defined()) return values;
  if (!given(ends)) return values * widened(scales);
  TORCH_CHECK(scales.dim() == 2 && scales.size(0) == ends.numel(), "dynamic quantization: smooth scales of ", scales.sizes(),
              " for ", ends.numel(), " groups");
  const at::Tensor rows = values.flatten(0, -2);
  const at::Tensor groups = groups_of_rows(rows.size(0), ends).clamp_max(ends.numel() - 1);
  return (rows * widened(scales).index_select(0, groups)).view(values.sizes());
}

}  // namespace

OP(aclnnDynamicQuant) {
  at::Tensor values = widened(x);
  if (smoothScalesOptional.defined()) values = values * widened(smoothScalesOptional);
  quantize_rows(values, yOut, scaleOut);
}
// With an offset for each token: from its least to its greatest value. Without, as aclnnDynamicQuant.
OP(aclnnDynamicQuantV2) {
  const at::Tensor values = smoothed(widened(x), smoothScalesOptional, groupIndexOptional);
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
