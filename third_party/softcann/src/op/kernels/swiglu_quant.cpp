// swiglu, quantised: SwiGluQuantV2, DequantSwigluQuant.
#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/counts.h"
#include "op/kernels/quantize.h"

using namespace softcann::op;

namespace {

// Quantization of swiglu's result, and what comes before it. Groups follow each other along the rows; rows behind the
// last become zero.
struct Swiglu {
  // How the halves are found and activated: 0 by swish, 1 and 2 with limits, a slope and a bias.
  struct Variant {
    int64_t mode = 0;
    double limit = 0, alpha = 0, bias = 0;
  };

  const at::Tensor &smooth, &offset, &group_index;
  bool activate_left, cumulative;
  std::string_view mode;
  Variant variant{};

  // The group of each row, the number of groups for those behind the last.
  at::Tensor groups(int64_t rows) const {
    return groups_of_rows(rows, at::tensor(group_ends(group_index, cumulative, rows), at::kLong));
  }
  // A row of `table` for each row of x.
  at::Tensor chosen(const at::Tensor& table, const at::Tensor& group) const {
    const at::Tensor wide = widened(table);
    if (wide.dim() < 2) return wide;
    if (!group.defined() || wide.size(0) == 1) return wide[0];
    return wide.index_select(0, group.clamp_max(wide.size(0) - 1));
  }
  at::Tensor activated(const at::Tensor& x) const {
    if (variant.mode == 0) {
      const auto [left, right] = halves(x);
      return activate_left ? at::silu(left) * right : left * at::silu(right);
    }
    at::Tensor gate, linear;
    if (variant.mode == 1) {  // the gate's and the other's numbers take turns
      gate = x.slice(-1, 0, x.size(-1), 2);
      linear = x.slice(-1, 1, x.size(-1), 2);
    } else {
      TORCH_CHECK(variant.mode == 2, "swiglu with quantization: swigluMode ", variant.mode, " is not supported");
      std::tie(gate, linear) = halves(x);
      if (!activate_left) std::swap(gate, linear);
    }
    gate = gate.clamp_max(variant.limit);
    return gate * (gate * variant.alpha).sigmoid() * (linear.clamp(-variant.limit, variant.limit) + variant.bias);
  }
  static std::tuple<at::Tensor, at::Tensor> halves(const at::Tensor& x) {
    const int64_t half = x.size(-1) / 2;
    return {x.narrow(-1, 0, half), x.narrow(-1, half, half)};
  }
  // mode "dynamic": with a scale for each row; "static": smooth * value + offset is rounded, and `scales` become 0.
  void quantize(const at::Tensor& x, const at::Tensor& group, const at::Tensor& out, const at::Tensor& scales) const {
    const bool fixed = mode == "static";
    TORCH_CHECK(fixed || mode == "dynamic", "swiglu with quantization: mode '", mode, "' is not supported");
    TORCH_CHECK(out.scalar_type() == at::kChar, "swiglu with quantization: only int8 is supported");
    at::Tensor value = activated(x);
    if (smooth.defined()) value = value * by_row(smooth, group);
    if (fixed && offset.defined()) value = value + by_row(offset, group);
    if (group.defined()) value = at::where((group < group_index.numel()).unsqueeze(-1), value, 0.0);
    if (!fixed) return quantize_rows(value, out, scales);
    put_quantized(out, value);
    writable(scales).zero_();
  }
  // One number, or one for each column, for all rows or for each group.
  at::Tensor by_row(const at::Tensor& table, const at::Tensor& group) const {
    const bool per_group = group.defined() && table.dim() == 1 && table.numel() == group_index.numel();
    return per_group ? chosen(table.unsqueeze(-1), group) : chosen(table, group);
  }
};

}  // namespace

namespace {

// This operator's scale is what a row was multiplied with, 127 over its greatest magnitude: the others tell the reciprocal.
void quantized_swiglu(const Swiglu& swiglu, const at::Tensor& x, const at::Tensor& out, const at::Tensor& scales) {
  const at::Tensor rows = widened(x).reshape({-1, x.size(-1)});
  const at::Tensor group = swiglu.group_index.defined() ? swiglu.groups(rows.size(0)) : at::Tensor();
  swiglu.quantize(rows, group, out, scales);
  if (swiglu.mode == "static") return;
  const at::Tensor factors = scales.reshape({-1}).reciprocal();
  put(scales, (group.defined() ? at::where(group < swiglu.group_index.numel(), factors, 0.0) : factors).view(scales.sizes()));
}
std::string_view mode_or_dynamic(const char* mode) { return *mode ? mode : "dynamic"; }

}  // namespace

OP(aclnnSwiGluQuant) {
  quantized_swiglu({smoothScalesOptional, offsetsOptional, groupIndexOptional, activateLeft, /*cumulative=*/true,
                    mode_or_dynamic(quantModeOptional)},
                   x, yOut, scaleOut);
}
OP(aclnnSwiGluQuantV2) {
  quantized_swiglu({smoothScalesOptional, offsetsOptional, groupIndexOptional, activateLeft, groupListType == 0,
                    mode_or_dynamic(quantModeOptional)},
                   x, yOut, scaleOut);
}

namespace {

// What an int8 product becomes in floating point, through swiglu.
struct DequantizedSwiglu {
  const at::Tensor &weight_scale, &activation_scale, &bias;

  void run(const at::Tensor& x, const Swiglu& swiglu, const at::Tensor& out, const at::Tensor& scales) const {
    at::Tensor rows = widened(x).reshape({-1, x.size(-1)});
    const at::Tensor group = swiglu.group_index.defined() ? swiglu.groups(rows.size(0)) : at::Tensor();
    const bool whole = bias.defined() && bias.scalar_type() == at::kInt;
    if (whole) rows = rows + swiglu.chosen(bias, group);
    if (weight_scale.defined()) rows = rows * swiglu.chosen(weight_scale, group);
    if (activation_scale.defined()) rows = rows * widened(activation_scale).reshape({-1, 1});
    if (bias.defined() && !whole) rows = rows + swiglu.chosen(bias, group);
    swiglu.quantize(rows, group, out, scales);
  }
};

}  // namespace

OP(aclnnDequantSwigluQuant) {
  const Swiglu swiglu{quantScaleOptional, quantOffsetOptional,  groupIndexOptional,
                      activateLeft,       /*cumulative=*/false, quantModeOptional};
  DequantizedSwiglu{weightScaleOptional, activationScaleOptional, biasOptional}.run(x, swiglu, yOut, scaleOut);
}
OP(aclnnDequantSwigluQuantV2) {
  TORCH_CHECK(dstType == 2, "aclnnDequantSwigluQuantV2: dstType ", dstType, " is not supported, only 2, int8");
  TORCH_CHECK(activateDim == -1 || activateDim == x.dim() - 1, "aclnnDequantSwigluQuantV2: activateDim ", activateDim,
              " is not supported, only the last");
  const Swiglu swiglu{quantScaleOptional,   quantOffsetOptional, groupIndexOptional,
                      activateLeft,
                      /*cumulative=*/false, quantModeOptional,   {swigluMode, clampLimit, gluAlpha, gluBias}};
  DequantizedSwiglu{weightScaleOptional, activationScaleOptional, biasOptional}.run(x, swiglu, yOut, scaleOut);
}
