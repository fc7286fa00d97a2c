// Activations' forward derivatives, weight norm, checks: what torch has kernels of for CPU and CUDA, made of others.
#include <ATen/ops/_weight_norm_differentiable_backward.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/norm_except_dim.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/unique_consecutive.h>
#include <ATen/ops/var_mean.h>

#include "aten/compose.h"
#include "generated/torch_npu_native_functions.h"

namespace torch_npu::native {
namespace {

using Optional = std::optional<at::Tensor>;

// x is [a, b] along dim, and glu is a * sigmoid(b).
std::pair<at::Tensor, at::Tensor> halves(const at::Tensor& x, int64_t dim) {
  const auto size = x.size(dim) / 2;
  return {x.narrow(dim, 0, size), x.narrow(dim, size, size)};
}

}  // namespace

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

void addmm_activation_kernel(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                             const at::Scalar& alpha, bool use_gelu, const at::Tensor& out) {
  const auto sum = at::addmm(self, mat1, mat2, beta, alpha);
  result(out).copy_(use_gelu ? at::gelu(sum) : sum.relu());
}

std::tuple<at::Tensor, at::Tensor> _weight_norm_interface(const at::Tensor& v, const at::Tensor& g, int64_t dim) {
  const auto norm = at::norm_except_dim(widened(v), 2, dim);
  return {v.mul(g.div(norm)).to(v.scalar_type()), norm};
}
std::tuple<at::Tensor, at::Tensor> _weight_norm_interface_backward(const at::Tensor& grad_w, const at::Tensor& v,
                                                                   const at::Tensor& g, const at::Tensor& norms, int64_t dim) {
  return at::_weight_norm_differentiable_backward(grad_w, v, g, norms, dim);
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

at::Tensor bucketize_scalar(const at::Scalar& self, const at::Tensor& boundaries, bool out_int32, bool right) {
  return at::bucketize(at::scalar_tensor(self, boundaries.options()), boundaries, out_int32, right);
}
at::Tensor& searchsorted_scalar_out(const at::Tensor& sorted_sequence, const at::Scalar& self, bool out_int32, bool right,
                                    std::optional<std::string_view> side, const Optional& sorter, at::Tensor& out) {
  return give(out, at::searchsorted(sorted_sequence, self, out_int32, right, side, sorter));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> unique_dim_consecutive(const at::Tensor& self, int64_t dim, bool return_inverse,
                                                                      bool return_counts) {
  return at::unique_consecutive(self, return_inverse, return_counts, dim);
}

at::Tensor _functional_assert_async_msg(const at::Tensor& self, std::string_view message, const at::Tensor& token) {
  native::_assert_async_msg(self, message);
  return token.clone();
}
at::Tensor _make_dep_token(std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                           std::optional<at::Device> device, std::optional<bool> pin_memory,
                           std::optional<at::MemoryFormat> memory_format) {
  return at::empty({}, dtype, layout, device, pin_memory, memory_format);
}

}  // namespace torch_npu::native
