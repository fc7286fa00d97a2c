// Norms, activations and copies whose results are numbers of few bits.
#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/counts.h"
#include "op/kernels/quantize.h"

using namespace softcann::op;

namespace {

struct RootMeanSquare {
  at::Tensor normal, inverse;
};
// x / rms(x) * gamma + beta over the dimensions of gamma, and 1 / rms.
RootMeanSquare rms_norm(const at::Tensor& x, const at::Tensor& gamma, const at::Tensor& beta, double epsilon) {
  at::DimVector dims;
  for (int64_t i = 1; i <= gamma.dim(); ++i) dims.push_back(-i);
  const at::Tensor inverse = x.square().mean(dims, true).add_(epsilon).rsqrt_();
  const at::Tensor normal = x * inverse * widened(gamma);
  return {beta.defined() ? normal + widened(beta) : normal, inverse};
}

at::Tensor shifted(const at::Tensor& value, const at::Tensor& offset) {
  return offset.defined() ? value + widened(offset) : value;
}

// What an output holds that the client's mask leaves out.
void blank(const at::Tensor& out) {
  if (out.defined()) writable(out).zero_();
}

// value / scales (or times scales) + zeros as the output's integers; nothing without scales.
void put_scaled(const at::Tensor& out, const at::Tensor& value, const at::Tensor& scales, const at::Tensor& zeros, bool divide) {
  if (!scales.defined()) return blank(out);
  put_quantized(out, shifted(divide ? value / widened(scales) : value * widened(scales), zeros));
}

}  // namespace

OP(aclnnRmsNormQuant) {
  const auto [normal, inverse] = rms_norm(widened(x), gamma, beta, epsilon);
  put_quantized(y, shifted(normal * widened(scale), offset));
}
OP(aclnnRmsNormQuantV3) {
  const auto [normal, inverse] = rms_norm(widened(x), gamma, beta, epsilon);
  put_quantized(y, shifted(divMode ? normal / widened(scale) : normal * widened(scale), offset));
  put(rstd, inverse, outputRstd);
}
OP(aclnnAddRmsNormQuantV2) {
  TORCH_CHECK(axis == -1 || axis == x1.dim() - 1, "aclnnAddRmsNormQuantV2: axis ", axis, " is not supported");
  const at::Tensor sum = widened(x1) + widened(x2);
  put(xOut, sum);
  const auto [normal, inverse] = rms_norm(sum, gamma, betaOptional, epsilon);
  put(rmsNormOut, normal);
  put_scaled(y1Out, normal, scales1, zeroPoints1Optional, divMode);
  put_scaled(y2Out, normal, scales2Optional, zeroPoints2Optional, divMode);
}

namespace {

// Each row of value, times `smooth` where it is given, with a scale of its own.
void put_rows(bool wanted, const at::Tensor& value, const at::Tensor& smooth, const at::Tensor& out, const at::Tensor& scales) {
  if (!wanted) return blank(out), blank(scales);
  quantize_rows(smooth.defined() ? value * widened(smooth) : value, out, scales);
}

}  // namespace

OP(aclnnAddRmsNormDynamicQuant) {
  const at::Tensor sum = widened(x1) + widened(x2);
  put(xOut, sum);
  const at::Tensor normal = rms_norm(sum, gamma, at::Tensor(), epsilon).normal;
  put_rows(true, normal, smoothScale1Optional, y1Out, scale1Out);
  put_rows(smoothScale1Optional.defined() && smoothScale2Optional.defined(), normal, smoothScale2Optional, y2Out, scale2Out);
}
OP(aclnnAddRmsNormDynamicQuantV2) {
  const at::Tensor sum = widened(x1) + widened(x2);
  put(xOut, sum);
  const auto [normal, inverse] = rms_norm(sum, gamma, betaOptional, epsilon);
  const bool both = smoothScale1Optional.defined() && smoothScale2Optional.defined();
  put_rows(outputMask.empty() || outputMask[0], normal, smoothScale1Optional, y1Out, scale1Out);
  put_rows(outputMask.size() < 2 ? both : outputMask[1], normal, smoothScale2Optional, y2Out, scale2Out);
}

namespace {

double mode_cost(const char* op, std::string_view mode, bool fixed, const at::Tensor& x) {
  if (mode != "dynamic" && !(fixed && mode == "static"))
    invalid("%s: quantMode '%s' is not one of dynamic%s", op, mode.data(), fixed ? ", static" : "");
  return bytes(x);
}
struct AddLayerNorm {
  const at::Tensor &x1, &x2, &gamma, &beta, &bias;
  double epsilon;

