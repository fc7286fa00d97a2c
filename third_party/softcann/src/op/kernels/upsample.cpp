// Resampling: interpolation and sampling on grids.
#include <cmath>
#include <string_view>

#include "op/kernel.h"
#include "op/kernels/common.h"

using namespace softcann::op;

namespace {

// CANN's way to say that no scale was given: zero.
std::optional<double> scale_of(double scale) { return scale > 0 ? std::optional(scale) : std::nullopt; }

}  // namespace

#define SCALES_2D scale_of(scalesH), scale_of(scalesW)
#define SCALES_3D scale_of(scalesD), SCALES_2D

OP(aclnnUpsampleNearest1d) { at::cpu::upsample_nearest1d_outf(self, outputSize, std::nullopt, out); }
OP(aclnnUpsampleNearest1dV2) { at::cpu::upsample_nearest1d_outf(self, outputSize, scale_of(scaleL), out); }
OP(aclnnUpsampleNearest2d) { at::cpu::upsample_nearest2d_outf(self, outputSize, std::nullopt, std::nullopt, out); }
OP(aclnnUpsampleNearest2dV2) { at::cpu::upsample_nearest2d_outf(self, outputSize, SCALES_2D, out); }
OP(aclnnUpsampleNearest3d) { at::cpu::upsample_nearest3d_outf(self, outputSize, SCALES_3D, out); }
OP(aclnnUpsampleNearest1dBackward) {
  at::cpu::upsample_nearest1d_backward_outf(gradOut, outputSize, inputSize, scale_of(scales), out);
}
OP(aclnnUpsampleNearest2dBackward) {
  at::cpu::upsample_nearest2d_backward_outf(gradOut, outputSize, inputSize, SCALES_2D, gradInput);
}
OP(aclnnUpsampleNearest3dBackward) {
  at::cpu::upsample_nearest3d_backward_outf(gradOut, outputSize, inputSize, SCALES_3D, gradInput);
}
OP(aclnnUpsampleNearestExact1d) { at::cpu::_upsample_nearest_exact1d_outf(self, outputSize, scale_of(scales), out); }
OP(aclnnUpsampleNearestExact2d) { at::cpu::_upsample_nearest_exact2d_outf(self, outputSize, SCALES_2D, out); }
OP(aclnnUpsampleNearestExact3d) { at::cpu::_upsample_nearest_exact3d_outf(self, outputSize, SCALES_3D, out); }
OP(aclnnUpsampleNearestExact1dBackward) {
  at::cpu::_upsample_nearest_exact1d_backward_outf(gradOutput, outputSize, inputSize, scale_of(scales), out);
}
OP(aclnnUpsampleNearestExact2dBackward) {
  at::cpu::_upsample_nearest_exact2d_backward_outf(gradOutput, outputSize, inputSize, SCALES_2D, out);
}
OP(aclnnUpsampleNearestExact3dBackward) {
  at::cpu::_upsample_nearest_exact3d_backward_outf(gradOut, outputSize, inputSize, SCALES_3D, gradInput);
}
OP(aclnnUpsampleLinear1d) { at::cpu::upsample_linear1d_outf(self, outputSize, alignCorners, scale_of(scale), out); }
OP(aclnnUpsampleLinear1dBackward) {
  at::cpu::upsample_linear1d_backward_outf(gradOut, outputSize, inputSize, alignCorners, scale_of(scales), out);
}
OP(aclnnUpsampleBilinear2d) { at::cpu::upsample_bilinear2d_outf(self, outputSize, alignCorners, SCALES_2D, out); }
OP(aclnnUpsampleBilinear2dBackward) {
  at::cpu::upsample_bilinear2d_backward_outf(gradOut, outputSize, inputSize, alignCorners, SCALES_2D, out);
}
OP(aclnnUpsampleBilinear2dBackwardV2) {
  at::cpu::upsample_bilinear2d_backward_outf(gradOut, outputSize, inputSize, alignCorners, SCALES_2D, out);
}
OP(aclnnUpsampleBilinear2dAA) {
  PlainResult result(out);
  at::cpu::_upsample_bilinear2d_aa_outf(plain(input), outputSize, alignCorners, SCALES_2D, result.value());
  result.finish();
}
OP(aclnnUpsampleBilinear2dAABackward) {
  PlainResult result(out);
  at::cpu::_upsample_bilinear2d_aa_backward_outf(plain(gradOutput), outputSize, inputSize, alignCorners, SCALES_2D,
                                                 result.value());
  result.finish();
}
OP(aclnnUpsampleBicubic2d) { at::cpu::upsample_bicubic2d_outf(self, outputSize, alignCorners, SCALES_2D, out); }
OP(aclnnUpsampleBicubic2dBackward) {
  PlainResult result(gradInput);
  at::cpu::upsample_bicubic2d_backward_outf(plain(gradOut), outputSize, inputSize, alignCorners, SCALES_2D, result.value());
  result.finish();
}
OP(aclnnUpsampleBicubic2dAA) {
  PlainResult result(out);
  at::cpu::_upsample_bicubic2d_aa_outf(plain(x), outputSize, alignCorners, SCALES_2D, result.value());
  result.finish();
}
OP(aclnnUpsampleBicubic2dAAGrad) {
  PlainResult result(out);
  at::cpu::_upsample_bicubic2d_aa_backward_outf(plain(gradOutput), outputSize, inputSize, alignCorners, SCALES_2D,
                                                result.value());
  result.finish();
}
OP(aclnnUpsampleTrilinear3d) { at::cpu::upsample_trilinear3d_outf(self, outputSize, alignCorners, SCALES_3D, out); }
OP(aclnnUpsampleTrilinear3dBackward) {
  at::cpu::upsample_trilinear3d_backward_outf(gradOut, outputSize, inputSize, alignCorners, SCALES_3D, gradInput);
}

