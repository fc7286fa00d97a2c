// Steps of optimizers with the caller's moments. CANN takes the numbers from tensors of one element.
#include <ATen/core/Tensor.h>

#include <initializer_list>

#include "aten/shape_rules.h"
#include "generated/torch_npu_custom_functions.h"
#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnApplyAdam);
NPU_OPERATOR(aclnnApplyAdamW);

namespace {

// Each is read out of [i] of the result.
std::vector<at::Tensor> on_device(std::initializer_list<at::Scalar> numbers, const at::Tensor& like) {
  return numbers_on(like.device(), like.scalar_type() == at::kDouble ? at::kDouble : at::kFloat, numbers).split(1);
}

// What a step writes: the parameter and its moments.
struct Written {
  const at::Tensor &var, &m, &v;
  Written(const char* name, const at::Tensor& grad, at::TensorList out) : var(three(name, out)[0]), m(out[1]), v(out[2]) {
    for (const auto& each : out) {
      TORCH_CHECK(each.sizes() == grad.sizes(), name, ": var, m and v have the gradient's shape, ", grad.sizes(),
                  ", but one has ", each.sizes());
    }
  }
  static at::TensorList three(const char* name, at::TensorList out) {
    TORCH_CHECK_TYPE(out.size() == 3, name, ": out is (var, m, v), but got ", out.size(), " tensors");
    return out;
  }
  std::tuple<at::Tensor, at::Tensor, at::Tensor> results() const { return {var, m, v}; }
};

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor> npu_apply_adam_out(const at::Scalar& beta1_power, const at::Scalar& beta2_power,
                                                                  const at::Scalar& lr, const at::Scalar& beta1,
                                                                  const at::Scalar& beta2, const at::Scalar& epsilon,
                                                                  const at::Tensor& grad, std::optional<bool>,
                                                                  std::optional<bool> use_nesterov, at::TensorList out) {
  const Written to("npu_apply_adam", grad, out);
  const auto numbers = on_device({beta1_power, beta2_power, lr, beta1, beta2, epsilon}, to.var);
  op::run(aclnnApplyAdam, to.var, to.m, to.v, numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], grad, false,
          use_nesterov.value_or(false));
  return to.results();
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> npu_apply_adam_w_out(const at::Scalar& beta1_power, const at::Scalar& beta2_power,
                                                                    const at::Scalar& lr, const at::Scalar& weight_decay,
                                                                    const at::Scalar& beta1, const at::Scalar& beta2,
                                                                    const at::Scalar& epsilon, const at::Tensor& grad,
                                                                    const std::optional<at::Tensor>& max_grad_norm,
                                                                    std::optional<bool> amsgrad, std::optional<bool> maximize,
                                                                    at::TensorList out) {
  const Written to("npu_apply_adam_w", grad, out);
  TORCH_CHECK(!amsgrad.value_or(false) || (max_grad_norm && max_grad_norm->defined()),
              "npu_apply_adam_w: amsgrad needs max_grad_norm, the greatest second moment so far");
  const auto numbers = on_device({beta1_power, beta2_power, lr, weight_decay, beta1, beta2, epsilon}, to.var);
  op::run(aclnnApplyAdamW, to.var, to.m, to.v, numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], numbers[6],
          grad, max_grad_norm, amsgrad.value_or(false), maximize.value_or(false));
  return to.results();
}

}  // namespace torch_npu::native
