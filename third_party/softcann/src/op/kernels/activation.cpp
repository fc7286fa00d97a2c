// Activations and their gradients.
#include <ATen/ExpandUtils.h>

#include "op/fast_path.h"
#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/tanh_gelu.h"
#include "op/small_unary.h"

using namespace softcann::op;
namespace fast = softcann::op::fast;

OP_FAST(aclnnRelu, (fast::unary<true>(self, out, [](auto x) { return x < 0 ? decltype(x)(0) : x; }))) {
  require(self.scalar_type() != at::kBool, self, "relu");
  at::clamp_min_out(out, self, 0);
}
OP(aclnnInplaceRelu) { at::cpu::relu_(selfRef); }
OP_FAST(aclnnSigmoid, small_unary(at::native::sigmoid_stub, self, out)) { at::cpu::sigmoid_outf(self, out); }
OP_FAST(aclnnInplaceSigmoid, small_unary(at::native::sigmoid_stub, selfRef, selfRef)) { at::cpu::sigmoid_(selfRef); }
OP(aclnnSigmoidBackward) { at::cpu::sigmoid_backward_outf(gradOutput, output, gradInput); }
OP(aclnnTanhBackward) { at::cpu::tanh_backward_outf(gradOutput, output, gradInput); }
OP(aclnnTanhGrad) { at::cpu::tanh_backward_outf(dy, y, writable(zOut)); }

namespace {

void gelu_into(const at::Tensor& self, std::string_view approximate, at::Tensor& out) {
  if (approximate == "tanh" && tanh_gelu(self, out)) return;
  if (self.strides() == out.strides()) {
    at::cpu::gelu_outf(self, approximate, out);
  } else {  // where oneDNN computes, ATen leaves other tensors unwritten
    put(out, at::cpu::gelu(self, approximate));
  }
}

}  // namespace

OP(aclnnGelu) { gelu_into(self, "none", out); }
OP(aclnnGeluV2) { gelu_into(x, approximate == 1 ? "tanh" : "none", y); }
OP(aclnnGeluBackward) { at::cpu::gelu_backward_outf(gradOutput, self, "none", gradInput); }
OP(aclnnGeluBackwardV2) {
  if (approximate == std::string_view("tanh") && tanh_gelu_gradient(gradOutput, self, gradInput)) return;
  at::cpu::gelu_backward_outf(gradOutput, self, approximate, gradInput);
}

namespace {

// CANN's fast gelu: x * sigmoid(1.702 x), in a form that cannot overflow.
constexpr double fast_gelu_slope = 1.702;

at::Tensor fast_gelu_gradient(const at::Tensor& grad, const at::Tensor& x) {
  const at::Tensor wide = widened(x);
  const at::Tensor gate = at::sigmoid(wide * fast_gelu_slope);
  return widened(grad) * (gate + wide * fast_gelu_slope * gate * (1 - gate));
}

double slope_of(const at::Scalar& beta) { return given(beta) ? beta.toDouble() : 1.0; }

}  // namespace

OP(aclnnFastGelu) { put(out, widened(self) * at::sigmoid(widened(self) * fast_gelu_slope)); }
OP(aclnnFastGeluBackward) { put(gradInput, fast_gelu_gradient(gradOutput, self)); }

OP(aclnnSilu) { at::cpu::silu_outf(self, out); }
OP(aclnnSiluBackward) { at::cpu::silu_backward_outf(gradOutput, self, gradInput); }
OP(aclnnSwish) {
  if (slope_of(betaOptional) == 1.0) {
    at::cpu::silu_outf(self, out);
  } else {
    put(out, self * at::sigmoid(self * slope_of(betaOptional)));
  }
}
OP(aclnnSwishBackward) {
  const double beta = slope_of(betaOptional);
  if (beta == 1.0) {
    at::cpu::silu_backward_outf(gradOutput, self, gradInput);
  } else {
    const at::Tensor gate = at::sigmoid(self * beta);
    put(gradInput, gradOutput * (gate + self * beta * gate * (1 - gate)));
  }
}
OP(aclnnMish) { at::cpu::mish_outf(self, out); }
OP(aclnnInplaceMish) { at::cpu::mish_(selfRef); }
OP(aclnnMishBackward) {
  into(gradInput, [&] { return at::mish_backward(gradOutput, self); });
}

