// Batch normalization. PyTorch saves 1/std for the gradient.
//
// Note [Saved variance]
// What aclnnBatchNorm saves, and its gradient expects, is the biased variance on the Ascend910 and 310 families and 1/std
// on the Ascend950. PyTorch's operators hand out 1/std on every device, so on the former it is converted on the way out and
// back. In double: a step of AdamW makes much of a gradient's last bits, and it is one number per channel.
#include <ATen/core/Tensor.h>
#include <ATen/Functions.h>

#include "aten/compose.h"
#include "aten/factory.h"
#include "core/device.h"
#include "generated/torch_npu_native_functions.h"
#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnBatchNorm);
NPU_OPERATOR(aclnnBatchNormBackward);
NPU_OPERATOR(aclnnRsqrt);

namespace {

using Optional = std::optional<at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

bool saves_variance() {
  static const bool value = core::soc_name().rfind("Ascend950", 0) != 0;
  return value;
}

// 1/sqrt(variance + eps), in place: the sum in double, rounded once at the end.
void invert(const at::Tensor& variance, double eps) {
  const at::Tensor sum = variance.to(at::kDouble).add_(eps);
  op::run(aclnnRsqrt, sum, result(variance));
}

void forward(const at::Tensor& input, const Optional& weight, const Optional& bias, const Optional& running_mean,
             const Optional& running_var, bool training, double momentum, double eps, const at::Tensor& out,
             const at::Tensor& mean, const at::Tensor& invstd) {
  TORCH_CHECK(training || (running_mean && running_mean->defined() && running_var && running_var->defined()),
              "Expected running_mean and running_var to be defined when training=False");
  op::run(aclnnBatchNorm, input, weight, bias, running_mean ? *running_mean : at::Tensor(),
          running_var ? *running_var : at::Tensor(), training, momentum, eps, out, mean, invstd);
  if (training && saves_variance()) invert(invstd, eps);
}

Three normalize(const at::Tensor& input, const Optional& weight, const Optional& bias, const Optional& running_mean,
                const Optional& running_var, bool training, double momentum, double eps);

// PyTorch refuses integers, the published torch_npu takes them: in float32, cut to the input's integers.
Three normalize_integers(const at::Tensor& input, const Optional& weight, const Optional& bias, const Optional& running_mean,
                         const Optional& running_var, bool training, double momentum, double eps) {
  const auto in_float = [](const Optional& tensor) {
    return tensor && tensor->defined() ? Optional(tensor->to(at::kFloat)) : std::nullopt;  // float32 is the tensor itself
  };
  const auto mean_before = in_float(running_mean), var_before = in_float(running_var);
  const auto [out, mean, invstd] =
      normalize(input.to(at::kFloat), in_float(weight), in_float(bias), mean_before, var_before, training, momentum, eps);
  if (training && mean_before && !mean_before->is_same(*running_mean)) running_mean->copy_(*mean_before);
  if (training && var_before && !var_before->is_same(*running_var)) running_var->copy_(*var_before);
  return {out.to(input.scalar_type()), mean, invstd};
}

Three normalize(const at::Tensor& input, const Optional& weight, const Optional& bias, const Optional& running_mean,
                const Optional& running_var, bool training, double momentum, double eps) {
  if (at::isIntegralType(input.scalar_type(), /*includeBool=*/true)) {
    return normalize_integers(input, weight, bias, running_mean, running_var, training, momentum, eps);
  }
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(input.scalar_type()), "\"batch_norm\" not implemented for '",
                              input.scalar_type(), "'");
  TORCH_CHECK(input.dim() >= 2, "Expected at least 2 input dimensions, but got ", input.dim());
  for (const Optional* each : {&weight, &bias, &running_mean, &running_var}) {
    if (!*each || !(*each)->defined()) continue;
    TORCH_CHECK(((*each)->scalar_type() == at::kDouble) == (input.scalar_type() == at::kDouble),
                "batch_norm: mixed dtypes: the input is ", input.scalar_type(), ", but a factor or statistic is ",
                (*each)->scalar_type());
  }
  // One a channel outside training too, where nothing is written to them: so PyTorch expects of every device but the CPU.
  const int64_t channels = input.size(1);
  const auto format = input.suggest_memory_format();
  auto out = input.is_contiguous(format) ? make(like(input)) : at::empty_like(input, format);
  auto mean = empty_like_with(input, {channels}, stats_type(input));
  auto invstd = empty_like_with(input, {channels}, stats_type(input));
  forward(input, weight, bias, running_mean, running_var, training, momentum, eps, out, mean, invstd);
  return {out, mean, invstd};
}

}  // namespace

Three native_batch_norm(const at::Tensor& input, const Optional& weight, const Optional& bias, const Optional& running_mean,
                        const Optional& running_var, bool training, double momentum, double eps) {
  return normalize(input, weight, bias, running_mean, running_var, training, momentum, eps);
}

std::tuple<at::Tensor&, at::Tensor&, at::Tensor&> native_batch_norm_out(const at::Tensor& input, const Optional& weight,
                                                                        const Optional& bias, const Optional& running_mean,
                                                                        const Optional& running_var, bool training,
                                                                        double momentum, double eps, at::Tensor& out,
                                                                        at::Tensor& save_mean, at::Tensor& save_invstd) {
  // Statistics of half precision are float32 here; the caller's tensors may be half, as the CPU's are.
  const auto [value, mean, invstd] = normalize(input, weight, bias, running_mean, running_var, training, momentum, eps);
  give(out, value);
  give(save_mean, mean);
  give(save_invstd, invstd);
  return {out, save_mean, save_invstd};
}

