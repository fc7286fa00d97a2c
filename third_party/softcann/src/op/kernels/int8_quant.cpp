// Quantization to numbers of few bits by given scales or by those of each row, and back.
#include <ATen/ops/round.h>

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