  at::Tensor sum() const { return bias.defined() ? widened(x1) + widened(x2) + widened(bias) : widened(x1) + widened(x2); }
  at::Tensor normal(const at::Tensor& sum) const {
    return at::layer_norm(sum, gamma.sizes(), widened(gamma), widened(beta), epsilon);
  }
};

}  // namespace

#define ADD_LAYER_NORM_QUANT(NAME, KEEP)                                                                             \
  OP_COST(NAME, mode_cost(#NAME, quantMode, true, x1)) {                                                             \
    const AddLayerNorm norm{x1, x2, gamma, beta, biasOptional, epsilon};                                             \
    const at::Tensor sum = norm.sum(), normal = norm.normal(sum);                                                    \
    put(xOut, sum, additionalOutput);                                                                                \
    KEEP;                                                                                                            \
    if (std::string_view(quantMode) == "static") {                                                                   \
      put_scaled(y1Out, normal, scales1Optional, zeroPoints1Optional, divMode);                                      \
      put_scaled(y2Out, normal, scales2Optional, zeroPoints2Optional, divMode);                                      \
      return blank(outScales1Out), blank(outScales2Out);                                                             \
    }                                                                                                                \
    put_rows(true, normal, scales1Optional, y1Out, outScales1Out);                                                   \
    put_rows(scales1Optional.defined() && scales2Optional.defined(), normal, scales2Optional, y2Out, outScales2Out); \
  }
ADD_LAYER_NORM_QUANT(aclnnAddLayerNormQuant, )
ADD_LAYER_NORM_QUANT(aclnnAddLayerNormQuantV2, put(layernormRes, normal))

OP_COST(aclnnAdaLayerNormQuant, mode_cost("aclnnAdaLayerNormQuant", quantMode, false, x)) {
  TORCH_CHECK(!given(quantOffsetOptional), "aclnnAdaLayerNormQuant: quantOffset is not supported");
  const auto rows = [&](const at::Tensor& t) { return t.dim() == x.dim() ? widened(t) : widened(t).unsqueeze(-2); };
  const at::Tensor normal = at::layer_norm(widened(x), x.sizes().slice(static_cast<size_t>(x.dim() - 1)),
                                           maybe(widened(weightOptional)), maybe(widened(biasOptional)), epsilon);
  put_rows(true, normal * (1 + rows(scale)) + rows(shift), smoothScalesOptional, out, quantScale);
}

namespace {

double fixed_cost(int mode, const at::Tensor& x) {
  if (mode != 0) invalid("aclnnLayerNormQuant: quantMode %d is not supported; 0 is", mode);
  return bytes(x);
}

}  // namespace

OP_COST(aclnnLayerNormQuant, fixed_cost(quantMode, x)) {
  const auto flat = [](const at::Tensor& t) { return widened(t).reshape({-1}); };
  const at::Tensor normal =
      at::layer_norm(widened(x), x.sizes().slice(static_cast<size_t>(x.dim() - 1)), flat(gammma), flat(beta), epsilon);
  put_scaled(res, normal, scale, zeroPointsOptional, true);
  blank(scaleOut);
}
// The norm's gradient for x, quantised.
OP(aclnnRmsNormGradQuant) {
  const std::string_view mode = quantMode;
  TORCH_CHECK(mode.empty() || mode == "static", "aclnnRmsNormGradQuant: quantMode '", mode, "' is not supported");
  std::vector<int64_t> inner, outer;
  for (int64_t dim = 0; dim < x.dim(); ++dim) (dim < x.dim() - gamma.dim() ? outer : inner).push_back(dim);
  std::vector<int64_t> sizes = x.sizes().vec();
  for (const int64_t dim : inner) sizes[static_cast<size_t>(dim)] = 1;
  const at::Tensor inverse = rstd.reshape(sizes), normal = widened(x) * inverse, grad = widened(dy);
  const at::Tensor scaled = grad * widened(gamma);
  const at::Tensor dx = inverse * (scaled - normal * (scaled * normal).mean(inner, true));
  put_quantized(dxOut, shifted(divMode ? dx / widened(scalesX) : dx * widened(scalesX), offsetXOptional));
  put(dgammaOut, outer.empty() ? grad * normal : (grad * normal).sum(outer));
}
OP(aclnnGeluQuant) {
  const std::string_view mode = quantMode;
  TORCH_CHECK(mode == "dynamic" || mode == "static", "aclnnGeluQuant: quantMode '", mode, "' is not one of dynamic, static");
  at::Tensor value = at::gelu(widened(self), approximate);
  if (inputScaleOptional.defined()) value = value * widened(inputScaleOptional);
  if (mode == "dynamic") return quantize_rows(value, y, outScaleOptional);
  put_quantized(y, shifted(value, inputOffsetOptional), roundMode);
}
OP(aclnnGroupQuant) {
  const at::Tensor group = groups_of_rows(x.size(0), groupIndex).clamp_max(scale.size(0) - 1);
  put_quantized(y, shifted(widened(x) * widened(scale).index_select(0, group), offsetOptional));
}
OP(aclnnDequantBias) {
  const bool whole = biasOptional.defined() && biasOptional.scalar_type() == at::kInt;
  at::Tensor value = (whole ? x.to(at::kDouble) + biasOptional.to(at::kDouble) : x).to(at::kFloat) * widened(weightScale);
  if (activateScaleOptional.defined()) value = value * widened(activateScaleOptional).unsqueeze(-1);
  put(out, biasOptional.defined() && !whole ? value + widened(biasOptional) : value);
}
OP(aclnnAscendQuant) {
  at::Tensor value = widened(x) * widened(scale);
  if (sqrtMode) value = value * widened(scale);
  put_quantized(y, shifted(value, offset), roundMode);
}
OP(aclnnFakeQuantPerTensorAffineCachemask) {
  const auto [value, kept] = at::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
      widened(self), widened(scale), zeroPoint, at::full({1}, fakeQuantEnabled, at::kLong), quantMin, quantMax);
  put(out, value);
  put(mask, kept);
}

