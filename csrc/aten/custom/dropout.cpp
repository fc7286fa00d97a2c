// Dropout with a mask of bits, which the backward takes, and random numbers of CANN's own kind.
#include "aten/custom/dropout.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/TensorOptions.h>
#include <c10/util/accumulate.h>
#include <torch/library.h>

#include "aten/factory.h"
#include "core/device.h"
#include "core/generator.h"
#include "generated/torch_npu_custom_functions.h"
#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnDropoutGenMask);
NPU_OPERATOR(aclnnDropoutGenMaskV2);
NPU_OPERATOR(aclnnDropoutGenMaskV2Tensor);
NPU_OPERATOR(aclnnDropoutDoMask);
NPU_OPERATOR(aclnnSimThreadExponential);

const at::Tensor& dropout_by_mask(const at::Tensor& self, const at::Tensor& mask, double p, const at::Tensor& out) {
  op::run(aclnnDropoutDoMask, self, mask, p, out);
  return out;
}

int64_t dropout_mask_size(int64_t numel) {
  constexpr int64_t kBlock = 128;
  return (numel + kBlock - 1) / kBlock * kBlock / 8;
}

at::Tensor dropout_mask(const at::Tensor& like, int64_t numel, double p, int64_t seed, int64_t offset) {
  auto mask = empty_like_with(like, {dropout_mask_size(numel)}, at::kByte);
  op::run(aclnnDropoutGenMaskV2, at::IntArrayRef(numel), p, seed, offset, like.scalar_type(), mask);
  return mask;
}

at::Tensor dropout_mask(const at::Tensor& like, int64_t numel, double p, const core::Draws& d) {
  if (!d.captured()) return dropout_mask(like, numel, p, d.signed_seed(), d.signed_offset());
  auto mask = empty_like_with(like, {dropout_mask_size(numel)}, at::kByte);
  op::run(aclnnDropoutGenMaskV2Tensor, at::IntArrayRef(numel), p, d.seed_tensor, d.offset_tensor, d.signed_offset(),
          like.scalar_type(), mask);
  return mask;
}

std::tuple<at::Tensor, at::Tensor> npu_dropout(const at::Tensor& self, double p) {
  TORCH_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  const int64_t numel = self.numel();
  const auto mask = dropout_mask(self, numel, p, core::draw(std::nullopt, numel));
  return {dropout_by_mask(self, mask, p, empty_like_with(self, self.sizes())), mask};
}

at::Tensor npu_dropout_gen_mask(at::IntArrayRef size, double p, std::optional<at::ScalarType> /*dtype*/,
                                std::optional<at::Layout> layout, std::optional<at::Device> /*device*/,
                                std::optional<bool> pin_memory) {
  TORCH_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
  TORCH_CHECK(layout.value_or(at::kStrided) == at::kStrided, "the NPU makes strided tensors, got layout ", *layout);
  const int64_t numel = c10::multiply_integers(size);
  auto mask = empty_on(core::current_device(), {dropout_mask_size(numel)}, at::kByte);
  if (numel == 0) return mask;
  const auto d = core::draw(std::nullopt, numel);
  if (d.captured()) {
    op::run(aclnnDropoutGenMaskV2Tensor, size, p, d.seed_tensor, d.offset_tensor, d.signed_offset(), at::kFloat, mask);
  } else {
    op::run(aclnnDropoutGenMask, size, p, d.signed_seed(), d.signed_offset(), mask);
  }
  return mask;
}

at::Tensor& npu_sim_exponential_(at::Tensor& self, double lambd, std::optional<at::Generator> generator) {
  TORCH_CHECK(at::isFloatingType(self.scalar_type()), "npu_sim_exponential_ is for floating-point tensors, got ", self.dtype());
  TORCH_CHECK(lambd > 0, "npu_sim_exponential_ expects lambda > 0.0, but found lambda=", lambd);
  const int64_t numel = self.numel();
  if (numel == 0) return self;
  const auto state = core::philox_state(generator, numel);
  op::run(aclnnSimThreadExponential, self, numel, lambd, static_cast<int64_t>(state.first), static_cast<int64_t>(state.second));
  return self;
}

std::tuple<at::Tensor, at::Tensor> npu_dropout_do_mask(const at::Tensor& self, const at::Tensor& mask, double p) {
  return {dropout_by_mask(self, mask, p, empty_like_with(self, self.sizes())), mask.clone()};
}

namespace {

// No tensor among the arguments says where the mask is made: `device` does, the NPU where it is not given.
at::Tensor choose_device(at::IntArrayRef size, double p, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                         std::optional<at::Device> device, std::optional<bool> pin_memory) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("npu::npu_dropout_gen_mask", "")
                             .typed<at::Tensor(at::IntArrayRef, double, std::optional<at::ScalarType>, std::optional<at::Layout>,
                                               std::optional<at::Device>, std::optional<bool>)>();
  const auto where = device.value_or(at::Device(c10::DeviceType::PrivateUse1));
  const c10::DispatchKeySet keys(c10::computeDispatchKey(std::nullopt, layout, where));
  return op.redispatch(keys, size, p, dtype, layout, where, pin_memory);
}

TORCH_LIBRARY_IMPL(npu, BackendSelect, m) { m.impl("npu_dropout_gen_mask", choose_device); }

}  // namespace
}  // namespace torch_npu::native
