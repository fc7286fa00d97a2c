// Layer and root-mean-square normalization.

#include <limits>

#include <ATen/native/layer_norm.h>

#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/fitting.h"
#include "vendor/vendor_ops.h"
#include "vendor/vendor_params.h"

using namespace softcann::op;

namespace {

int64_t elements(at::IntArrayRef sizes) {
  int64_t product = 1;
  for (const int64_t size : sizes) product *= size;
  return product;
}

void require_rows(const at::Tensor& input, at::IntArrayRef normalized) {
  const auto count = static_cast<int64_t>(normalized.size());
  TORCH_CHECK(input.dim() >= count && input.sizes().slice(input.dim() - count) == normalized, "normalization: ", input.sizes(),
              " does not end with ", normalized);
}

void layer_norm_into(at::Tensor& out, at::Tensor& mean, at::Tensor& rstd, const at::Tensor& input, at::IntArrayRef normalized,
                     const at::Tensor& weight, const at::Tensor& bias, double eps) {
  require_rows(input, normalized);
  TORCH_CHECK(out.numel() == input.numel(), "normalization: a result of ", out.sizes(), " for ", input.sizes());
  const int64_t columns = elements(normalized),
                rows = elements(input.sizes().slice(0, static_cast<size_t>(input.dim()) - normalized.size()));
  for (const at::Tensor* scale : {&weight, &bias}) {
    TORCH_CHECK(!given(*scale) || scale->numel() == columns, "normalization: ", scale->sizes(), " for rows of ", columns);
  }
  for (const at::Tensor* number : {&mean, &rstd}) {
    TORCH_CHECK(!given(*number) || number->numel() == rows, "normalization: statistics of ", number->sizes(), " for ", rows,
                " rows");
  }
  if (!rows) return;
  if (!columns) {  // rows of nothing, as ATen has it
    if (given(mean)) mean.zero_();
    if (given(rstd)) rstd.fill_(std::numeric_limits<double>::quiet_NaN());
    return;
  }
  PlainResult result(out), mean_result(mean), rstd_result(rstd);
  at::native::LayerNormKernel(at::kCPU, plain(input), plain(weight), plain(bias), rows, columns, eps, &result.value(),
                              mean_result.pointer(), rstd_result.pointer());
  result.finish();
  mean_result.finish();
  rstd_result.finish();
}

}  // namespace

OP(aclnnLayerNorm) {
  layer_norm_into(out, meanOutOptional, rstdOutOptional, input, normalizedShape, weightOptional, biasOptional, eps);
}
OP(aclnnLayerNormWithImplMode) {
  layer_norm_into(out, meanOutOptional, rstdOutOptional, input, normalizedShape, weightOptional, biasOptional, eps);
}
OP(aclnnFastLayerNorm) {
  layer_norm_into(out, meanOutOptional, rstdOutOptional, input, normalizedShape, weightOptional, biasOptional, eps);
}

namespace {

void layer_norm_backward_into(at::Tensor& grad_input, at::Tensor& grad_weight, at::Tensor& grad_bias, const at::Tensor& grad,
                              const at::Tensor& input, at::IntArrayRef normalized, const at::Tensor& mean, const at::Tensor& rstd,
                              const at::Tensor& weight, bool want_input, bool want_weight, bool want_bias) {
  require_rows(input, normalized);
  const int64_t columns = elements(normalized), rows = columns ? input.numel() / columns : 0;
  TORCH_CHECK(!given(weight) || weight.numel() == columns, "normalization: ", weight.sizes(), " for rows of ", columns);
  TORCH_CHECK(grad.sizes() == input.sizes() && mean.numel() == rows && rstd.numel() == rows,
              "gradient of layer norm: the gradient ", grad.sizes(), ", mean ", mean.sizes(), " and rstd ", rstd.sizes(),
              " of an input ", input.sizes());
  PlainResult dx(grad_input, input.numel(), want_input), dgamma(grad_weight, columns, want_weight),
      dbeta(grad_bias, columns, want_bias);
  if (rows) {
    at::native::LayerNormBackwardKernel(at::kCPU, plain(grad), plain(input), plain(mean), plain(rstd), plain(weight), rows,
                                        columns, &dx.value(), &dgamma.value(), &dbeta.value());
  } else {
    if (dgamma.pointer()) dgamma.value().zero_();
    if (dbeta.pointer()) dbeta.value().zero_();
  }
  dx.finish();
  dgamma.finish();
  dbeta.finish();
}

}  // namespace

