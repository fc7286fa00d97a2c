// Cells of recurrent networks. PyTorch gives PrivateUse1 its fused cells; CANN has one for LSTM only.
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>

#include "generated/torch_npu_native_functions.h"

namespace torch_npu::native {
namespace {

at::Tensor with_bias(const at::Tensor& gates, const std::optional<at::Tensor>& bias) {
  return bias && bias->defined() ? gates.add(*bias) : gates;
}

}  // namespace

// reset r, update z, new n: hy = n + z * (hx - n), n = tanh(input_n + r * hidden_n).
// The workspace keeps what the gradient needs, side by side: r, z, n, hx and hidden_n.
std::tuple<at::Tensor, at::Tensor> _thnn_fused_gru_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                                                        const at::Tensor& hx, const std::optional<at::Tensor>& input_bias,
                                                        const std::optional<at::Tensor>& hidden_bias) {
  const auto input = with_bias(input_gates, input_bias).chunk(3, 1);
  const auto hidden = with_bias(hidden_gates, hidden_bias).chunk(3, 1);
  const auto reset = input[0].add(hidden[0]).sigmoid_(), update = input[1].add(hidden[1]).sigmoid_();
  const auto fresh = input[2].addcmul(reset, hidden[2]).tanh_();
  return {fresh.addcmul(update, hx.sub(fresh)), at::cat({reset, update, fresh, hx, hidden[2]}, 1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> _thnn_fused_gru_cell_backward(const at::Tensor& grad_hy,
                                                                                                     const at::Tensor& workspace,
                                                                                                     bool has_bias) {
  const auto saved = workspace.chunk(5, 1);
  const auto &reset = saved[0], &update = saved[1], &fresh = saved[2], &hx = saved[3], &hidden_fresh = saved[4];
  const auto one_minus = [](const at::Tensor& value) { return value.mul(-1).add_(1); };
  const auto grad_fresh = grad_hy.mul(one_minus(update)).mul_(one_minus(fresh.mul(fresh)));
  const auto grad_update = grad_hy.mul(hx.sub(fresh)).mul_(update).mul_(one_minus(update));
  const auto grad_reset = grad_fresh.mul(hidden_fresh).mul_(reset).mul_(one_minus(reset));
  const auto grad_input = at::cat({grad_reset, grad_update, grad_fresh}, 1);
  const auto grad_hidden = at::cat({grad_reset, grad_update, grad_fresh.mul(reset)}, 1);
  return {grad_input, grad_hidden, grad_hy.mul(update), has_bias ? grad_input.sum(0) : at::Tensor(),
          has_bias ? grad_hidden.sum(0) : at::Tensor()};
}

}  // namespace torch_npu::native
