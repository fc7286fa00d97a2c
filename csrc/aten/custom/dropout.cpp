// Dropout with a mask of bits, which the backward takes.
#include "aten/custom/dropout.h"

#include "aten/factory.h"
#include "core/generator.h"
#include "generated/torch_npu_custom_functions.h"
#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnDropoutGenMaskV2);
NPU_OPERATOR(aclnnDropoutDoMask);

namespace {

at::Tensor masked(const at::Tensor& self, const at::Tensor& mask, double p) {
  auto out = empty_like_with(self, self.sizes());
  op::run(aclnnDropoutDoMask, self, mask, p, out);
  return out;
}

}  // namespace

at::Tensor dropout_mask(const at::Tensor& like, int64_t numel, double p, int64_t seed, int64_t offset) {
  constexpr int64_t kBlock = 128;
  auto mask = empty_like_with(like, {(numel + kBlock - 1) / kBlock * kBlock / 8}, at::kByte);
  op::run(aclnnDropoutGenMaskV2, at::IntArrayRef(numel), p, seed, offset, like.scalar_type(), mask);
  return mask;
}

std::tuple<at::Tensor, at::Tensor> npu_dropout(const at::Tensor& self, double p) {
  TORCH_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  const int64_t numel = self.numel();
  const auto state = core::philox_state(std::nullopt, numel);
  const auto mask = dropout_mask(self, numel, p, static_cast<int64_t>(state.first), static_cast<int64_t>(state.second));
  return {masked(self, mask, p), mask};
}

std::tuple<at::Tensor, at::Tensor> npu_dropout_do_mask(const at::Tensor& self, const at::Tensor& mask, double p) {
  return {masked(self, mask, p), mask.clone()};
}

}  // namespace torch_npu::native
