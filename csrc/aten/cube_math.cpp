#include "aten/cube_math.h"

#include "core/options.h"

namespace torch_npu::native {
namespace {

constexpr int8_t kUseHf32 = 3;

}  // namespace

int8_t matmul_math_type() {
  const core::Options& options = core::options();
  if (options.matmul_cube_math_type >= 0) return static_cast<int8_t>(options.matmul_cube_math_type);
  return options.matmul_allow_hf32 ? kUseHf32 : kKeepDtype;
}

int8_t convolution_math_type() { return core::options().conv_allow_hf32 ? kUseHf32 : kKeepDtype; }

}  // namespace torch_npu::native