OP(aclnnFakeQuantPerChannelAffineCachemask) {
  const auto [value, kept] = at::fake_quantize_per_channel_affine_cachemask(widened(self), widened(scale).contiguous(),
                                                                            zeroPoint.contiguous(), axis, quantMin, quantMax);
  put(out, value);
  put(mask, kept);
}

namespace {

struct DynamicQuant {
  const at::Tensor &x, &smooth, &groups;
  bool symmetrical;
  std::string_view mode;
  double limit;

  at::Tensor smoothed() const {
    const at::Tensor value = widened(x);
    if (!smooth.defined()) return value;
    if (!groups.defined()) return value * widened(smooth);
    const at::Tensor rows = value.reshape({-1, value.size(-1)});
    const at::Tensor group = groups_of_rows(rows.size(0), groups).clamp_max(smooth.size(0) - 1);
    return (rows * widened(smooth).index_select(0, group)).view(value.sizes());
  }
  // "perchannel" takes the greatest over the rows instead of over the columns.
  void run(const at::Tensor& out, const at::Tensor& scales, const at::Tensor& offsets) const {
    TORCH_CHECK(mode.empty() || mode == "pertoken" || mode == "pertensor" || mode == "perchannel", "dynamic quantization: mode '",
                mode, "' is not one of pertoken, pertensor, perchannel");
    const at::Tensor value = smoothed();
    if (mode == "perchannel") {
      TORCH_CHECK(symmetrical, "dynamic quantization: mode perchannel with an offset is not supported");
      const at::Tensor top = value.abs().amax({-2}, true);
      const at::Tensor scale = top / (limit != 0 ? limit : quantum_limit(out, value.size(-1)));
      put_quantized(out, (value / scale).nan_to_num_(0.0, 0.0, 0.0));
      return put(scales, scale.squeeze(-2));
    }
    if (!symmetrical) return quantize_rows_with_offset(value, out, scales, offsets, mode == "pertensor");
    quantize_rows(value, out, scales, limit, mode == "pertensor");
  }
};

}  // namespace

OP(aclnnDynamicQuantV3) {
  DynamicQuant{x, smoothScalesOptional, groupIndexOptional, isSymmetrical, quantMode, 0}.run(yOut, scaleOut, offsetOut);
}
OP(aclnnDynamicQuantV4) {
  DynamicQuant{x, smoothScalesOptional, groupIndexOptional, isSymmetrical, quantMode, dstTypeMax}.run(yOut, scaleOut, offsetOut);
}
OP(aclnnQuantMax) {
  put_quantized(y, widened(x) * widened(scale), roundMode);
  put(amax, x.abs().amax());
}
OP(aclnnGroupedQuantMax) {
  const at::Tensor group = groups_of_rows(x.size(0), groupList).clamp_max(scale.numel() - 1), rows = widened(x).flatten(1);
  put_quantized(y, (rows * widened(scale).reshape({-1}).index_select(0, group).unsqueeze(-1)).view(x.sizes()), roundMode);
  put(amax, at::zeros({scale.numel()}, at::kFloat).scatter_reduce_(0, group, rows.abs().amax({1}), "amax"));
}
// y[i] = p1 @ x[i] @ p2 in int4, with a scale each.
namespace {

void flat_quant(const at::Tensor& x, const at::Tensor& p1, const at::Tensor& p2, double clip, const at::Tensor& out,
                const at::Tensor& scales) {
  const at::Tensor value = widened(p1).matmul(widened(x)).matmul(widened(p2));
  const at::Tensor scale = value.abs().amax({-1, -2}, true) * clip / quantum_limit(out, value.size(-1));
  put_quantized(out, (value / scale).nan_to_num_(0.0, 0.0, 0.0));
  put(scales, scale.reshape({-1}));
}

}  // namespace

