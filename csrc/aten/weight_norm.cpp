// A weight as a direction and its length.
#include <ATen/Functions.h>

#include "aten/compose.h"
#include "generated/torch_npu_native_functions.h"

namespace torch_npu::native {

std::tuple<at::Tensor, at::Tensor> _weight_norm_interface(const at::Tensor& v, const at::Tensor& g, int64_t dim) {
  const auto norm = at::norm_except_dim(widened(v), 2, dim);
  return {v.mul(g.div(norm)).to(v.scalar_type()), norm};
}
std::tuple<at::Tensor, at::Tensor> _weight_norm_interface_backward(const at::Tensor& grad_w, const at::Tensor& v,
                                                                   const at::Tensor& g, const at::Tensor& norms, int64_t dim) {
  return at::_weight_norm_differentiable_backward(grad_w, v, g, norms, dim);
}

}  // namespace torch_npu::native
