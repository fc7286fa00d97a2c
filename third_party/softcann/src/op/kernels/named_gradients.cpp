// Operators that clients name: gradients. Inputs, outputs and attributes are those of CANN's operators of these names.
#include <ATen/ATen.h>

#include "op/kernels/common.h"
#include "op/named.h"

using namespace softcann::op;

namespace {

using Integers = std::vector<int64_t>;

at::Tensor given(const Named& call, size_t i) { return widened(call.in(i)); }
double number(const Named& call, const char* name, float otherwise) { return call.attribute(name, otherwise); }

int64_t only(const Named& call, const char* name) {
  const auto axes = call.attribute<Integers>(name, {-1});
  TORCH_CHECK(axes.size() == 1, name, " has ", axes.size(), " numbers: one is supported");
  return axes[0];
}

// The gradient that arrives at each element of a loss that may have been reduced.
at::Tensor spread(const Named& call, const at::Tensor& by, const at::Tensor& each) {
  const auto how = call.attribute<std::string>("reduction", "mean");
  TORCH_CHECK(how == "none" || how == "sum" || how == "mean" || how == "batchmean", "reduction ", how, " is not known");
  const auto count = how == "mean" ? each.numel() : how == "batchmean" ? each.size(0) : 1;
  return by * each / static_cast<double>(count);
}

}  // namespace

// Activations: the gradient and the operand, or the result where only that is needed; in the order that CANN has.
NAMED(ReluGrad) { put(call.out(0), given(call, 0) * call.in(1).gt(0)); }
NAMED(SigmoidGrad) { put(call.out(0), given(call, 1) * given(call, 0) * (1 - given(call, 0))); }
NAMED(TanhGrad) { put(call.out(0), given(call, 1) * (1 - given(call, 0).square())); }
NAMED(GeluGrad) { put(call.out(0), at::gelu_backward(given(call, 0), given(call, 1), "tanh")); }
NAMED(HardSwishGrad) { put(call.out(0), at::hardswish_backward(given(call, 0), given(call, 1))); }
NAMED(HardSigmoidGrad) { put(call.out(0), at::hardsigmoid_backward(given(call, 0), given(call, 1))); }
NAMED(LogSigmoidGrad) { put(call.out(0), given(call, 0) * at::sigmoid(-given(call, 1))); }
NAMED(SoftplusV2Grad) {
  put(call.out(0), at::softplus_backward(given(call, 0), given(call, 1), number(call, "beta", 1), number(call, "threshold", 20)));
}
NAMED(LeakyReluGrad) {
  put(call.out(0), at::leaky_relu_backward(given(call, 0), given(call, 1), number(call, "negative_slope", 0), false));
}
NAMED(EluGradV2) {
  put(call.out(0), at::elu_backward(given(call, 0), number(call, "alpha", 1), number(call, "scale", 1),
                                    number(call, "input_scale", 1), call.attribute("is_result", true), given(call, 1)));
}
NAMED(HardtanhGrad) {
  put(call.out(0),
      at::hardtanh_backward(given(call, 1), given(call, 0), number(call, "min_val", -1), number(call, "max_val", 1)));
}
NAMED(SoftShrinkGrad) { put(call.out(0), at::softshrink_backward(given(call, 0), given(call, 1), number(call, "lambd", 0.5F))); }
NAMED(HardShrinkGrad) { put(call.out(0), at::hardshrink_backward(given(call, 0), given(call, 1), number(call, "lambd", 0.5F))); }
NAMED(ThresholdGradV2D) { put(call.out(0), given(call, 0) * call.in(1).gt(number(call, "threshold", 0))); }
NAMED(GLUGrad) { put(call.out(0), at::glu_backward(given(call, 0), given(call, 1), call.attribute<int64_t>("dim", -1))); }
NAMED(SoftmaxGrad) {
  const int64_t axis = only(call, "axes");
  const at::Tensor y = given(call, 0), by = given(call, 1) * y;
  put(call.out(0), by - y * by.sum(axis, true));
}
NAMED(LogSoftmaxGrad) {
  const at::Tensor by = given(call, 0);
  put(call.out(0), by - given(call, 1).exp() * by.sum(only(call, "axis"), true));
}

