// Batch normalization, alone and synchronized.
#include <ATen/ops/empty.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/native_batch_norm_cpu_dispatch.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/var_mean.h>

#include <cmath>
#include <cstring>

#include "acl/acl_rt.h"
#include "op/kernel.h"
#include "op/kernels/common.h"

using namespace softcann::op;

namespace {

// Note [saveInvstd]
// What aclnnBatchNorm saves under this name is 1/std on Ascend950 and the (biased) variance on its predecessors; the
// gradient takes it back as it is. Both ends follow the SoC we pretend to be.
bool saves_variance() {
  static const bool value = [] {
    const char* soc = aclrtGetSocName();
    return !soc || std::strncmp(soc, "Ascend950", 9) != 0;
  }();
  return value;
}

// Channel statistics of few elements, in place; never worth an ATen call each.
template <class T, class F>
void each_of(at::Tensor& values, F&& f) {
  T* data = values.mutable_data_ptr<T>();
  for (int64_t i = 0; i < values.numel(); ++i) data[i] = static_cast<T>(f(static_cast<double>(data[i])));
}
template <class F>
void each_channel(at::Tensor& values, F&& f) {
  AT_ASSERT(values.is_contiguous());
  values.scalar_type() == at::kDouble ? each_of<double>(values, f) : each_of<float>(values, f);
}
void to_saved(at::Tensor& invstd, double eps) {
  if (saves_variance()) each_channel(invstd, [eps](double inverse) { return 1.0 / (inverse * inverse) - eps; });
}
at::Tensor from_saved(const at::Tensor& saved, double eps) {
  if (!saved.defined() || !saves_variance()) return saved;
  at::Tensor invstd = saved.to(wide_type(saved), false, true).contiguous();
  each_channel(invstd, [eps](double variance) { return 1.0 / std::sqrt(variance + eps); });
  return invstd;
}

bool all_float(std::initializer_list<at::Tensor> tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined() && (tensor.scalar_type() != at::kFloat)) return false;
  }
  return true;
}
bool present(const at::Tensor& tensor) { return tensor.defined() && tensor.numel() != 0; }

struct BatchNorm {
  const at::Tensor &input, &weight, &bias, &running_mean, &running_var;
  double momentum, eps;
  const at::Tensor &output, &mean, &saved;
};

