// Loss scaling: the two operators of GradScaler, with the overflow flag of chips that saturate.
//
// Note [Loss scaling without inf]
// On such a chip (core/overflow.h) gradients are finite after an overflow, so _amp_foreach_non_finite_check_and_unscale_
// also takes the device's flag into found_inf. It does not reset the flag: an overflow concerns every optimizer of the
// step. _amp_update_scale_, which ends the step, does. No host waits for either.
#include <ATen/core/Tensor.h>
#include <ATen/ops/maximum.h>

#include "aten/factory.h"
#include "core/overflow.h"
#include "generated/torch_npu_native_functions.h"
#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnForeachNonFiniteCheckAndUnscale);
NPU_OPERATOR(aclnnAmpUpdateScale);

namespace {

void check_number(const at::Tensor& tensor, at::ScalarType dtype, c10::Device device, const char* name) {
  TORCH_CHECK(tensor.numel() == 1 && tensor.scalar_type() == dtype, name, " must be one ", dtype, ", but it is ",
              tensor.scalar_type(), " of shape ", tensor.sizes());
  TORCH_CHECK(tensor.device() == device, name, " is on ", tensor.device(), ", but expected on ", device,
              ": gradients, scale and found_inf of one device go together");
}

void add_overflow_flag(at::Tensor& found_inf) {
  auto status = empty_like_with(found_inf, {core::kOverflowStatusBytes / sizeof(int32_t)}, at::kInt);
  core::read_overflow(status.mutable_data_ptr(), core::current_raw_stream());
  const auto flag = status.slice(0, 0, 1).reshape(found_inf.sizes()).ne(0).to(found_inf.scalar_type());
  at::maximum_out(found_inf, found_inf, flag);
}

}  // namespace

void _amp_foreach_non_finite_check_and_unscale_(at::TensorList self, at::Tensor& found_inf, const at::Tensor& inv_scale) {
  if (self.empty()) return;
  const auto device = self[0].device();
  check_number(found_inf, at::kFloat, device, "found_inf");
  check_number(inv_scale, at::kFloat, device, "inv_scale");
  for (const auto& gradient : self) {
    TORCH_CHECK(gradient.device() == device, "Expected all tensors to be on the same device, but gradients of one call are on ",
                device, " and ", gradient.device());
    TORCH_CHECK(at::isFloatingType(gradient.scalar_type()), "a gradient to be unscaled is ", gradient.scalar_type(),
                ", but floating point is expected");
  }
  op::run(aclnnForeachNonFiniteCheckAndUnscale, self, found_inf, inv_scale);
  if (core::saturates()) add_overflow_flag(found_inf);
}

at::Tensor& _amp_update_scale_(at::Tensor& self, at::Tensor& growth_tracker, const at::Tensor& found_inf,
                               double scale_growth_factor, double scale_backoff_factor, int64_t growth_interval) {
  check_number(self, at::kFloat, self.device(), "current_scale");
  check_number(growth_tracker, at::kInt, self.device(), "growth_tracker");
  check_number(found_inf, at::kFloat, self.device(), "found_inf");
  op::run(aclnnAmpUpdateScale, self, growth_tracker, found_inf, scale_growth_factor, scale_backoff_factor, growth_interval, self,
          growth_tracker);
  if (core::saturates()) core::reset_overflow(core::current_raw_stream());
  return self;
}

}  // namespace torch_npu::native
