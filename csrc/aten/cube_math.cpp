#include "aten/cube_math.h"

#include <algorithm>

#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul_compositeimplicitautograd_dispatch.h>

#include "core/options.h"
#include "generated/torch_npu_native_functions.h"

namespace torch_npu::native {
namespace {

constexpr int8_t kUseHf32 = 3;

}  // namespace

int8_t matmul_math_type() {
  const core::Options& options = core::options();
  if (options.matmul_cube_math_type >= 0) return static_cast<int8_t>(options.matmul_cube_math_type);
  return options.matmul_allow_hf32 ? kUseHf32 : kKeepDtype;
}

// torch multiplies a batch by one matrix or vector as the rows of one, and gives up where `out` is no view of rows.
at::Tensor& matmul_out(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
  const auto [fewer, more] = std::minmax({self.dim(), other.dim()});
  if (fewer > 2 || more < 3 || out.is_contiguous()) return at::compositeimplicitautograd::matmul_out(out, self, other);
  auto product = at::empty(out.sizes(), out.options());
  at::compositeimplicitautograd::matmul_out(product, self, other);
  at::native::resize_output(out, product.sizes());
  return out.copy_(product);
}

int8_t convolution_math_type() { return core::options().conv_allow_hf32 ? kUseHf32 : kKeepDtype; }

}  // namespace torch_npu::native