double sum_of(const float* values, int64_t count, double center, bool squared) {
  double sums[4] = {};
  for (int64_t i = 0; i < count; ++i) {
    const double apart = static_cast<double>(values[i]) - center;
    sums[i & 3] += squared ? apart * apart : apart;
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// Training on few elements, all float32 and in order: ATen's preparations take longer than the arithmetic.
constexpr int64_t few_elements = 4096;
bool is_small(const BatchNorm& n) {
  const auto dense = [](const at::Tensor& t) { return !t.defined() || t.is_contiguous(); };
  return n.input.numel() <= few_elements && n.input.numel() != 0 && n.input.is_contiguous() && n.output.is_contiguous() && dense(n.weight) &&
         dense(n.bias) && dense(n.running_mean) && dense(n.running_var) && dense(n.mean) && dense(n.saved);
}
void train_small(const BatchNorm& n) {
  const int64_t images = n.input.size(0), channels = n.input.size(1), area = n.input.numel() / images / channels;
  const double count = static_cast<double>(images * area);
  const auto pointer = [](const at::Tensor& t) { return present(t) ? t.data_ptr<float>() : nullptr; };
  const float *input = pointer(n.input), *weight = pointer(n.weight), *bias = pointer(n.bias);
  float *output = pointer(n.output), *running_mean = pointer(n.running_mean), *running_var = pointer(n.running_var), *mean = pointer(n.mean),
        *saved = pointer(n.saved);
  const auto running = [&](float& state, double value) {
    state = static_cast<float>(n.momentum * value + (1 - n.momentum) * static_cast<double>(state));
  };
  for (int64_t c = 0; c < channels; ++c) {
    const auto over_images = [&](double center, bool squared) {
      double sum = 0;
      for (int64_t i = 0; i < images; ++i) sum += sum_of(input + (i * channels + c) * area, area, center, squared);
      return sum;
    };
    const double average = over_images(0, false) / count, squares = over_images(average, true), variance = squares / count;
    const double invstd = 1 / std::sqrt(variance + n.eps), scale = invstd * (weight ? static_cast<double>(weight[c]) : 1);
    const auto factor = static_cast<float>(scale), shift = static_cast<float>((bias ? static_cast<double>(bias[c]) : 0) - average * scale);
    for (int64_t i = 0; i < images; ++i) {
      const float* from = input + (i * channels + c) * area;
      float* to = output + (i * channels + c) * area;
      for (int64_t e = 0; e < area; ++e) to[e] = from[e] * factor + shift;
    }
    if (mean) mean[c] = static_cast<float>(average);
    if (saved) saved[c] = static_cast<float>(saves_variance() ? variance : invstd);
    if (running_mean) running(running_mean[c], average);
    if (running_var) running(running_var[c], squares / (count - 1));
  }
}

}  // namespace

OP(aclnnBatchNorm) {
  if (all_float({input, weight, bias, runningMean, runningVar, output, saveMean, saveInvstd})) {
    const BatchNorm all{input, weight, bias, runningMean, runningVar, momentum, eps, output, saveMean, saveInvstd};
    if (training && is_small(all)) return train_small(all);
    at::Tensor mean = present(saveMean) ? saveMean : at::empty({0}, input.options());
    at::Tensor invstd = present(saveInvstd) ? saveInvstd : at::empty({0}, input.options());
    // torch's out variant goes wrong on an input with gaps.
    const at::Tensor source = input.is_non_overlapping_and_dense() ? input : input.contiguous();
    at::cpu::native_batch_norm_outf(source, maybe(weight), maybe(bias), maybe(runningMean), maybe(runningVar), training,
                                    momentum, eps, output, mean, invstd);
    if (training && present(saveInvstd)) to_saved(saveInvstd, eps);
    return;
  }
  // CPU kernels want parameters of one type: float32 beside half inputs.
  at::Tensor mean_state = widened(runningMean), var_state = widened(runningVar);
  auto [out, mean, invstd] = at::native_batch_norm(widened(input), maybe(widened(weight)), maybe(widened(bias)),
                                                   maybe(mean_state), maybe(var_state), training, momentum, eps);
  put(output, out);
  if (!training) return;
  put(runningMean, mean_state);
  put(runningVar, var_state);
  if (present(saveMean)) put(saveMean, mean);
  to_saved(invstd, eps);
  if (present(saveInvstd)) put(saveInvstd, invstd);
}
OP(aclnnBatchNormBackward) {
  const Placement placement(gradInput);
  const auto [grad, grad_weight, grad_bias] = at::native_batch_norm_backward(
      widened(gradOut), widened(input), maybe(widened(weight)), maybe(widened(runningMean)),
      maybe(widened(runningVar)), training ? maybe(widened(saveMean)) : std::nullopt,
      training ? maybe(from_saved(saveInvstd, eps)) : std::nullopt, training, eps,
      {outputMask[0], outputMask[1], outputMask[2]});
  put(gradInput, grad, outputMask[0]);
  put(gradWeight, grad_weight, outputMask[1]);
  put(gradBias, grad_bias, outputMask[2]);
}

namespace {

std::vector<int64_t> all_but_channel(const at::Tensor& x) {
  std::vector<int64_t> dims;
  for (int64_t i = 0; i < x.dim(); ++i) {
    if (i != 1) dims.push_back(i);
  }
  return dims;
}
// [C] shaped to broadcast against x.
at::Tensor per_channel(const at::Tensor& values, const at::Tensor& x) {
  std::vector<int64_t> sizes(static_cast<size_t>(x.dim()), 1);
  sizes[1] = x.size(1);
  return widened(values).reshape(sizes);
}

}  // namespace

OP(aclnnBatchNormStats) {
  const auto [variance, average] = at::var_mean(widened(input), all_but_channel(input), 0);
  put(mean, average);
  put(invstd, at::rsqrt(variance + eps));
}
OP(aclnnBatchNormElemt) {
  at::Tensor scale = per_channel(invstd, input);
  if (weight.defined()) scale = scale * per_channel(weight, input);
  at::Tensor result = (widened(input) - per_channel(mean, input)).mul_(scale);
  if (bias.defined()) result.add_(per_channel(bias, input));
  put(output, result);
}
OP(aclnnBatchNormGatherStatsWithCounts) {
  const at::Tensor counted = counts.to(wide_type(mean)).view({-1, 1});
  const at::Tensor total = counted.sum();
  const at::Tensor average = (widened(mean) * counted).sum(0) / total;
  const at::Tensor spread_within = widened(invstd).pow(-2) - eps, apart = (widened(mean) - average).square();
  const at::Tensor variance = ((spread_within + apart) * counted).sum(0) / total;
  put(meanAll, average);
  put(invstdAll, at::rsqrt(variance + eps));
  if (runningMean.defined()) runningMean.mul_(1 - momentum).add_(average, momentum);
  if (runningVar.defined()) runningVar.mul_(1 - momentum).add_(variance * (total / (total - 1)), momentum);
}
OP(aclnnBatchNormReduce) {
  const at::Tensor wide = widened(x);
  put(sum, wide.sum(all_but_channel(x)));
  put(squareSum, wide.square().sum(all_but_channel(x)));
}
OP(aclnnSyncBatchNormGatherStats) {
  const at::Tensor total = sampleCount.to(at::kFloat).sum();
  const at::Tensor average = widened(totalSum).sum(0) / total;
  const at::Tensor spread_out = widened(totalSquareSum).sum(0) / total - average.square();
  put(batchMean, average);
  put(batchInvstd, at::rsqrt(spread_out + eps));
  mean.mul_(1 - momentum).add_(average, momentum);
  variance.mul_(1 - momentum).add_(spread_out * (total / (total - 1)), momentum);
}
OP(aclnnBatchNormReduceBackward) {
  const at::Tensor grad = widened(gradOut);
  const at::Tensor by_bias = grad.sum(all_but_channel(input));
  const at::Tensor by_scale =
      (grad * (widened(input) - per_channel(mean, input))).sum(all_but_channel(input));
  put(sumDy, by_bias, inputG);
  put(sumDyXmu, by_scale, inputG);
  put(gradWeight, by_scale * widened(invstd), weightG);
  put(gradBias, by_bias, biasG);
}
OP(aclnnBatchNormElemtBackward) {
  const at::Tensor total = counter.to(at::kFloat).sum();
  const at::Tensor inverse = per_channel(invstd, input);
  const at::Tensor slope = per_channel(sumDyXmu, input) / total * inverse.square();
  at::Tensor scale = inverse;
  if (weight.defined()) scale = scale * per_channel(weight, input);
  const at::Tensor centered = widened(input) - per_channel(mean, input);
  put(gradInput, (widened(gradOut) - per_channel(sumDy, input) / total - centered * slope) * scale);
}
OP(aclnnInstanceNorm) {
  TORCH_CHECK(std::string_view(dataFormat) == "NCHW" || !*dataFormat, "aclnnInstanceNorm: dataFormat ", dataFormat,
              " is not supported");
  std::vector<int64_t> dims;
  for (int64_t i = 2; i < x.dim(); ++i) dims.push_back(i);
  const at::Tensor wide = widened(x);
  const auto [spread_out, average] = at::var_mean(wide, dims, 0, true);
  put(y, (wide - average) * at::rsqrt(spread_out + eps) * per_channel(gamma, x) + per_channel(beta, x));
  put(mean, average);
  put(variance, spread_out);
}