OP(aclnnElu) { at::cpu::elu_outf(self, alpha, scale, inputScale, out); }
OP(aclnnInplaceElu) { at::cpu::elu_(selfRef, alpha, scale, inputScale); }
OP(aclnnEluBackward) { at::cpu::elu_backward_outf(gradOutput, alpha, scale, inputScale, isResult, selfOrResult, gradInput); }
OP(aclnnCelu) { put(out, at::celu(self, alpha)); }
OP(aclnnInplaceCelu) { at::celu_(selfRef, alpha); }
// Of whole numbers the results are cut to whole ones, and those beyond int8 run over: CANN's kernel makes them do so, where the
// conversions of others (ForeachExp) end at the type's limits.
OP(aclnnSelu) { put(out, at::selu(c10::isIntegralType(self.scalar_type(), false) ? self.to(at::kFloat) : self)); }
OP(aclnnInplaceSelu) {
  if (c10::isIntegralType(selfRef.scalar_type(), false)) {
    put(selfRef, at::selu(selfRef.to(at::kFloat)));
  } else {
    at::selu_(selfRef);
  }
}
OP(aclnnSeluBackward) {
  constexpr double alpha = 1.6732632423543772848170429916717, scale = 1.0507009873554804934193349852946;
  at::cpu::elu_backward_outf(gradOutput, alpha, scale, 1, true, result, gradInput);
}

OP(aclnnLeakyRelu) { at::cpu::leaky_relu_outf(self, negativeSlope, out); }
OP(aclnnInplaceLeakyRelu) { at::cpu::leaky_relu_(selfRef, negativeSlope); }
OP(aclnnLeakyReluBackward) { at::cpu::leaky_relu_backward_outf(gradOutput, self, negativeSlope, selfIsResult, out); }
namespace {

// One weight a channel, shaped to broadcast against x.
at::Tensor channel_weight(const at::Tensor& weight, const at::Tensor& x) {
  if (x.dim() < 2) return weight;
  std::vector<int64_t> sizes(static_cast<size_t>(x.dim()), 1);
  sizes[1] = weight.numel();
  return weight.reshape(sizes);
}

}  // namespace

OP(aclnnPrelu) {
  into(out, [&] { return at::_prelu_kernel(self, channel_weight(weight, self)); });
}
OP(aclnnPreluBackward) {
  const auto [grad, grad_weight] = at::_prelu_kernel_backward(gradOutput, self, channel_weight(weight, self));
  put(gradInput, grad);
  put(gradWeight, at::sum_to(grad_weight, channel_weight(weight, self).sizes()).view_as(weight));
}
OP(aclnnThreshold) { at::cpu::threshold_outf(self, threshold, value, out); }
OP(aclnnInplaceThreshold) { at::cpu::threshold_(selfRef, threshold, value); }
OP(aclnnThresholdBackward) { at::cpu::threshold_backward_outf(gradOutput, self, threshold, out); }

OP(aclnnHardtanh) {
  require(self.scalar_type() != at::kBool, self, "hardtanh");
  at::cpu::hardtanh_outf(self, clipValueMin, clipValueMax, out);
}
OP(aclnnInplaceHardtanh) {
  require(selfRef.scalar_type() != at::kBool, selfRef, "hardtanh");
  at::cpu::hardtanh_(selfRef, clipValueMin, clipValueMax);
}
OP(aclnnHardtanhBackward) { at::cpu::hardtanh_backward_outf(gradOutput, self, min, max, out); }
OP(aclnnHardswish) { at::cpu::hardswish_outf(self, out); }
OP(aclnnInplaceHardswish) { at::cpu::hardswish_(writable(self)); }
OP(aclnnHardswishBackward) {
  into(out, [&] { return at::hardswish_backward(gradOutput, self); });
}
OP(aclnnHardswishBackwardV2) {
  into(out, [&] { return at::hardswish_backward(gradOutput, self); });
}
namespace {

// Of int32 the result is cut to a whole number.
void hardsigmoid(const at::Tensor& self, at::Tensor& out) {
  if (self.scalar_type() == at::kInt && out.scalar_type() == at::kInt) {
    out.copy_(at::cpu::hardsigmoid(self.to(at::kFloat)));
  } else {
    at::cpu::hardsigmoid_outf(self, out);
  }
}

}  // namespace

OP(aclnnHardsigmoid) { hardsigmoid(self, out); }
OP(aclnnInplaceHardsigmoid) { hardsigmoid(self, writable(self)); }
OP(aclnnHardsigmoidBackward) { at::cpu::hardsigmoid_backward_outf(gradOutput, self, out); }
OP(aclnnHardshrink) { at::cpu::hardshrink_outf(self, lambd, out); }
OP(aclnnHardshrinkBackward) { at::cpu::hardshrink_backward_outf(gradOutput, self, lambd, gradInput); }
OP(aclnnSoftshrink) { at::cpu::softshrink_outf(self, lambd, out); }
OP(aclnnSoftshrinkBackward) { at::cpu::softshrink_backward_outf(gradOutput, self, lambda, gradInput); }
OP(aclnnSoftplus) { at::cpu::softplus_outf(self, beta, threshold, out); }
OP(aclnnSoftplusBackward) { at::cpu::softplus_backward_outf(gradOutput, self, beta, threshold, gradInput); }