OP(aclnnGridSampler2D) {
  into(out, [&] { return at::grid_sampler_2d(widened(input), widened(grid), interpolationMode, paddingMode, alignCorners); });
}
OP(aclnnGridSampler3D) {
  into(out, [&] { return at::grid_sampler_3d(widened(input), widened(grid), interpolationMode, paddingMode, alignCorners); });
}
namespace {

// ATen's gradients do not look at the size of what they are given.
void require_samples(const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& grid) {
  TORCH_CHECK(grid.dim() == input.dim() && input.dim() > 3, "grid sampler: a grid ", grid.sizes(), " for ", input.sizes());
  at::DimVector expected(grid.sizes().slice(0, static_cast<size_t>(grid.dim() - 1)));
  expected.insert(expected.begin() + 1, input.size(1));
  TORCH_CHECK(gradient.sizes() == at::IntArrayRef(expected), "grid sampler: a gradient ", gradient.sizes(), " where ",
              at::IntArrayRef(expected), " is expected");
}

}  // namespace

OP(aclnnGridSampler2DBackward) {
  require_samples(gradOutput, input, grid);
  const auto [by_input, by_grid] =
      at::grid_sampler_2d_backward(widened(gradOutput), widened(input), widened(grid), interpolationMode, paddingMode,
                                   alignCorners, {outputMask.at(0), outputMask.at(1)});
  put(inputGrad, by_input, outputMask.at(0));
  put(gridGrad, by_grid, outputMask.at(1));
}
OP(aclnnGridSampler3DBackward) {
  require_samples(gradOutput, input, grid);
  const auto [by_input, by_grid] =
      at::grid_sampler_3d_backward(widened(gradOutput), widened(input), widened(grid), interpolationMode, paddingMode,
                                   alignCorners, {outputMask.at(0), outputMask.at(1)});
  put(inputGrad, by_input, outputMask.at(0));
  put(gridGrad, by_grid, outputMask.at(1));
}

namespace {

double resize_cost(const at::Tensor& self, c10::ArrayRef<float> scales, const at::Tensor& out, std::string_view mode) {
  if (mode != "nearest" && mode != "bilinear") invalid("aclnnResize: mode '%s' is not one of nearest, bilinear", mode.data());
  if (!given(self) || !given(out)) return 0;
  if (self.dim() != 4 || out.dim() != 4 || scales.size() != 4) invalid("aclnnResize: self, out and scales have 4 dimensions");
  for (int64_t i = 0; i < 4; ++i) {
    const auto wanted = static_cast<int64_t>(std::floor(static_cast<float>(self.size(i)) * scales[static_cast<size_t>(i)]));
    if (out.size(i) != (i < 2 ? self.size(i) : wanted))
      invalid("aclnnResize: out has %ld in dimension %ld", long(out.size(i)), long(i));
  }
  return bytes(self) + bytes(out);
}

}  // namespace

OP_COST(aclnnResize, resize_cost(self, scales, out, mode)) {
  const at::IntArrayRef size = out.sizes().slice(2);
  const std::optional<double> down = static_cast<double>(scales[2]), across = static_cast<double>(scales[3]);
  PlainResult result(out);
  if (std::string_view(mode) == "nearest") {
    at::cpu::upsample_nearest2d_outf(plain(self), size, down, across, result.value());
  } else {
    at::cpu::upsample_bilinear2d_outf(plain(self), size, false, down, across, result.value());
  }
  result.finish();
}
