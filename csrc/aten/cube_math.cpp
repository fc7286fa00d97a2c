#include "aten/cube_math.h"

#include <atomic>

#include "aten/cube_math_setting.h"
#include "core/options.h"

namespace torch_npu::native {
namespace {

constexpr int8_t kUseHf32 = 3, kNotChosen = -1;
std::atomic<int8_t> chosen{kNotChosen};

}  // namespace

int8_t matmul_math_type() {
  const int8_t type = chosen.load(std::memory_order_relaxed);
  if (type != kNotChosen) return type;
  return core::options().matmul_allow_hf32 ? kUseHf32 : kKeepDtype;
}
int8_t convolution_math_type() { return core::options().conv_allow_hf32 ? kUseHf32 : kKeepDtype; }

void set_matmul_math_type(int8_t type) { chosen.store(type, std::memory_order_relaxed); }
std::optional<int8_t> chosen_matmul_math_type() {
  const int8_t type = chosen.load(std::memory_order_relaxed);
  return type == kNotChosen ? std::nullopt : std::optional(type);
}

}  // namespace torch_npu::native
