// Boxes: how far they overlap, and regions of feature maps.
#include <algorithm>
#include <cmath>

#include "op/kernel.h"
#include "op/kernels/box_geometry.h"
#include "op/kernels/common.h"
#include "op/kernels/regions.h"

using namespace softcann::op;

OP(aclnnIou) {
  const at::Tensor a = widened(bBoxes), b = widened(gtBoxes);
  put(overlap,
      aligned ? overlap_of(Boxes(a), Boxes(b), mode, eps) : overlap_of(Boxes(a.unsqueeze(1)), Boxes(b.unsqueeze(0)), mode, eps));
}
// The overlap less the centres' distance, by the diagonal of both, less what the proportions differ.
OP(aclnnCIoU) {
  const at::Tensor first = corners(bBoxes, trans), second = corners(gtBoxes, trans);
  const Boxes a(isCross ? first.unsqueeze(1) : first), b(isCross ? second.unsqueeze(0) : second);
  const Complete complete(a, b, mode);
  put_reshaped(overlap, complete.ratio - complete.distance - complete.alpha * complete.aspect);
  put_reshaped(atanSub, complete.turn);
}

namespace softcann::op {

at::Tensor roi_align(const at::Tensor& maps, const at::Tensor& rois, const RegionBins& pooling) {
  check_regions("ROIAlign", maps.sizes(), rois);
  const at::Tensor from_maps = plain(maps), regions = plain(rois);
  const int64_t channels = maps.size(1), pixels = maps.size(2) * maps.size(3);
  const int64_t bins = pooling.pooled_height * pooling.pooled_width;
  at::Tensor result = at::zeros({regions.size(0), channels, pooling.pooled_height, pooling.pooled_width}, at::kFloat);
  for (int64_t r = 0; r < regions.size(0); ++r) {
    const float* region = regions.const_data_ptr<float>() + r * 5;
    const float* from = from_maps.const_data_ptr<float>() + image_of(region, maps.size(0)) * channels * pixels;
    float* to = result.mutable_data_ptr<float>() + r * channels * bins;
    pooling.run(region, [&](int64_t bin, int64_t pixel, float weight) {
      for (int64_t c = 0; c < channels; ++c) to[c * bins + bin] += weight * from[c * pixels + pixel];
    });
  }
  return result;
}

at::Tensor roi_align_gradient(const at::Tensor& gradient, const at::Tensor& rois, at::IntArrayRef sizes,
                              const RegionBins& pooling) {
  check_regions("ROIAlign's gradient", sizes, rois);
  const int64_t channels = sizes[1], pixels = sizes[2] * sizes[3], bins = pooling.pooled_height * pooling.pooled_width;
  TORCH_CHECK(gradient.sizes() == at::IntArrayRef({rois.size(0), channels, pooling.pooled_height, pooling.pooled_width}),
              "ROIAlign's gradient: ydiff ", gradient.sizes(), " of ", rois.size(0), " regions, ", channels, " channels and ",
              pooling.pooled_height, " x ", pooling.pooled_width, " bins");
  const at::Tensor grad = plain(gradient), regions = plain(rois);
  at::Tensor result = at::zeros(sizes, at::kFloat);
  for (int64_t r = 0; r < regions.size(0); ++r) {
    const float* region = regions.const_data_ptr<float>() + r * 5;
    const float* from = grad.const_data_ptr<float>() + r * channels * bins;
    float* to = result.mutable_data_ptr<float>() + image_of(region, sizes[0]) * channels * pixels;
    pooling.run(region, [&](int64_t bin, int64_t pixel, float weight) {
      for (int64_t c = 0; c < channels; ++c) to[c * pixels + pixel] += weight * from[c * bins + bin];
    });
  }
  return result;
}

}  // namespace softcann::op

namespace {

// Before as many are made.
void require_bins(int64_t height, int64_t width, const at::Tensor& out) {
  TORCH_CHECK(out.dim() == 4 && out.size(2) == height && out.size(3) == width, "ROIAlign: ", height, " by ", width, " bins in ",
              out.sizes());
}

}  // namespace

