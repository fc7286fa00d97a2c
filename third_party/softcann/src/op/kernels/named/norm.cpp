// Operators that clients name: normalizations and their gradients.
#include "op/kernels/common.h"
#include "op/named.h"

using namespace softcann::op;

namespace {

int64_t first_axis(const Named& call, const at::Tensor& x) {
  auto first = call.attribute<int64_t>("begin_norm_axis", 0);
  if (first < 0) first += x.dim();
  TORCH_CHECK(first >= 0 && first < x.dim(), "begin_norm_axis ", first, " of ", x.dim(), " dimensions");
  return first;
}

}  // namespace

// x, scale, offset, mean, variance; y, mean, variance, and the same two once more. By the statistics that are given.
NAMED(BatchNorm) {
  call.check_channels_first(0, 4);
  TORCH_CHECK(!call.attribute("is_training", true), "is_training is not supported: call aclnnBatchNorm");
  const at::Tensor mean = widened(call.in(3)), variance = widened(call.in(4));
  put(call.out(0), at::batch_norm(widened(call.in(0)), widened(call.in(1)), widened(call.in(2)), mean, variance, false, 0,
                                  call.attribute("epsilon", 1e-4F), false));
  for (size_t i = 1; i < call.outputs(); ++i) put_reshaped(call.out(i), i % 2 == 1 ? mean : variance);
}
NAMED(BNInfer) {
  put(call.out(0), at::batch_norm(widened(call.in(0)), widened(call.in(1)), widened(call.in(2)), widened(call.in(3)),
                                  widened(call.in(4)), false, 0, call.attribute("epsilon", 1e-4F), false));
}
// x, gamma, beta: y, mean and variance.
NAMED(LayerNorm) {
  const at::Tensor x = widened(call.in(0));
  const int64_t first = first_axis(call, x);
  Integers dims;
  for (int64_t d = first; d < x.dim(); ++d) dims.push_back(d);
  const at::Tensor mean = x.mean(dims, true), variance = (x - mean).square().mean(dims, true);
  at::Tensor y = (x - mean) * (variance + call.attribute("epsilon", 1e-7F)).rsqrt();
  const auto shape = x.sizes().slice(first);
  if (call.in(1).defined()) y = y * widened(call.in(1)).reshape(shape);
  if (call.in(2).defined()) y = y + widened(call.in(2)).reshape(shape);
  put(call.out(0), y);
  put(call.out(1), mean);
  put(call.out(2), variance);
}
// x, gamma, beta: y, mean, and one over the deviation.
NAMED(LayerNormV3) {
  const at::Tensor x = widened(call.in(0));
  const int64_t first = first_axis(call, x);
  const auto shape = x.sizes().slice(first);
  const auto part = [&](size_t i) { return call.in(i).defined() ? widened(call.in(i)).reshape(shape) : at::Tensor(); };
  const auto [y, mean, rstd] = at::native_layer_norm(x, shape, part(1), part(2), call.attribute("epsilon", 1e-7F));
  put(call.out(0), y);
  put(call.out(1), mean);
  put(call.out(2), rstd);
}
// x, gamma, beta: y, and mean and variance of each group.
NAMED(GroupNorm) {
  const at::Tensor x = widened(call.in(0));
  const auto groups = call.attribute<int64_t>("num_groups", 1);
  TORCH_CHECK(groups > 0 && x.dim() > 1 && x.size(1) % groups == 0, groups, " groups of ", x.sizes());
  const at::Tensor rows = x.reshape({x.size(0) * groups, -1}), mean = rows.mean(1, true),
                   variance = (rows - mean).square().mean(1, true);
  Integers shape(static_cast<size_t>(x.dim()), 1);
  shape[1] = x.size(1);
  const at::Tensor y = ((rows - mean) * (variance + call.attribute("eps", 1e-5F)).rsqrt()).reshape(x.sizes());
  put(call.out(0), y * widened(call.in(1)).reshape(shape) + widened(call.in(2)).reshape(shape));
  put_reshaped(call.out(1), mean);
  put_reshaped(call.out(2), variance);
}
// x, gamma, beta: y, mean, and one over the deviation of each group.
NAMED(GroupNormSwish) {
  const at::Tensor x = widened(call.in(0));
  const auto groups = call.attribute<int64_t>("num_groups", 1);
  TORCH_CHECK(groups > 0 && x.dim() > 1 && x.size(1) % groups == 0, groups, " groups of ", x.sizes());
  const auto [y, mean, rstd] =
      at::native_group_norm(x, widened(call.in(1)), widened(call.in(2)), x.size(0), x.size(1),
                            x.numel() / std::max<int64_t>(1, x.size(0) * x.size(1)), groups, call.attribute("eps", 1e-5F));
  put(call.out(0), call.attribute("activate_swish", true) ? y * at::sigmoid(y * call.attribute("swish_scale", 1.0F)) : y);
  put(call.out(1), mean);
  put(call.out(2), rstd);
}