// Losses.
NAMED(MseLossGrad) { put(call.out(0), spread(call, given(call, 2), 2 * (given(call, 0) - given(call, 1)))); }
NAMED(L1LossGrad) { put(call.out(0), spread(call, given(call, 0), (given(call, 1) - given(call, 2)).sgn())); }
NAMED(SmoothL1LossGradV2) {
  const double sigma = number(call, "sigma", 1);
  const at::Tensor difference = given(call, 0) - given(call, 1);
  const at::Tensor slope = sigma > 0 ? (difference / sigma).clamp(-1, 1) : difference.sgn();
  put(call.out(0), spread(call, given(call, 2), slope));
}
NAMED(KlDivLossGrad) {
  const at::Tensor target = given(call, 2), share = call.attribute("log_target", false) ? target.exp() : target;
  put(call.out(0), spread(call, given(call, 0), -share));
}
NAMED(BinaryCrossEntropyGrad) {
  const at::Tensor x = given(call, 0), target = given(call, 1);
  at::Tensor slope = (x - target) / (x * (1 - x)).clamp_min(1e-12);
  if (call.in(3).defined()) slope = slope * given(call, 3);
  put(call.out(0), spread(call, given(call, 2), slope));
}
NAMED(SigmoidCrossEntropyWithLogitsGradV2) {
  const at::Tensor x = given(call, 0), target = given(call, 1), share = at::sigmoid(x);
  at::Tensor slope = share - target;
  if (call.in(4).defined()) {
    const at::Tensor weighed = given(call, 4) * target;
    slope = (weighed + 1 - target) * share - weighed;
  }
  if (call.in(3).defined()) slope = slope * given(call, 3);
  put(call.out(0), spread(call, given(call, 2), slope));
}
// x, the gradient, classes, weights, the sum of the weights that counted.
NAMED(NLLLossGrad) {
  const auto how = call.attribute<std::string>("reduction", "mean");
  const int64_t kind = how == "none" ? at::Reduction::None : how == "sum" ? at::Reduction::Sum : at::Reduction::Mean;
  put(call.out(0), at::nll_loss_backward(given(call, 1), given(call, 0), call.in(2).to(at::kLong), given(call, 3), kind,
                                         call.attribute<int64_t>("ignore_index", -100), given(call, 4)));
}

// Layers.
NAMED(EmbeddingDenseGrad) {
  put(call.out(0),
      at::embedding_dense_backward(given(call, 0), call.in(1).to(at::kLong), call.attribute<int64_t>("num_weights", 0),
                                   call.attribute<int64_t>("padding_idx", -1), call.attribute("scale_grad_by_freq", false)));
}
// The gradient, x, variance, mean, gamma: for x, gamma and beta. The operator is not told the forward's epsilon.
NAMED(LayerNormGrad) {
  constexpr double epsilon = 1e-12;
  const at::Tensor by = given(call, 0), x = given(call, 1), gamma = given(call, 4);
  const int64_t first = x.dim() - gamma.dim();
  Integers dims, before;
  for (int64_t d = 0; d < x.dim(); ++d) (d < first ? before : dims).push_back(d);
  Integers shape = x.sizes().vec();
  std::fill(shape.begin() + first, shape.end(), 1);
  const at::Tensor rstd = (given(call, 2).reshape(shape) + epsilon).rsqrt(), normal = (x - given(call, 3).reshape(shape)) * rstd;
  const at::Tensor weighed = by * gamma;
  put(call.out(0), rstd * (weighed - weighed.mean(dims, true) - normal * (weighed * normal).mean(dims, true)));
  put(call.out(1), before.empty() ? by * normal : (by * normal).sum(before));
  put(call.out(2), before.empty() ? by : by.sum(before));
}

