// Optimizer steps that CANN lacks in PyTorch's form.
#include <ATen/core/Tensor.h>
#include <ATen/Functions.h>

#include "aten/compose.h"
#include "aten/factory.h"
#include "generated/torch_npu_native_functions.h"
#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnFusedSgd);
NPU_OPERATOR(aclnnSWhere);

namespace {

std::vector<at::Tensor> copies(at::TensorList tensors) {
  std::vector<at::Tensor> result;
  result.reserve(tensors.size());
  for (const auto& tensor : tensors) result.push_back(at::empty_like(tensor));
  if (!result.empty()) at::_foreach_copy_(result, tensors);
  return result;
}

// Takes the step back where `skip` is true; the host does not learn whether it is.
void restore_if(const at::Tensor& skip, at::TensorList tensors, const std::vector<at::Tensor>& before) {
  for (size_t i = 0; i < tensors.size(); ++i) op::run(aclnnSWhere, skip, before[i], tensors[i], tensors[i]);
}

// In the dtype it is computed in; those that have it already stay themselves.
std::vector<at::Tensor> widened_all(at::TensorList tensors) {
  std::vector<at::Tensor> result;
  result.reserve(tensors.size());
  for (const auto& tensor : tensors) result.push_back(native::widened(tensor));
  return result;
}

}  // namespace

// aclnnFusedSgd does not know found_inf. A step that turns out to be left out is taken back on the device, which costs
// copies but no waiting. Momentum that would have begun with such a step begins with 0.
void _fused_sgd_(at::TensorList self, at::TensorList grads, at::TensorList momentum_buffers, double weight_decay, double momentum,
                 double lr, double dampening, bool nesterov, bool maximize, bool is_first_step,
                 const std::optional<at::Tensor>& grad_scale, const std::optional<at::Tensor>& found_inf) {
  TORCH_CHECK(grads.size() == self.size() && (momentum == 0 || momentum_buffers.size() == self.size()), "_fused_sgd_ got ",
              self.size(), " parameters, ", grads.size(), " gradients and ", momentum_buffers.size(), " momentum buffers");
  const bool may_skip = found_inf && found_inf->defined();
  std::vector<at::Tensor> params_before, buffers_before;
  if (may_skip) {
    TORCH_CHECK(self.empty() || found_inf->device() == self[0].device(), "found_inf is on ", found_inf->device(),
                ", but the parameters are on ", self[0].device());
    if (is_first_step && !momentum_buffers.empty()) at::_foreach_zero_(momentum_buffers);
    params_before = copies(self);
    buffers_before = copies(momentum_buffers);
  }
  op::run(aclnnFusedSgd, self, grads, momentum_buffers, grad_scale, weight_decay, momentum, lr, dampening, nesterov, maximize,
          is_first_step);
  if (!may_skip) return;
  const auto skip = found_inf->ne(0);
  restore_if(skip, self, params_before);
  restore_if(skip, momentum_buffers, buffers_before);
}

// As torch's: the squares of all gradients so far divide the step, whose rate falls with the steps made. The steps are
// counted on the device, and the host learns neither them nor whether the step is left out.
void _fused_adagrad_(at::TensorList self, at::TensorList grads, at::TensorList state_sums, at::TensorList state_steps, double lr,
                     double lr_decay, double weight_decay, double eps, bool maximize, const std::optional<at::Tensor>& grad_scale,
                     const std::optional<at::Tensor>& found_inf) {
  TORCH_CHECK(grads.size() == self.size() && state_sums.size() == self.size() && state_steps.size() == self.size(),
              "_fused_adagrad_ got ", self.size(), " parameters, ", grads.size(), " gradients, ", state_sums.size(), " sums and ",
              state_steps.size(), " steps");
  if (self.empty()) return;
  const bool may_skip = found_inf && found_inf->defined();
  std::vector<at::Tensor> params_before, sums_before;
  if (may_skip) {
    TORCH_CHECK(found_inf->device() == self[0].device(), "found_inf is on ", found_inf->device(), ", but the parameters are on ",
                self[0].device());
    params_before = copies(self);
    sums_before = copies(state_sums);
  }
  if (grad_scale && grad_scale->defined()) at::_foreach_div_(grads, grad_scale->reshape({}));
  const auto params = widened_all(self), sums = widened_all(state_sums);
  auto directions = widened_all(grads);
  if (maximize) directions = at::_foreach_neg(directions);
  if (weight_decay != 0) directions = at::_foreach_add(directions, params, weight_decay);
  at::_foreach_addcmul_(sums, directions, directions, 1);
  const auto roots = at::_foreach_sqrt(sums);
  at::_foreach_add_(roots, eps);
  if (lr_decay == 0) {
    at::_foreach_addcdiv_(params, directions, roots, -lr);
  } else {
    const auto slowness = at::_foreach_sub(state_steps, 1);
    at::_foreach_mul_(slowness, lr_decay);
    at::_foreach_add_(slowness, 1);
    at::_foreach_addcdiv_(params, at::_foreach_div(directions, slowness), roots, -lr);
  }
  if (!params[0].is_same(self[0])) at::_foreach_copy_(self, params);
  if (!sums[0].is_same(state_sums[0])) at::_foreach_copy_(state_sums, sums);
  if (!may_skip) return;
  const auto skip = found_inf->ne(0);
  restore_if(skip, self, params_before);
  restore_if(skip, state_sums, sums_before);
}

void _fused_adagrad_tensor_lr(at::TensorList self, at::TensorList grads, at::TensorList state_sums, at::TensorList state_steps,
                              const at::Tensor& lr, double lr_decay, double weight_decay, double eps, bool maximize,
                              const std::optional<at::Tensor>& grad_scale, const std::optional<at::Tensor>& found_inf) {
  native::_fused_adagrad_(self, grads, state_sums, state_steps, lr.item<double>(), lr_decay, weight_decay, eps, maximize,
                          grad_scale, found_inf);
}

void _fused_sgd_tensor_lr(at::TensorList self, at::TensorList grads, at::TensorList momentum_buffers, double weight_decay,
                          double momentum, const at::Tensor& lr, double dampening, bool nesterov, bool maximize,
                          bool is_first_step, const std::optional<at::Tensor>& grad_scale,
                          const std::optional<at::Tensor>& found_inf) {
  native::_fused_sgd_(self, grads, momentum_buffers, weight_decay, momentum, lr.item<double>(), dampening, nesterov, maximize,
                      is_first_step, grad_scale, found_inf);
}

}  // namespace torch_npu::native
