// Gradient of the fused addition and layer norm.
#include "aten/custom/shapes.h"
#include "aten/factory.h"
#include "generated/torch_npu_custom_functions.h"
#include "op/launch.h"

#include <ATen/ops/zeros.h>

namespace torch_npu::native {

NPU_OPERATOR(aclnnAddLayerNormGrad);

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> npu_add_layer_norm_backward(
    const std::optional<at::Tensor>& dy_opt, const at::Tensor& x1, const at::Tensor& x2, const at::Tensor& rstd,
    const at::Tensor& mean, const at::Tensor& gamma, const std::optional<at::Tensor>& dsum_opt) {
  const auto dy = dy_opt && dy_opt->defined() ? *dy_opt : at::zeros(x1.sizes(), x1.options());
  auto dx = empty_like_with(x1, x1.sizes());
  auto dgamma = empty_like_with(gamma, gamma.sizes(), at::kFloat), dbeta = empty_like_with(gamma, gamma.sizes(), at::kFloat);
  op::run(aclnnAddLayerNormGrad, dy, x1, x2, rstd, mean, gamma, dsum_opt, dx, dgamma, dbeta);
  return {dx, dx.to(x2.scalar_type(), /*non_blocking=*/false, /*copy=*/true), dgamma, dbeta};  // results share no memory
}

}  // namespace torch_npu::native
