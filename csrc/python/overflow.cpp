// The overflow flag of chips that saturate.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "core/overflow.h"
#include "core/stream.h"
#include "python/bindings.h"

namespace torch_npu::python {
namespace {

// Waits for what the current stream has been given so far.
bool overflow_flag() {
  constexpr auto words = static_cast<int64_t>(core::kOverflowStatusBytes / sizeof(int32_t));
  const auto status = at::empty({words}, at::TensorOptions(at::kInt).device(c10::DeviceType::PrivateUse1));
  core::read_overflow(status.mutable_data_ptr(), core::current_raw_stream());
  return status.cpu().data_ptr<int32_t>()[0] != 0;
}

}  // namespace

void init_overflow(py::module_& module) {
  module.def("_chip_has_inf_nan", &core::chip_has_inf_nan, Unlocked());
  module.def("_saturates", &core::saturates, Unlocked());
  module.def("_overflow_flag", &overflow_flag, Unlocked());
  module.def("_reset_overflow_flag", [] { core::reset_overflow(core::current_raw_stream()); }, Unlocked());
}

}  // namespace torch_npu::python
