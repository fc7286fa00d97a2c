// Softmax, its logarithm, its masked and scaled forms.
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/_log_softmax_backward_data_cpu_dispatch.h>
#include <ATen/ops/_log_softmax_cpu_dispatch.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/_softmax_backward_data_cpu_dispatch.h>
#include <ATen/ops/_softmax_cpu_dispatch.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>

#include "op/kernel.h"
#include "op/kernels/common.h"

using namespace softcann::op;

namespace {

// A conversion while computing (half in, float out) is what CANN allows and the CPU kernels do not.
at::Tensor as_result(const at::Tensor& self, const at::Tensor& out) {
  return self.scalar_type() == out.scalar_type() ? self : self.to(out.scalar_type());
}

}  // namespace

OP(aclnnSoftmax) { at::cpu::_softmax_outf(as_result(self, out), dim, false, out); }
OP(aclnnLogSoftmax) { at::cpu::_log_softmax_outf(as_result(self, out), dim, false, out); }
OP(aclnnSoftmaxBackward) {
  if (out.scalar_type() == output.scalar_type()) {
    at::cpu::_softmax_backward_data_outf(as_result(gradOutput, output), output, dim, output.scalar_type(), out);
  } else {
    put(out, at::_softmax_backward_data(as_result(gradOutput, output), output, dim, output.scalar_type()));
  }
}
OP(aclnnLogSoftmaxBackward) {
  if (out.scalar_type() == output.scalar_type()) {
    at::cpu::_log_softmax_backward_data_outf(as_result(gradOutput, output), output, dim, output.scalar_type(), out);
  } else {
    put(out, at::_log_softmax_backward_data(as_result(gradOutput, output), output, dim, output.scalar_type()));
  }
}
OP(aclnnSoftmaxGrad) {
  const at::IntArrayRef axes = axesOptional.empty() ? at::IntArrayRef(-1) : axesOptional;
  const at::Tensor product = softmax * gradSoftmax;
  put(gradXOut, product - softmax * product.sum(axes, true));
}

namespace {

// x scaled, with -10000 where masked out: CANN's constant, so a row that is masked everywhere stays finite.
constexpr double masked_score = -10000.0;

at::Tensor triangular_mask(const at::Tensor& x) {
  return at::ones({x.size(-2), x.size(-1)}, x.options().dtype(at::kBool)).triu(1);
}

void scaled_masked_softmax_into(at::Tensor& y, const at::Tensor& x, const at::Tensor& mask, double scale,
                                bool triangular) {
  at::Tensor scores = x.to(at::kFloat) * scale;
  const at::Tensor hidden = triangular ? triangular_mask(x) : mask;
  if (hidden.defined()) scores.masked_fill_(hidden.to(at::kBool), masked_score);
  put(y, at::softmax(scores, -1));
}
void scaled_masked_softmax_gradient_into(at::Tensor& out, const at::Tensor& grad, const at::Tensor& y,
                                         const at::Tensor& mask, double scale, bool triangular) {
  at::Tensor wide = at::_softmax_backward_data(grad.to(at::kFloat), y.to(at::kFloat), -1, at::kFloat) * scale;
  const at::Tensor hidden = triangular ? triangular_mask(y) : mask;
  if (hidden.defined()) wide.masked_fill_(hidden.to(at::kBool), 0);
  put(out, wide);
}

}  // namespace

OP(aclnnScaledMaskedSoftmax) { scaled_masked_softmax_into(y, x, mask, scale, fixedTriuMask); }
OP(aclnnInnerScaledMaskedSoftmaxV2) { scaled_masked_softmax_into(y, x, mask, scale, fixedTriuMask); }
OP(aclnnScaledMaskedSoftmaxBackward) {
  scaled_masked_softmax_gradient_into(out, gradOutput, y, mask, scale, fixTriuMask);
}
OP(aclnnInnerScaledMaskedSoftmaxGradV2) {
  scaled_masked_softmax_gradient_into(out, gradOutput, y, mask, scale, fixTriuMask);
}
OP(aclnnMaskedSoftmaxWithRelPosBias) {
  // x is [B, W, N, S1, S2] or [BW, N, S1, S2]; the mask is per window, the bias per head.
  at::Tensor scores = x.to(at::kFloat) * scaleValue;
  if (attenMaskOptional.defined()) {
    const int64_t windows = attenMaskOptional.size(attenMaskOptional.dim() > 3 ? -4 : 0);
    const at::Tensor mask =
        attenMaskOptional.to(at::kFloat).view({1, windows, 1, x.size(-2), x.size(-1)});
    const at::Tensor split = scores.view({-1, windows, x.size(-3), x.size(-2), x.size(-1)});
    scores = (split + mask).view(x.sizes());
  }
  scores = scores + relativePosBias.to(at::kFloat).view({x.size(-3), x.size(-2), x.size(-1)});
  put(out, at::softmax(scores, -1));
}