OP(aclnnLayerNormBackward) {
  layer_norm_backward_into(gradInputOut, gradWeightOut, gradBiasOut, gradOut, input, normalizedShape, mean, rstd, weightOptional,
                           outputMask.at(0), outputMask.at(1), outputMask.at(2));
}
OP(aclnnAddLayerNorm) {
  at::Tensor sum = widened(x1) + widened(x2);
  if (biasOptional.defined()) sum.add_(widened(biasOptional));
  if (additionalOutput) put(xOut, sum);
  layer_norm_into(yOut, meanOut, rstdOut, sum, gamma.sizes(), gamma, beta, epsilon);
}
OP(aclnnAddLayerNormGrad) {
  const at::Tensor sum = widened(x1) + widened(x2);
  layer_norm_backward_into(dxOut, dgammaOut, dbetaOut, dy, sum, gamma.sizes(), mean, rstd, gamma, true, true, true);
  if (dsumOptional.defined()) dxOut.add_(dsumOptional);
}
OP(aclnnDeepNorm) {
  layer_norm_into(yOut, meanOut, rstdOut, widened(x) * alpha + widened(gx), gamma.sizes(), gamma, beta, epsilon);
}
OP(aclnnDeepNormGrad) {
  at::Tensor grad = at::empty(dgxOut.sizes(), dgxOut.options().dtype(at::kFloat));
  layer_norm_backward_into(grad, dgammaOut, dbetaOut, dy, widened(x) * alpha + widened(gx), gamma.sizes(), mean, rstd, gamma,
                           true, true, true);
  put(dgxOut, grad);
  put(dxOut, grad * alpha);
}

namespace {

// [.., H] and [.., 1, H] for all rows of x [.., rows, H].
at::Tensor of_rows(const at::Tensor& t, const at::Tensor& x) {
  return t.dim() == x.dim() ? widened(t) : widened(t).unsqueeze(-2);
}

void adaptive_norm(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& shift, const at::Tensor& weight,
                   const at::Tensor& bias, double epsilon, const at::Tensor& out, at::Tensor mean, at::Tensor rstd) {
  at::Tensor normal = at::empty(x.sizes(), x.options().dtype(at::kFloat));
  layer_norm_into(normal, mean, rstd, x, x.sizes().slice(x.dim() - 1), weight, bias, epsilon);
  put(out, normal * (1 + of_rows(scale, x)) + of_rows(shift, x));
}

}  // namespace

OP(aclnnAdaLayerNorm) { adaptive_norm(x, scale, shift, weightOptional, biasOptional, epsilon, out, {}, {}); }
OP(aclnnAdaLayerNormV2) {
  adaptive_norm(x, scale, shift, weightOptional, biasOptional, epsilon, out, meanOutOptional, rstdOutOptional);
}
OP(aclnnAdaLayerNormBackward) {
  require_rows(input, normalizedShape);
  TORCH_CHECK(normalizedShape.size() == 1, "aclnnAdaLayerNormBackward: normalizedShape ", normalizedShape, " has not one number");
  std::vector<int64_t> sizes = input.sizes().vec();
  sizes.back() = 1;
  const at::Tensor inverse = widened(rstd).reshape(sizes), normal = (widened(input) - widened(mean).reshape(sizes)) * inverse;
  const at::Tensor grad = widened(gradOut), by_norm = grad * (1 + of_rows(scale, input));
  const at::Tensor by_normal = weightOptional.defined() ? by_norm * widened(weightOptional) : by_norm;
  put(gradInputOut, inverse * (by_normal - by_normal.mean(-1, true) - normal * (by_normal * normal).mean(-1, true)));
  at::Tensor result = weightOptional.defined() ? normal * widened(weightOptional) : normal;
  if (biasOptional.defined()) result = result + widened(biasOptional);
  put(gradScaleOut, (grad * result).sum(-2));
  put(gradShiftOut, grad.sum(-2));
  put(gradWeightOut, (by_norm * normal).reshape({-1, input.size(-1)}).sum(0));
  put(gradBiasOut, by_norm.reshape({-1, input.size(-1)}).sum(0));
}

