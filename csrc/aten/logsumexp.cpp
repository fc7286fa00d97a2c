// Logarithms of sums of exponentials, along a dimension or running.
#include <ATen/WrapDimUtils.h>
#include <ATen/Functions.h>
#include <ATen/ops/logsumexp_compositeexplicitautograd_dispatch.h>

#include "aten/argument_checks.h"
#include "aten/compose.h"
#include "generated/torch_npu_native_functions.h"
#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnLogSumExp);

at::Tensor logsumexp(const at::Tensor& self, at::IntArrayRef dim, bool keepdim) {
  const auto type = self.scalar_type();
  const bool served = type == at::kFloat || type == at::kHalf || type == at::kBFloat16;
  if (!served || self.numel() == 0) return at::compositeexplicitautograd::logsumexp(self, dim, keepdim);
  auto out = make(reduced(self, dim, keepdim));
  const auto dims = dims_or_all(self, dim);
  op::run(aclnnLogSumExp, self, at::IntArrayRef(dims), keepdim, out);
  return out;
}

// Doubling steps: after step k each element holds the sum of 2^k before it.
at::Tensor _logcumsumexp(const at::Tensor& self, int64_t dim) {
  TORCH_CHECK_NOT_IMPLEMENTED(!at::isIntegralType(self.scalar_type(), true), "\"logcumsumexp\" not implemented for '",
                              self.scalar_type(), "'");
  dim = at::maybe_wrap_dim(dim, self.dim());
  auto sum = widened(self).clone();
  if (self.dim() == 0 || self.numel() == 0) return cast(sum, self.scalar_type());
  const auto n = self.size(dim);
  // The imaginary part counts the turns that the sums make on their way, so the way has to be the CPU's.
  if (sum.is_complex()) {
    auto sums = sum.split(1, dim);
    for (size_t i = 1; i < sums.size(); ++i) sums[i] = at::logaddexp(sums[i - 1], sums[i]);
    return cast(at::cat(sums, dim), self.scalar_type());
  }
  for (int64_t step = 1; step < n; step *= 2) {
    const auto rest = at::logaddexp(sum.narrow(dim, step, n - step), sum.narrow(dim, 0, n - step));
    sum = at::cat({sum.narrow(dim, 0, step), rest}, dim);
  }
  return cast(sum, self.scalar_type());
}
at::Tensor& _logcumsumexp_out(const at::Tensor& self, int64_t dim, at::Tensor& out) {
  check_apart(out, {self});
  return give(out, native::_logcumsumexp(self, dim));
}

}  // namespace torch_npu::native
