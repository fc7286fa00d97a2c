// Group normalization.
#include <limits>
#include <ATen/native/group_norm.h>

#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/quantize.h"

using namespace softcann::op;

namespace {

void group_norm_into(at::Tensor& out, at::Tensor& mean, at::Tensor& rstd, const at::Tensor& x, const at::Tensor& gamma,
                     const at::Tensor& beta, int64_t N, int64_t C, int64_t HxW, int64_t group, double eps) {
  TORCH_CHECK(group > 0 && C % group == 0, "group norm: ", C, " channels in ", group, " groups");
  for (const at::Tensor* scale : {&gamma, &beta}) {
    TORCH_CHECK(!given(*scale) || scale->numel() == C, "group norm: ", scale->sizes(), " for ", C, " channels");
  }
  TORCH_CHECK(out.numel() == x.numel(), "group norm: a result of ", out.sizes(), " for ", x.sizes());
  if (x.numel() == 0) {  // the statistics of no elements, as ATen has them
    mean.zero_();
    rstd.fill_(std::numeric_limits<double>::quiet_NaN());
    return;
  }
  PlainResult result(out), mean_result(mean, N * group, true), rstd_result(rstd, N * group, true);
  at::native::GroupNormKernel(at::kCPU, plain(x), plain(gamma), plain(beta), N, C, HxW, group, eps, result.value(),
                              mean_result.value(), rstd_result.value());
  result.finish();
  mean_result.finish();
  rstd_result.finish();
}
int64_t plane(const at::Tensor& x) { return x.numel() / std::max<int64_t>(x.size(0) * x.size(1), 1); }

}  // namespace

OP(aclnnGroupNorm) { group_norm_into(out, meanOut, rstdOut, self, gamma, beta, N, C, HxW, group, eps); }
OP(aclnnGroupNormSilu) {
  group_norm_into(out, meanOut, rstdOut, self, gamma, beta, self.size(0), self.size(1), plane(self), group, eps);
  at::cpu::silu_(out);
}
OP(aclnnGroupNormSiluV2) {
  group_norm_into(out, meanOut, rstdOut, self, gamma, beta, self.size(0), self.size(1), plane(self), group, eps);
  if (activateSilu) at::cpu::silu_(out);
}
OP(aclnnGroupNormSwish) {
  group_norm_into(yOut, meanOut, rstdOut, x, gamma, beta, x.size(0), x.size(1), plane(x), numGroups, eps);
  if (activateSwish) yOut.mul_(at::sigmoid(yOut * swishScale));
}

namespace {

struct GroupNormGradient {
  const at::Tensor &x, &mean, &rstd, &gamma;
  int64_t N, C, HxW, group;

  void of(const at::Tensor& dy, PlainResult& dx, PlainResult& dgamma, PlainResult& dbeta) const {
    if (x.numel()) {
      at::native::GroupNormBackwardKernel(at::kCPU, plain(dy), plain(x), plain(mean), plain(rstd), plain(gamma), N, C, HxW, group,
                                          dx.value(), dgamma.value(), dbeta.value());
    } else {
      if (dgamma.pointer()) dgamma.value().zero_();
      if (dbeta.pointer()) dbeta.value().zero_();
    }
    dx.finish();
    dgamma.finish();
    dbeta.finish();
  }
};

}  // namespace

OP(aclnnGroupNormBackward) {
  PlainResult dx(gradInput, input.numel(), outputMask.at(0)), dgamma(gradGammaOut, C, outputMask.at(1)),
      dbeta(gradBetaOut, C, outputMask.at(2));
  GroupNormGradient{input, mean, rstd, gamma, N, C, HxW, group}.of(gradOut, dx, dgamma, dbeta);
}
// The forward's last step is y * sigmoid(swishScale * y) of the norm y.
OP(aclnnGroupNormSwishGrad) {
  const int64_t N = x.size(0), C = x.size(1), area = plane(x);
  PlainResult dx(dxOut, x.numel(), true), dgamma(dgammaOut, C, dgammaIsRequire), dbeta(dbetaOut, C, dbetaIsRequire);
  const auto by_group = [&](const at::Tensor& t) { return widened(t).reshape({N, numGroups, 1}); };
  const auto by_channel = [&](const at::Tensor& t) { return widened(t).reshape({C, 1}); };
  const at::Tensor groups = plain(x).view({N, numGroups, -1});
  const at::Tensor normal =
      ((groups - by_group(mean)) * by_group(rstd)).view({N, C, area}) * by_channel(gamma) + by_channel(beta);
  const at::Tensor gate = at::sigmoid(normal * swishScale);
  const at::Tensor dnormal = plain(dy).view({N, C, area}) * (gate + normal * swishScale * gate * (1 - gate));
  GroupNormGradient{x, mean, rstd, gamma, N, C, area, numGroups}.of(dnormal.view(x.sizes()), dx, dgamma, dbeta);
}

namespace {

double silu_cost(const at::Tensor& self, int64_t group, bool activate) {
  if (!activate) invalid("aclnnGroupNormSiluQuant: activateSilu false is not supported");
  if (group <= 0 || (given(self) && (self.dim() < 2 || self.size(1) % group != 0)))
    invalid("aclnnGroupNormSiluQuant: %ld groups do not divide self's channels", long(group));
  return bytes(self);
}

}  // namespace

OP_COST(aclnnGroupNormSiluQuant, silu_cost(self, group, activateSilu)) {
  if (self.numel() == 0) {
    meanOut.zero_();
    rstdOut.fill_(std::numeric_limits<double>::quiet_NaN());
    return;
  }
  const auto [normal, mean, rstd] = at::native_group_norm(plain(self), maybe(plain(gamma)), maybe(plain(beta)), self.size(0),
                                                          self.size(1), plane(self), group, eps);
  std::vector<int64_t> channels(static_cast<size_t>(self.dim()), 1);
  channels[1] = -1;
  put(meanOut, mean);
  put(rstdOut, rstd);
  put_quantized(out, at::silu(normal) / quantScale.reshape(channels));
}