namespace {

// Trailing dimensions that gamma covers.
std::vector<int64_t> normalized_dims(const at::Tensor& x, const at::Tensor& gamma) {
  TORCH_CHECK(
      gamma.dim() > 0 && gamma.dim() <= x.dim() && x.sizes().slice(static_cast<size_t>(x.dim() - gamma.dim())) == gamma.sizes(),
      "norm: gamma of ", gamma.sizes(), " for ", x.sizes());
  std::vector<int64_t> dims;
  for (int64_t i = 1; i <= gamma.dim(); ++i) dims.push_back(-i);
  return dims;
}
struct RmsNorm {
  at::Tensor normal, rstd;  // float32; normal is x * rstd, without gamma
};
RmsNorm rms_norm(const at::Tensor& x, const at::Tensor& gamma, double eps) {
  const at::Tensor wide = widened(x);
  const at::Tensor rstd = wide.square().mean(normalized_dims(x, gamma), true).add_(eps).rsqrt_();
  return {wide * rstd, rstd};
}
// What is normalized of a sum: the NPU rounds it first in float16, and in bfloat16 only where it is a result.
at::Tensor sum_to_normalize(const at::Tensor& x1, const at::Tensor& x2) {
  return x1.scalar_type() == at::kBFloat16 ? widened(x1) + widened(x2) : x1 + x2;
}

}  // namespace

OP_COST(aclnnRmsNorm, (require_trailing(x, gamma), streamed_cost(x, gamma, yOut, rstdOut))) {
  RmsNorm norm = rms_norm(x, gamma, epsilon);
  put(yOut, norm.normal.mul_(widened(gamma)));
  put(rstdOut, norm.rstd);
}
OP(aclnnGemmaRmsNorm) {
  RmsNorm norm = rms_norm(x, gamma, epsilon);
  put(yOut, norm.normal.mul_(1 + widened(gamma)));
  put(rstdOut, norm.rstd);
}
OP(aclnnRmsNormGrad) {
  std::vector<int64_t> row_sizes = x.sizes().vec();
  for (const int64_t dim : normalized_dims(x, gamma)) row_sizes[static_cast<size_t>(dim + x.dim())] = 1;
  const at::Tensor inverse = widened(rstd).view(row_sizes);
  const at::Tensor grad = widened(dy), normal = widened(x) * inverse, scaled = grad * widened(gamma);
  put(dxOut, (scaled - normal * (scaled * normal).mean(normalized_dims(x, gamma), true)) * inverse);
  put(dgammaOut, (grad * normal).reshape({-1, gamma.numel()}).sum(0).view(gamma.sizes()));
}
OP(aclnnAddRmsNorm) {
  const at::Tensor sum = sum_to_normalize(x1, x2);
  put(xOut, sum);
  // Where no statistics are wanted, gamma is described as a matrix of one row.
  RmsNorm norm = rms_norm(sum, !given(rstdOut) && gamma.dim() == 2 && gamma.size(0) == 1 ? gamma[0] : gamma, epsilon);
  put(yOut, norm.normal.mul_(widened(gamma)));
  put(rstdOut, norm.rstd);
}
OP(aclnnAddRmsNormBias) {
  const at::Tensor sum = sum_to_normalize(x1, x2);
  put(xOut, sum);
  RmsNorm norm = rms_norm(sum, gamma, epsilon);
  norm.normal.mul_(widened(gamma));
  put(yOut, given(betaOptional) ? norm.normal.add_(widened(betaOptional)) : norm.normal);
  put(rstdOut, norm.rstd);
}
OP(aclnnAddRmsNormCast) {
  const at::Tensor sum = sum_to_normalize(x1, x2);
  put(xOut, sum);
  RmsNorm norm = rms_norm(sum, gamma, epsilon);
  norm.normal.mul_(widened(gamma));
  put(y1Out, norm.normal);
  put(y2Out, norm.normal.to(x1.scalar_type()));
  put(rstdOut, norm.rstd);
}
// x2 becomes the sum, x1 its normalization.
OP(aclnnInplaceAddRmsNorm) {
  const at::Tensor sum = sum_to_normalize(x1Ref, x2Ref);
  put(x2Ref, sum);
  RmsNorm norm = rms_norm(sum, gamma, epsilon);
  put(x1Ref, norm.normal.mul_(widened(gamma)));
  put(rstdOut, norm.rstd);
}