namespace {

// [1, C, 1, ...], as statistics of channels meet x.
at::Tensor of_channels(const at::Tensor& value, const at::Tensor& x) {
  Integers shape(static_cast<size_t>(x.dim()), 1);
  shape[1] = x.size(1);
  return value.reshape(shape);
}
Integers all_but_channels(const at::Tensor& x) {
  Integers dims{0};
  for (int64_t d = 2; d < x.dim(); ++d) dims.push_back(d);
  return dims;
}

// x: its sums and sums of squares for each channel.
void batch_sums(const Named& call) {
  const at::Tensor x = given(call, 0);
  put(call.out(0), x.sum(all_but_channels(x)));
  put(call.out(1), x.square().sum(all_but_channels(x)));
}
// x, sums, sums of squares, scale, offset, running mean and variance: y, these two, and the batch's mean and variance.
void batch_update(const Named& call) {
  const at::Tensor x = given(call, 0);
  const double count = static_cast<double>(x.numel()) / static_cast<double>(x.size(1)), factor = number(call, "factor", 0.1F);
  const at::Tensor mean = given(call, 1) / count, variance = (given(call, 2) / count - mean.square()).clamp_min(0);
  const at::Tensor normal = (x - of_channels(mean, x)) * of_channels((variance + number(call, "epsilon", 1e-5F)).rsqrt(), x);
  put(call.out(0), normal * of_channels(given(call, 3), x) + of_channels(given(call, 4), x));
  put(call.out(1), given(call, 5) * (1 - factor) + mean * factor);
  put(call.out(2), given(call, 6) * (1 - factor) + variance * (factor * count / std::max(1.0, count - 1)));
  put(call.out(3), mean);
  put(call.out(4), variance);
}
// The gradient, x, the batch's mean and variance: for the scale and the offset.
void batch_update_gradient(const Named& call) {
  const at::Tensor by = given(call, 0), x = given(call, 1);
  const at::Tensor normal =
      (x - of_channels(given(call, 2), x)) * of_channels((given(call, 3) + number(call, "epsilon", 1e-4F)).rsqrt(), x);
  put(call.out(0), (by * normal).sum(all_but_channels(x)));
  put(call.out(1), by.sum(all_but_channels(x)));
}
// The gradient, x, the gradients of scale and offset, the scale, the batch's mean and variance: for x.
void batch_sums_gradient(const Named& call) {
  const at::Tensor by = given(call, 0), x = given(call, 1);
  const double count = static_cast<double>(x.numel()) / static_cast<double>(x.size(1));
  const at::Tensor rstd = (given(call, 6) + number(call, "epsilon", 1e-4F)).rsqrt();
  const at::Tensor normal = (x - of_channels(given(call, 5), x)) * of_channels(rstd, x);
  put(call.out(0), of_channels(given(call, 4) * rstd, x) *
                       (by - (normal * of_channels(given(call, 2), x) + of_channels(given(call, 3), x)) / count));
}

}  // namespace

NAMED(BNTrainingReduce) { batch_sums(call); }
NAMED(BN3DTrainingReduce) { batch_sums(call); }
NAMED(BNTrainingUpdate) { batch_update(call); }
NAMED(BN3DTrainingUpdate) { batch_update(call); }
NAMED(BNTrainingUpdateGrad) { batch_update_gradient(call); }
NAMED(BN3DTrainingUpdateGrad) { batch_update_gradient(call); }
NAMED(BNTrainingReduceGrad) { batch_sums_gradient(call); }
NAMED(BN3DTrainingReduceGrad) { batch_sums_gradient(call); }
NAMED(BNInferGrad) {
  const at::Tensor by = given(call, 0);
  put(call.out(0), by * of_channels(given(call, 1) * (given(call, 2) + number(call, "epsilon", 1e-4F)).rsqrt(), by));
}

NAMED(AdaptiveAvgPool2dGrad) {
  const auto shape = call.attribute<Integers>("orig_input_shape", {});
  put(call.out(0), at::_adaptive_avg_pool2d_backward(given(call, 0), at::zeros({1}).expand(shape)));
}
NAMED(ResizeNearestNeighborV2Grad) {
  TORCH_CHECK(!call.attribute("align_corners", false) && !call.attribute("half_pixel_centers", false),
              "align_corners and half_pixel_centers are not supported");
  const at::Tensor by = given(call, 0);
  put(call.out(0), at::upsample_nearest2d_backward(by, by.sizes().slice(2), call.out(0).sizes()));
}
NAMED(ResizeBilinearV2Grad) {
  const bool aligned = call.attribute("align_corners", false);
  TORCH_CHECK(aligned || call.attribute("half_pixel_centers", false), "one of align_corners and half_pixel_centers is expected");
  const at::Tensor by = given(call, 0);
  put(call.out(0), at::upsample_bilinear2d_backward(by, by.sizes().slice(2), call.out(0).sizes(), aligned));
}
// The gradient and the pads before and after each dimension: each element of a mirrored border counts to its origin.
NAMED(PadV3Grad) {
  const auto mode = call.attribute<std::string>("mode", "reflect");
  TORCH_CHECK(mode == "reflect" && call.attribute("paddings_contiguous", true),
              "only contiguous pads by reflection are supported");
  at::Tensor made = given(call, 0);
  const Integers pads = call.integers(1);
  for (int64_t d = 0; d < made.dim(); ++d) {
    const int64_t before = pads[2 * d], after = pads[2 * d + 1], size = made.size(d) - before - after;
    if (before == 0 && after == 0) continue;
    TORCH_CHECK(size > 0 && before < size && after < size, "pads of ", before, " and ", after, " for ", size, " elements");
    const at::Tensor place = at::arange(-before, size + after).abs();
    Integers shape = made.sizes().vec();
    shape[d] = size;
    made = at::zeros(shape, made.options()).index_add(d, at::where(place.ge(size), 2 * (size - 1) - place, place), made);
  }
  put(call.out(0), made);
}
