// Variance and standard deviation. CANN's correction is a whole number; torch's may be any, which scales the variance.
#include <cmath>

#include "aten/compose.h"
#include "generated/torch_npu_native_functions.h"
#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnStd);
NPU_OPERATOR(aclnnStdMeanCorrection);
NPU_OPERATOR(aclnnVarCorrection);
NPU_OPERATOR(aclnnVarMean);

namespace {

using Dims = at::OptionalIntArrayRef;
using Correction = std::optional<at::Scalar>;

// What CANN is to subtract, and the factor that remains: n / (n - correction) where that is no whole number.
struct Divisor {
  int64_t whole;
  double factor;
};
Divisor divisor(const at::Tensor& self, at::IntArrayRef dims, const Correction& correction) {
  const double wanted = correction ? correction->toDouble() : 1;
  if (wanted == std::floor(wanted)) return {static_cast<int64_t>(wanted), 1};
  double elements = 1;
  for (const auto dim : dims) elements *= static_cast<double>(self.dim() == 0 ? 1 : self.size(dim));
  return {0, elements / std::max(elements - wanted, 0.0)};
}

// torch's own words.
void warn_without_freedom(const char* name, const at::Tensor& self, const at::Tensor& out, const Correction& correction) {
  const int64_t elements = out.numel() ? self.numel() / out.numel() : 0;
  if (C10_LIKELY(static_cast<double>(elements) > (correction ? correction->toDouble() : 1))) return;
  TORCH_WARN(name,
             "(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor "
             "(input numel divided by output numel).");
}

template <class Operator>
void spread(const Operator& op, const at::Tensor& self, Dims dim, const Correction& correction, bool keepdim, bool root,
            const at::Tensor& out) {
  warn_without_freedom(root ? "std" : "var", self, out, correction);
  const auto dims = dims_or_all(self, dim);
  const auto [whole, factor] = divisor(self, dims, correction);
  op::run(op, self, at::IntArrayRef(dims), whole, keepdim, out);
  if (factor != 1) result(out).mul_(root ? std::sqrt(factor) : factor);
}

template <class Operator>
std::tuple<at::Tensor, at::Tensor> spread_and_mean(const Operator& op, const at::Tensor& self, Dims dim,
                                                   const Correction& correction, bool keepdim, bool root) {
  auto out = make(reduced(self, dim, keepdim, variance_type(self))), mean = make(reduced(self, dim, keepdim));
  warn_without_freedom(root ? "std_mean" : "var_mean", self, out, correction);
  const auto dims = dims_or_all(self, dim);
  const auto [whole, factor] = divisor(self, dims, correction);
  op::run(op, self, at::IntArrayRef(dims), whole, keepdim, out, mean);
  if (factor != 1) out.mul_(root ? std::sqrt(factor) : factor);
  return {out, mean};
}

}  // namespace

at::Tensor var_correction(const at::Tensor& self, Dims dim, const Correction& correction, bool keepdim) {
  auto out = make(reduced(self, dim, keepdim, variance_type(self)));
  spread(aclnnVarCorrection, self, dim, correction, keepdim, false, out);
  return out;
}
at::Tensor& var_correction_out(const at::Tensor& self, Dims dim, const Correction& correction, bool keepdim, at::Tensor& out) {
  CastOutput result(out, reduced(self, dim, keepdim, variance_type(self)));
  spread(aclnnVarCorrection, self, dim, correction, keepdim, false, result.value());
  return result.give();
}
at::Tensor std_correction(const at::Tensor& self, Dims dim, const Correction& correction, bool keepdim) {
  auto out = make(reduced(self, dim, keepdim, variance_type(self)));
  spread(aclnnStd, self, dim, correction, keepdim, true, out);
  return out;
}
at::Tensor& std_correction_out(const at::Tensor& self, Dims dim, const Correction& correction, bool keepdim, at::Tensor& out) {
  CastOutput result(out, reduced(self, dim, keepdim, variance_type(self)));
  spread(aclnnStd, self, dim, correction, keepdim, true, result.value());
  return result.give();
}
std::tuple<at::Tensor, at::Tensor> var_mean_correction(const at::Tensor& self, Dims dim, const Correction& correction,
                                                       bool keepdim) {
  return spread_and_mean(aclnnVarMean, self, dim, correction, keepdim, false);
}
std::tuple<at::Tensor, at::Tensor> std_mean_correction(const at::Tensor& self, Dims dim, const Correction& correction,
                                                       bool keepdim) {
  return spread_and_mean(aclnnStdMeanCorrection, self, dim, correction, keepdim, true);
}

}  // namespace torch_npu::native