OP(aclnnROIAlign) {
  require_bins(pooledHeight, pooledWidth, out);
  put(out, roi_align(self, rois, {self.size(2), self.size(3), pooledHeight, pooledWidth, sampleNum, roiEndMode, spatialScale}));
}
OP(aclnnROIAlignBackward) {
  put(xdiff, roi_align_gradient(ydiff, rois, xdiff.sizes(),
                                {xdiff.size(2), xdiff.size(3), pooledHeight, pooledWidth, sampleNum, roiEndMode, spatialScale}));
}

namespace {

double regions_cost(const at::Tensor& maps, int64_t numbers, const at::Tensor& regions, double scale, int64_t samples) {
  if (given(maps) && maps.dim() != 4) invalid("feature maps have %ld dimensions; 4 are expected", long(maps.dim()));
  if (given(regions) && (regions.dim() != 2 || regions.size(1) != numbers))
    invalid("regions are %s; [count, %ld] is expected", c10::str(regions.sizes()).c_str(), long(numbers));
  if (!(scale > 0)) invalid("spatialScale is %g; it is positive", scale);
  if (samples < 0) invalid("samplingRatio is %ld; it is not negative", long(samples));
  return bytes(maps);
}
double known_pooling(double cost, std::string_view mode) {
  if (mode != "avg" && mode != "max") invalid("mode '%s' is not one of avg, max", mode.data());
  return cost;
}
// The greatest of a bin's samples: of a sample, the greatest of the four pixels' shares.
at::Tensor roi_greatest(const at::Tensor& maps, const at::Tensor& rois, const RegionBins& pooling) {
  const at::Tensor from_maps = plain(maps), regions = plain(rois);
  const int64_t channels = maps.size(1), pixels = maps.size(2) * maps.size(3);
  const int64_t bins = pooling.pooled_height * pooling.pooled_width;
  at::Tensor result = at::zeros({regions.size(0), channels, pooling.pooled_height, pooling.pooled_width}, at::kFloat);
  for (int64_t r = 0; r < regions.size(0); ++r) {
    const float* region = regions.const_data_ptr<float>() + r * 5;
    const float* from = from_maps.const_data_ptr<float>() + image_of(region, maps.size(0)) * channels * pixels;
    float* to = result.mutable_data_ptr<float>() + r * channels * bins;
    const auto samples = static_cast<float>(pooling.samples_of(region));
    std::vector<bool> seen(static_cast<size_t>(bins), false);
    pooling.run(region, [&](int64_t bin, int64_t pixel, float weight) {
      for (int64_t c = 0; c < channels; ++c) {
        const float value = weight * samples * from[c * pixels + pixel];
        float& best = to[c * bins + bin];
        best = seen[static_cast<size_t>(bin)] ? std::max(best, value) : value;
      }
      seen[static_cast<size_t>(bin)] = true;
    });
  }
  return result;
}

}  // namespace

OP_COST(aclnnRoiAlign, known_pooling(regions_cost(self, 4, rois, static_cast<double>(spatialScale), samplingRatio), mode)) {
  require_bins(outputHeight, outputWidth, out);
  const RegionBins pooling{self.size(2), self.size(3), outputHeight, outputWidth, samplingRatio, 0, spatialScale};
  const at::Tensor regions = at::cat({batchIndices.to(at::kFloat).reshape({-1, 1}), widened(rois)}, 1);
  put(out, std::string_view(mode) == "max" ? roi_greatest(self, regions, pooling) : roi_align(self, regions, pooling));
}
OP_COST(aclnnRoiAlignV2, regions_cost(self, 5, boxes, static_cast<double>(spatialScale), samplingRatio)) {
  require_bins(pooledHeight, pooledWidth, out);
  put(out, roi_align(self, boxes,
                     {self.size(2), self.size(3), pooledHeight, pooledWidth, samplingRatio, aligned ? 2 : 0, spatialScale}));
}
OP_COST(aclnnRoiAlignV2Backward, regions_cost(gradInput, 5, boxes, static_cast<double>(spatialScale), samplingRatio)) {
  TORCH_CHECK(inputShape == gradInput.sizes(), "aclnnRoiAlignV2Backward: inputShape ", inputShape, " of a gradient ",
              gradInput.sizes());
  put(gradInput, roi_align_gradient(
                     gradOutput, boxes, inputShape,
                     {inputShape[2], inputShape[3], pooledHeight, pooledWidth, samplingRatio, aligned ? 2 : 0, spatialScale}));
}
