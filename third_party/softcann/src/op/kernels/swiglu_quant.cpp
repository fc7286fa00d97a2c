// swiglu, quantised: SwiGluQuantV2, DequantSwigluQuant.
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/where.h>

#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/quantize.h"

using namespace softcann::op;

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