OP(aclnnLogSigmoid) { put(out, at::log_sigmoid(self)); }
OP(aclnnLogSigmoidForward) {
  const bool wanted = buffer.defined() && buffer.sizes() == self.sizes();
  at::Tensor own = at::empty({0}, self.options());  // the CPU kernel fills it in the order of memory, whatever its strides
  at::Tensor& kept = wanted && buffer.is_contiguous() ? buffer : own;
  at::cpu::log_sigmoid_forward_outf(self, out, kept);
  if (wanted) put(buffer, kept);
}
OP(aclnnLogSigmoidBackward) {
  // A client may hand an empty buffer, as CUDA does; the CPU kernel needs exp(-|x|).
  const bool usable = buffer.defined() && buffer.sizes() == self.sizes();
  at::cpu::log_sigmoid_backward_outf(gradOutput, self, usable ? buffer : at::exp(-at::abs(self)), gradInput);
}

OP(aclnnGlu) { at::cpu::glu_outf(self, dim, out); }
OP(aclnnGluBackward) { at::cpu::glu_backward_outf(gradOut, self, dim, out); }
// Rounded once, as the NPU does: in half precision it computes in float32.
OP(aclnnSwiGlu) {
  const int64_t half = x.size(dim) / 2;
  put(out, at::silu(widened(x.narrow(dim, 0, half))).mul_(widened(x.narrow(dim, half, half))));
}
OP(aclnnSwiGluGrad) {
  const int64_t half = x.size(dim) / 2;
  const at::Tensor grad = widened(yGrad), a = widened(x.narrow(dim, 0, half)), b = widened(x.narrow(dim, half, half));
  put(out.narrow(dim, 0, half), at::silu_backward(grad * b, a));
  put(out.narrow(dim, half, half), at::silu(a).mul_(grad));
}
OP(aclnnSquaredRelu) { put(out, at::square(at::relu(input))); }
OP(aclnnShrink) {
  const double l = lambd.toDouble(), b = bias.toDouble();
  const at::Tensor zero = at::zeros({}, self.options());
  put(out, at::where(self > l, self - b, at::where(self < -l, self + b, zero)));
}

namespace {

// Parts of a gated activation: CANN's activateLeft says which half goes through the activation.
struct Halves {
  at::Tensor activated, linear;
};
Halves halves_of(const at::Tensor& x, int64_t dim, bool activate_left) {
  const int64_t half = x.size(dim) / 2;
  const at::Tensor left = x.narrow(dim, 0, half), right = x.narrow(dim, half, half);
  return activate_left ? Halves{left, right} : Halves{right, left};
}
const char* gelu_kind(int64_t approximate) { return approximate == 1 ? "tanh" : "none"; }
void geglu_into(at::Tensor& out, at::Tensor& gelu_out, const at::Tensor& x, int64_t dim, int64_t approximate,
                bool activate_left) {
  const Halves parts = halves_of(x, dim, activate_left);
  at::cpu::gelu_outf(parts.activated, gelu_kind(approximate), gelu_out);
  at::mul_out(out, gelu_out, parts.linear);
}
void geglu_gradient_into(at::Tensor& grad_input, const at::Tensor& grad, const at::Tensor& x, const at::Tensor& gelu, int64_t dim,
                         int64_t approximate, bool activate_left) {
  const Halves parts = halves_of(x, dim, activate_left), grads = halves_of(grad_input, dim, activate_left);
  put(grads.activated, at::gelu_backward(grad * parts.linear, parts.activated, gelu_kind(approximate)));
  put(grads.linear, grad * gelu);
}

}  // namespace

OP(aclnnGeGlu) { geglu_into(out, outGelu, self, dim, approximate, false); }
OP(aclnnGeGluV3) { geglu_into(out, outGelu, self, dim, approximate, activateLeft); }
OP(aclnnGeGluBackward) { geglu_gradient_into(gradInput, gradOutput, self, gelu, dim, approximate, false); }
OP(aclnnGeGluV3Backward) { geglu_gradient_into(gradInput, gradOutput, self, gelu, dim, approximate, activateLeft); }
OP(aclnnGeluMul) {
  const Halves parts = halves_of(input, -1, true);
  at::cpu::gelu_outf(parts.activated, *approximateOptional ? approximateOptional : "none", out);
  out.mul_(parts.linear);
}

OP(aclnnSoftsign) {
  const at::Tensor wide = widened(x);
  put(yOut, wide / (1 + wide.abs()));
}
OP(aclnnSoftsignBackward) { put(out, widened(gradients) / (1 + widened(features).abs()).square()); }
OP(aclnnHardShrink) { put(outOut, at::hardshrink(self, lambdOptional)); }
OP(aclnnSiluMul) { put(out, at::silu(widened(x)) * widened(y)); }
