// Steps of optimizers with the caller's moments. CANN takes the numbers from tensors of one element.
#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>

#include <initializer_list>

#include "generated/torch_npu_custom_functions.h"
#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnApplyAdam);
NPU_OPERATOR(aclnnApplyAdamW);

namespace {

// All numbers travel to the device in one copy. Each is read out of [i] of the result.
std::vector<at::Tensor> on_device(std::initializer_list<at::Scalar> numbers, const at::Tensor& like) {
  std::vector<double> values;
  for (const auto& number : numbers) values.push_back(number.toDouble());
  const auto dtype = like.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return at::tensor(values, at::dtype(dtype)).to(like.device()).split(1);
}

void check_alike(const char* name, const at::Tensor& grad, const at::Tensor& var, const at::Tensor& m, const at::Tensor& v) {
  for (const auto* each : {&var, &m, &v}) {
    TORCH_CHECK(each->sizes() == grad.sizes(), name, ": var, m and v have the gradient's shape, ", grad.sizes(), ", but one has ",
                each->sizes());
  }
}

}  // namespace

std::tuple<at::Tensor&, at::Tensor&, at::Tensor&> npu_apply_adam_out(const at::Scalar& beta1_power, const at::Scalar& beta2_power,
                                                                     const at::Scalar& lr, const at::Scalar& beta1,
                                                                     const at::Scalar& beta2, const at::Scalar& epsilon,
                                                                     const at::Tensor& grad, std::optional<bool>,
                                                                     std::optional<bool> use_nesterov, at::Tensor& var,
                                                                     at::Tensor& m, at::Tensor& v) {
  check_alike("npu_apply_adam", grad, var, m, v);
  const auto numbers = on_device({beta1_power, beta2_power, lr, beta1, beta2, epsilon}, var);
  op::run(aclnnApplyAdam, var, m, v, numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], grad, false,
          use_nesterov.value_or(false));
  return {var, m, v};
}

std::tuple<at::Tensor&, at::Tensor&, at::Tensor&> npu_apply_adam_w_out(
    const at::Scalar& beta1_power, const at::Scalar& beta2_power, const at::Scalar& lr, const at::Scalar& weight_decay,
    const at::Scalar& beta1, const at::Scalar& beta2, const at::Scalar& epsilon, const at::Tensor& grad,
    const std::optional<at::Tensor>& max_grad_norm, std::optional<bool> amsgrad, std::optional<bool> maximize, at::Tensor& var,
    at::Tensor& m, at::Tensor& v) {
  check_alike("npu_apply_adam_w", grad, var, m, v);
  TORCH_CHECK(!amsgrad.value_or(false) || (max_grad_norm && max_grad_norm->defined()),
              "npu_apply_adam_w: amsgrad needs max_grad_norm, the greatest second moment so far");
  const auto numbers = on_device({beta1_power, beta2_power, lr, weight_decay, beta1, beta2, epsilon}, var);
  op::run(aclnnApplyAdamW, var, m, v, numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], numbers[6], grad,
          max_grad_norm, amsgrad.value_or(false), maximize.value_or(false));
  return {var, m, v};
}

}  // namespace torch_npu::native