// [batch, features, steps], of which the first seq_len count: less their mean, over their deviation.
NAMED(NormalizeBatch) {
  const at::Tensor x = widened(call.in(0));
  const auto kind = call.attribute<std::string>("normalize_type", "per_feature");
  TORCH_CHECK(kind == "per_feature" || kind == "all_features", "normalize_type ", kind, " is not known");
  const bool all = kind == "all_features";
  const Integers dims = all ? Integers{1, 2} : Integers{2};
  const at::Tensor within = at::arange(x.size(2)).lt(call.in(1).to(at::kLong).reshape({-1, 1, 1})).to(x.scalar_type());
  const at::Tensor count = within.sum(dims, true) * (all ? x.size(1) : 1), mean = (x * within).sum(dims, true) / count;
  const at::Tensor deviation = (((x - mean).square() * within).sum(dims, true) / (count - 1)).sqrt();
  put(call.out(0), (x - mean) / (deviation + call.attribute("epsilon", 1e-5F)));
}

// The gradient, x, variance, mean, gamma: for x, gamma and beta. The operator is not told the forward's epsilon.
NAMED(LayerNormGrad) {
  constexpr double epsilon = 1e-12;
  const at::Tensor by = widened(call.in(0)), x = widened(call.in(1)), gamma = widened(call.in(4));
  const int64_t first = x.dim() - gamma.dim();
  Integers dims, before;
  for (int64_t d = 0; d < x.dim(); ++d) (d < first ? before : dims).push_back(d);
  Integers shape = x.sizes().vec();
  std::fill(shape.begin() + first, shape.end(), 1);
  const at::Tensor rstd = (widened(call.in(2)).reshape(shape) + epsilon).rsqrt(),
                   normal = (x - widened(call.in(3)).reshape(shape)) * rstd;
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
  const at::Tensor x = widened(call.in(0));
  put(call.out(0), x.sum(all_but_channels(x)));
  put(call.out(1), x.square().sum(all_but_channels(x)));
}
// x, sums, sums of squares, scale, offset, running mean and variance: y, these two, and the batch's mean and variance.
void batch_update(const Named& call) {
  const at::Tensor x = widened(call.in(0));
  const double count = static_cast<double>(x.numel()) / static_cast<double>(x.size(1)), factor = call.attribute("factor", 0.1F);
  const at::Tensor mean = widened(call.in(1)) / count, variance = (widened(call.in(2)) / count - mean.square()).clamp_min(0);
  const at::Tensor normal = (x - of_channels(mean, x)) * of_channels((variance + call.attribute("epsilon", 1e-5F)).rsqrt(), x);
  put(call.out(0), normal * of_channels(widened(call.in(3)), x) + of_channels(widened(call.in(4)), x));
  put(call.out(1), widened(call.in(5)) * (1 - factor) + mean * factor);
  put(call.out(2), widened(call.in(6)) * (1 - factor) + variance * (factor * count / std::max(1.0, count - 1)));
  put(call.out(3), mean);
  put(call.out(4), variance);
}
// The gradient, x, the batch's mean and variance: for the scale and the offset.
void batch_update_gradient(const Named& call) {
  const at::Tensor by = widened(call.in(0)), x = widened(call.in(1));
  const at::Tensor normal = (x - of_channels(widened(call.in(2)), x)) *
                            of_channels((widened(call.in(3)) + call.attribute("epsilon", 1e-4F)).rsqrt(), x);
  put(call.out(0), (by * normal).sum(all_but_channels(x)));
  put(call.out(1), by.sum(all_but_channels(x)));
}
// The gradient, x, the gradients of scale and offset, the scale, the batch's mean and variance: for x.
void batch_sums_gradient(const Named& call) {
  const at::Tensor by = widened(call.in(0)), x = widened(call.in(1));
  const double count = static_cast<double>(x.numel()) / static_cast<double>(x.size(1));
  const at::Tensor rstd = (widened(call.in(6)) + call.attribute("epsilon", 1e-4F)).rsqrt();
  const at::Tensor normal = (x - of_channels(widened(call.in(5)), x)) * of_channels(rstd, x);
  put(call.out(0), of_channels(widened(call.in(4)) * rstd, x) *
                       (by - (normal * of_channels(widened(call.in(2)), x) + of_channels(widened(call.in(3)), x)) / count));
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
  const at::Tensor by = widened(call.in(0));
  put(call.out(0), by * of_channels(widened(call.in(1)) * (widened(call.in(2)) + call.attribute("epsilon", 1e-4F)).rsqrt(), by));
}

// By what the parts along a dimension are multiplied, so that none has a norm above maxnorm; or the parts themselves.
NAMED(Renorm) {
  const at::Tensor x = widened(call.in(0));
  const double most = call.attribute("maxnorm", 1.0F);
  Integers others;
  for (int64_t d = 0; d < x.dim(); ++d) {
    if (d != at::maybe_wrap_dim(call.attribute<int64_t>("dim", 0), x.dim())) others.push_back(d);
  }
  const at::Tensor norms = at::linalg_vector_norm(x, call.attribute("p", 2.0F), others, true);
  const at::Tensor factors = at::where(norms.gt(most), most / (norms + 1e-7), 1.0);
  if (call.out(0).numel() == factors.numel()) return put_reshaped(call.out(0), factors);
  put(call.out(0), x * factors);
}