Three _native_batch_norm_legit(const at::Tensor& input, const Optional& weight, const Optional& bias, at::Tensor& running_mean,
                               at::Tensor& running_var, bool training, double momentum, double eps) {
  return normalize(input, weight, bias, running_mean, running_var, training, momentum, eps);
}

std::tuple<at::Tensor&, at::Tensor&, at::Tensor&> _native_batch_norm_legit_out(const at::Tensor& input, const Optional& weight,
                                                                               const Optional& bias, at::Tensor& running_mean,
                                                                               at::Tensor& running_var, bool training,
                                                                               double momentum, double eps, at::Tensor& out,
                                                                               at::Tensor& save_mean, at::Tensor& save_invstd) {
  return native_batch_norm_out(input, weight, bias, running_mean, running_var, training, momentum, eps, out, save_mean,
                               save_invstd);
}

Three _native_batch_norm_legit_no_stats(const at::Tensor& input, const Optional& weight, const Optional& bias, bool training,
                                        double momentum, double eps) {
  return normalize(input, weight, bias, std::nullopt, std::nullopt, training, momentum, eps);
}

std::tuple<at::Tensor&, at::Tensor&, at::Tensor&> _native_batch_norm_legit_no_stats_out(
    const at::Tensor& input, const Optional& weight, const Optional& bias, bool training, double momentum, double eps,
    at::Tensor& out, at::Tensor& save_mean, at::Tensor& save_invstd) {
  return native_batch_norm_out(input, weight, bias, std::nullopt, std::nullopt, training, momentum, eps, out, save_mean,
                               save_invstd);
}

// The reserve is cuDNN's; there is nothing to keep in it here.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> _batch_norm_with_update(const at::Tensor& input,
                                                                                   const Optional& weight, const Optional& bias,
                                                                                   at::Tensor& running_mean,
                                                                                   at::Tensor& running_var, double momentum,
                                                                                   double eps) {
  auto [out, mean, invstd] = normalize(input, weight, bias, running_mean, running_var, true, momentum, eps);
  return {out, mean, invstd, empty_like_with(input, {0}, at::kByte)};
}

std::tuple<at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&> _batch_norm_with_update_out(
    const at::Tensor& input, const Optional& weight, const Optional& bias, at::Tensor& running_mean, at::Tensor& running_var,
    double momentum, double eps, at::Tensor& out, at::Tensor& save_mean, at::Tensor& save_invstd, at::Tensor& reserve) {
  native_batch_norm_out(input, weight, bias, running_mean, running_var, true, momentum, eps, out, save_mean, save_invstd);
  return {out, save_mean, save_invstd, reserve};
}

Three native_batch_norm_backward(const at::Tensor& grad_out, const at::Tensor& input, const Optional& weight,
                                 const Optional& running_mean, const Optional& running_var, const Optional& save_mean,
                                 const Optional& save_invstd, bool train, double eps, std::array<bool, 3> output_mask) {
  auto grad_input = like_if(output_mask[0], input);
  auto grad_weight = batch_norm_gradient(output_mask[1], input, weight);
  auto grad_bias = batch_norm_gradient(output_mask[2], input, weight);
  Optional saved = save_invstd;
  if (train && saves_variance() && saved && saved->defined()) {
    saved = saved->to(at::kDouble).pow(-2).sub_(eps).to(saved->scalar_type());
  }
  op::run(aclnnBatchNormBackward, grad_out, input, weight, running_mean, running_var, save_mean, saved, train, eps, output_mask,
          grad_input, grad_weight, grad_bias);
  return {grad_input, grad_weight, grad_bias};
}

Three batch_norm_backward(const at::Tensor& grad_out, const at::Tensor& input, const at::Tensor& weight,
                          const Optional& running_mean, const Optional& running_var, const Optional& save_mean,
                          const Optional& save_var, bool update, double eps, std::array<bool, 3> output_mask, const at::Tensor&) {
  return native::native_batch_norm_backward(grad_out, input, weight, running_mean, running_var, save_mean, save_var, update, eps,
                                            output_mask);
}

std::tuple<at::Tensor, at::Tensor> batch_norm_update_stats(const at::Tensor& input, const Optional& running_mean,
                                                           const Optional& running_var, double momentum) {
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < input.dim(); ++d) {
    if (d != 1) dims.push_back(d);
  }
  const auto [variance, mean] = at::var_mean(widened(input), dims, /*correction=*/at::Scalar(0));
  const auto count = static_cast<double>(input.numel()) / static_cast<double>(std::max<int64_t>(input.size(1), 1));
  if (running_mean && running_mean->defined()) result(*running_mean).lerp_(mean.to(running_mean->scalar_type()), momentum);
  if (running_var && running_var->defined()) {
    result(*running_var).lerp_(variance.mul(count / (count - 1)).to(running_var->scalar_type()), momentum);
  }
  return {mean, variance};
}

std::tuple<at::Tensor, at::Tensor> batch_norm_gather_stats(const at::Tensor& input, const at::Tensor& mean,
                                                           const at::Tensor& invstd, const Optional& running_mean,
                                                           const Optional& running_var, double momentum, double eps,
                                                           int64_t count) {
  const auto counts = at::full({mean.size(0)}, count, mean.options());
  return at::batch_norm_gather_stats_with_counts(input, mean, invstd, running_mean, running_var, momentum, eps, counts);
}

}  // namespace torch_npu::native