OP(aclnnRmsNormDynamicQuant) {
  TORCH_CHECK(dstType == ACL_INT8, "aclnnRmsNormDynamicQuant: dstType ", dstType, " is not supported, only 2, int8");
  const at::Tensor normal = rms_norm(widened(x), gamma, betaOptional, epsilon).normal;
  quantize_rows(given(smoothScalesOptional) ? normal * widened(smoothScalesOptional) : normal, yOut, scaleOut);
}
OP(aclnnFlatQuant) { flat_quant(x, kroneckerP1, kroneckerP2, clipRatio, out, quantScale); }
OP(aclnnFlatQuantV2) {
  TORCH_CHECK(dstTypeMax == 0, "aclnnFlatQuantV2: dstTypeMax ", dstTypeMax, " is not supported");
  flat_quant(x, kroneckerP1, kroneckerP2, clipRatio, out, quantScale);
}
namespace {

// Of how many rows the groups consist; what lies behind them is left as it is.
int64_t grouped_rows(const at::Tensor& groups, int64_t type, int64_t rows) {
  TORCH_CHECK(type >= 0 && type <= 2, "aclnnFlatQuantV3: groupListType ", type, " is not one of 0, 1, 2");
  const std::vector<int64_t> ends = group_ends(type == 2 ? groups.select(1, 1) : groups, type == 0, rows);
  return ends.empty() ? 0 : ends.back();
}

double flat_quant_cost(const at::Tensor& x, double limit) {
  if (limit != 0) invalid("aclnnFlatQuantV3: dstTypeMax %g is not supported; 0 is", limit);
  return bytes(x);
}

}  // namespace

OP_COST(aclnnFlatQuantV3, flat_quant_cost(x, dstTypeMax)) {
  const int64_t rows = given(groupListOptional) ? grouped_rows(groupListOptional, groupListType, x.size(0)) : x.size(0);
  const auto part = [rows](const at::Tensor& t) { return t.narrow(0, 0, rows); };
  flat_quant(part(x), kroneckerP1, kroneckerP2, clipRatio, part(out), part(quantScale));
}

namespace {

struct QuantScatter {
  const at::Tensor &self, &indices, &updates, &scales, &zeros;
  int64_t axis, quant_axis, reduction;
  std::string_view mode;

  // indices: where along `axis` each update begins, or pairs of a batch and that.
  void run() const {
    TORCH_CHECK(reduction == 1 || reduction == 0, "scatter with quantization: reduction ", reduction, " is not supported");
    TORCH_CHECK(quant_axis == -1 || quant_axis == updates.dim() - 1, "scatter with quantization: quantAxis ", quant_axis,
                " is not supported");
    const at::Tensor scaled = widened(updates) / widened(scales), value = shifted(scaled, zeros);
    const int64_t along = axis < 0 ? axis + self.dim() : axis;
    const at::Tensor places = indices.reshape({indices.size(0), -1}).to(at::kLong).contiguous();
    for (int64_t i = 0; i < places.size(0); ++i) {
      const int64_t* place = places.const_data_ptr<int64_t>() + i * places.size(1);
      const bool pair = places.size(1) == 2;
      const at::Tensor part = self[pair ? place[0] : i].narrow(along - 1, place[pair ? 1 : 0], value.size(along));
      put_quantized(part, value[i], mode);
    }
  }
};

}  // namespace

OP(aclnnInplaceQuantScatter) {
  QuantScatter{selfRef, indices, updates, quantScales, quantZeroPoints, axis, quantAxis, reduction, ""}.run();
}
OP(aclnnInplaceQuantScatterV2) {
  QuantScatter{selfRef, indices, updates, quantScales, quantZeroPoints, axis, quantAxis, reduction, roundMode}.run();
}
OP(aclnnAddRmsNormQuant) {
  TORCH_CHECK(axis == -1 || axis == x1.dim() - 1, "aclnnAddRmsNormQuant: axis ", axis, " is not supported");
  const at::Tensor sum = widened(x1) + widened(x2);
  put(xOut, sum);
  const at::Tensor normal = rms_norm(sum, gamma, at::Tensor(), epsilon).normal;
  put_scaled(y1Out, normal, scales1, zeroPoints1Optional, divMode);
  put_scaled(y2Out, normal, scales2Optional, zeroPoints2Optional, divMode);
}
