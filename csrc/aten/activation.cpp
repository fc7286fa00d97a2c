// Activations: PReLU, and glu's forward derivatives.
#include <ATen/Functions.h>

#include "generated/torch_npu_native_functions.h"
#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnPrelu);

namespace {

// CANN's operator has one weight for all elements or one for each channel.
bool weighs_channels(const at::Tensor& self, const at::Tensor& weight) {
  if (weight.dim() > self.dim()) return false;
  if (weight.numel() == 1) return true;
  if (self.dim() < 2 || weight.dim() != self.dim() || weight.size(1) != self.size(1)) return false;
  return weight.numel() == weight.size(1);
}

// x is [a, b] along dim, and glu is a * sigmoid(b).
std::pair<at::Tensor, at::Tensor> halves(const at::Tensor& x, int64_t dim) {
  const auto size = x.size(dim) / 2;
  return {x.narrow(dim, 0, size), x.narrow(dim, size, size)};
}

}  // namespace

at::Tensor _prelu_kernel(const at::Tensor& self, const at::Tensor& weight) {
  if (!weighs_channels(self, weight)) return at::where(self.gt(0), self, self.mul(weight));
  auto out = at::empty_like(self);
  if (out.numel() != 0) op::run(aclnnPrelu, self, weight, out);
  return out;
}

std::tuple<at::Tensor, at::Tensor> _prelu_kernel_backward(const at::Tensor& grad_output, const at::Tensor& self,
                                                          const at::Tensor& weight) {
  const auto positive = self.gt(0);
  return {at::where(positive, grad_output, grad_output.mul(weight)), at::where(positive, 0, grad_output.mul(self))};
}

at::Tensor glu_jvp(const at::Tensor& glu, const at::Tensor& x, const at::Tensor& dx, int64_t dim) {
  const auto gate = halves(x, dim).second.sigmoid();
  const auto [da, db] = halves(dx, dim);
  return da.mul(gate).add_(glu.mul(gate.neg().add_(1)).mul_(db));
}

at::Tensor glu_backward_jvp(const at::Tensor&, const at::Tensor& grad_glu, const at::Tensor& x, const at::Tensor& dgrad_glu,
                            const at::Tensor& dx, int64_t dim) {
  const auto [a, b] = halves(x, dim);
  const auto [da, db] = halves(dx, dim);
  const auto gate = b.sigmoid(), rest = gate.neg().add_(1), dgate = gate.mul(rest).mul_(db);
  const auto by_a = grad_glu.mul(gate);
  const auto dby_a = dgrad_glu.mul(gate).add_(grad_glu.mul(dgate));
  const auto dby_b = dby_a.mul(a).add_(by_a.mul(da)).mul_(rest).sub_(by_a.mul(a).mul_(dgate));
  return at::cat({dby_a, dby_b}, dim);
}

}  // namespace torch_npu::native
