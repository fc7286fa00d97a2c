// A weight as a direction and its length.
#include <ATen/Functions.h>

#include "aten/compose.h"
#include "generated/torch_npu_native_functions.h"

namespace torch_npu::native {

// The lengths may come without the dimensions of size 1; so do the norms and their gradient then.
std::tuple<at::Tensor, at::Tensor> _weight_norm_interface(const at::Tensor& v, const at::Tensor& g, int64_t dim) {
  const auto norm = at::norm_except_dim(widened(v), 2, dim);
  return {v.mul(g.reshape(norm.sizes()).div(norm)).to(v.scalar_type()), norm.view(g.sizes())};
}
std::tuple<at::Tensor, at::Tensor> _weight_norm_interface_backward(const at::Tensor& grad_w, const at::Tensor& v,
                                                                   const at::Tensor& g, const at::Tensor& norms, int64_t dim) {
  at::DimVector sizes(v.dim(), 1);
  if (dim != -1) sizes[dim] = v.size(dim);
  auto [grad_v, grad_g] = at::_weight_norm_differentiable_backward(grad_w, v, g.reshape(sizes), norms.reshape(sizes), dim);
  return {std::move(grad_v), grad_g.reshape(g.sizes())};
}

}  // namespace torch_npu::native
