// Operators that clients name: activations and their gradients.
#include "op/kernels/common.h"
#include "op/named.h"

using namespace softcann::op;

NAMED(Relu) { put(call.out(0), at::relu(call.in(0))); }
NAMED(Elu) {
  put(call.out(0), at::elu(widened(call.in(0)), call.attribute("alpha", 1.0F), call.attribute("scale", 1.0F),
                           call.attribute("input_scale", 1.0F)));
}
NAMED(CeluV2) { put(call.out(0), at::celu(widened(call.in(0)), call.attribute("alpha", 1.0F))); }
NAMED(Selu) { put(call.out(0), at::selu(widened(call.in(0)))); }
NAMED(Gelu) { put(call.out(0), at::gelu(widened(call.in(0)), "tanh")); }
NAMED(HardSwish) { put(call.out(0), at::hardswish(widened(call.in(0)))); }
NAMED(HardSigmoid) {
  put(call.out(0), (widened(call.in(0)) * call.attribute("alpha", 1.0F / 6) + call.attribute("beta", 0.5F)).clamp(0, 1));
}
NAMED(SoftplusV2) {
  put(call.out(0), at::softplus(widened(call.in(0)), call.attribute("beta", 1.0F), call.attribute("threshold", 20.0F)));
}
NAMED(LeakyRelu) { put(call.out(0), at::leaky_relu(widened(call.in(0)), call.attribute("negative_slope", 0.0F))); }
NAMED(LogSigmoid) { put(call.out(0), at::log_sigmoid(widened(call.in(0)))); }
NAMED(SoftShrink) { put(call.out(0), at::softshrink(widened(call.in(0)), call.attribute("lambd", 0.5F))); }
NAMED(HardShrink) { put(call.out(0), at::hardshrink(widened(call.in(0)), call.attribute("lambd", 0.5F))); }
NAMED(ThresholdV2D) {
  put(call.out(0), at::threshold(call.in(0), call.attribute("threshold", 0.0F), call.attribute("value", 0.0F)));
}
NAMED(GLU) { put(call.out(0), at::glu(widened(call.in(0)), call.attribute<int64_t>("dim", -1))); }
NAMED(Mish) { put(call.out(0), at::mish(call.in(0))); }

namespace {
at::Tensor swish(const at::Tensor& x, double scale) { return x * at::sigmoid(x * scale); }
}  // namespace

NAMED(Swish) { put(call.out(0), swish(widened(call.in(0)), call.attribute("scale", 1.0F))); }

// The gradient and the operand, or the result where only that is needed; in the order that CANN has.
NAMED(ReluGrad) { put(call.out(0), widened(call.in(0)) * call.in(1).gt(0)); }
NAMED(SigmoidGrad) { put(call.out(0), widened(call.in(1)) * widened(call.in(0)) * (1 - widened(call.in(0)))); }
NAMED(TanhGrad) { put(call.out(0), widened(call.in(1)) * (1 - widened(call.in(0)).square())); }
NAMED(GeluGrad) { put(call.out(0), at::gelu_backward(widened(call.in(0)), widened(call.in(1)), "tanh")); }
NAMED(HardSwishGrad) { put(call.out(0), at::hardswish_backward(widened(call.in(0)), widened(call.in(1)))); }
NAMED(HardSigmoidGrad) { put(call.out(0), at::hardsigmoid_backward(widened(call.in(0)), widened(call.in(1)))); }
NAMED(LogSigmoidGrad) { put(call.out(0), widened(call.in(0)) * at::sigmoid(-widened(call.in(1)))); }
NAMED(SoftplusV2Grad) {
  put(call.out(0), at::softplus_backward(widened(call.in(0)), widened(call.in(1)), call.attribute("beta", 1.0F),
                                         call.attribute("threshold", 20.0F)));
}
NAMED(LeakyReluGrad) {
  put(call.out(0),
      at::leaky_relu_backward(widened(call.in(0)), widened(call.in(1)), call.attribute("negative_slope", 0.0F), false));
}
NAMED(EluGradV2) {
  put(call.out(0), at::elu_backward(widened(call.in(0)), call.attribute("alpha", 1.0F), call.attribute("scale", 1.0F),
                                    call.attribute("input_scale", 1.0F), call.attribute("is_result", true), widened(call.in(1))));
}
NAMED(HardtanhGrad) {
  put(call.out(0), at::hardtanh_backward(widened(call.in(1)), widened(call.in(0)), call.attribute("min_val", -1.0F),
                                         call.attribute("max_val", 1.0F)));
}
NAMED(SoftShrinkGrad) {
  put(call.out(0), at::softshrink_backward(widened(call.in(0)), widened(call.in(1)), call.attribute("lambd", 0.5F)));
}
NAMED(HardShrinkGrad) {
  put(call.out(0), at::hardshrink_backward(widened(call.in(0)), widened(call.in(1)), call.attribute("lambd", 0.5F)));
}
NAMED(ThresholdGradV2D) { put(call.out(0), widened(call.in(0)) * call.in(1).gt(call.attribute("threshold", 0.0F))); }
NAMED(GLUGrad) {
  put(call.out(0), at::glu_backward(widened(call.in(0)), widened(call.in(1)), call.attribute<int64_t>("dim", -1)));
}
NAMED(MishGrad) { put(call.out(0), at::mish_backward(call.in(0), call.in(1))); }
NAMED(SiluGrad) { put(call.out(0), at::silu_backward(widened(call.in(0)), widened(call.in(1)))); }
NAMED(SwishGrad) {
  const at::Tensor x = widened(call.in(1));
  const double scale = call.attribute("scale", 1.0F);
  const at::Tensor gate = at::sigmoid(x * scale);
  put(call.out(0), widened(call.in(0)) * gate * (1 + x * scale * (1 - gate)));
}

namespace {

// One slope for all, or one for each channel.
at::Tensor slopes(const at::Tensor& weight, const at::Tensor& x) {
  Integers shape(static_cast<size_t>(std::max<int64_t>(x.dim(), 1)), 1);
  shape[shape.size() > 1 ? 1 : 0] = weight.numel();
  return widened(weight).reshape(shape);
}

}  // namespace

NAMED(PRelu) {
  const at::Tensor x = widened(call.in(0));
  put(call.out(0), at::where(x.gt(0), x, x * slopes(call.in(1), x)));
}
// The gradient, x, the slopes.
NAMED(PReluGrad) {
  const at::Tensor by = widened(call.in(0)), x = widened(call.in(1)), slope = slopes(call.in(2), x);
  put(call.out(0), at::where(x.gt(0), by, by * slope));
  put_reshaped(call.out(1), at::where(x.gt(0), 0.0, by * x).sum_to_size(slope.sizes()));
}
