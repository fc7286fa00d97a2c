// Dropout with a mask of bits, which the backward takes.
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

std::tuple<at::Tensor, at::Tensor> npu_dropout(const at::Tensor& self, double p) {
  TORCH_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  const int64_t numel = self.numel();
  auto mask = empty_like_with(self, {(numel + 127) / 128 * 128 / 8}, at::kByte);
  const auto state = core::philox_state(std::nullopt, numel);
  op::run(aclnnDropoutGenMaskV2, at::IntArrayRef(numel), p, static_cast<int64_t>(state.first), static_cast<int64_t>(state.second),
          self.scalar_type(), mask);
  return {masked(self, mask, p), mask};
}

std::tuple<at::Tensor, at::Tensor> npu_dropout_do_mask(const at::Tensor& self, const at::Tensor& mask, double p) {
  return {masked(self, mask, p), mask.clone()};
}

}  // namespace torch_npu::native
