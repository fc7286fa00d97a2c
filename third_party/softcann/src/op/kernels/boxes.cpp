// Boxes: how far they overlap, and regions of feature maps.
#include <algorithm>
#include <cmath>

#include "op/kernel.h"
#include "op/kernels/box_geometry.h"
#include "op/kernels/common.h"

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
  put(overlap, complete.ratio - complete.distance - complete.alpha * complete.aspect);
  put(atanSub, complete.turn);
}

namespace {

// Note [Regions]
// A region (image, x1, y1, x2, y2) is cut into pooled_height x pooled_width bins; each is the mean of `samples` x `samples`
// bilinear samples (0: as many as it has pixels). Samples more than a pixel outside are 0. end_mode 1 and 3: the region ends a
// pixel later; 2 and 3: all is half a pixel shifted.
struct Regions {
  int64_t height, width, pooled_height, pooled_width, samples, end_mode;
  float scale;

  struct Axis {
    float start, bin;
    int64_t count;
    float at(int64_t cell, int64_t i) const {
      return start + (static_cast<float>(cell) + (static_cast<float>(i) + 0.5f) / count) * bin;
    }
  };
  Axis axis(float low, float high, int64_t bins) const {
    const float shift = end_mode >= 2 ? 0.5f : 0.0f, end = end_mode == 1 || end_mode == 3 ? 1.0f : 0.0f;
    const float start = low * scale - shift;
    float length = (high + end) * scale - shift - start;
    if (shift == 0) length = std::max(length, 1.0f);
    const float bin = length / static_cast<float>(bins);
    return {start, bin, samples > 0 ? samples : std::max<int64_t>(static_cast<int64_t>(std::ceil(bin)), 1)};
  }
  // Calls each(pixel, weight) for the four pixels around a sample.
  template <class Each>
  void corners(float y, float x, float weight, Each&& each) const {
    if (y < -1 || x < -1 || y > static_cast<float>(height) || x > static_cast<float>(width)) return;
    y = std::clamp(y, 0.0f, static_cast<float>(height - 1));
    x = std::clamp(x, 0.0f, static_cast<float>(width - 1));
    const auto top = static_cast<int64_t>(y), left = static_cast<int64_t>(x);
    const int64_t bottom = std::min(top + 1, height - 1), right = std::min(left + 1, width - 1);
    const float down = y - static_cast<float>(top), across = x - static_cast<float>(left);
    each(top * width + left, weight * (1 - down) * (1 - across));
    each(top * width + right, weight * (1 - down) * across);
    each(bottom * width + left, weight * down * (1 - across));
    each(bottom * width + right, weight * down * across);
  }
  // Calls each(bin, pixel, weight) for all of one region.
  template <class Each>
  void run(const float* region, Each&& each) const {
    const Axis across = axis(region[1], region[3], pooled_width), down = axis(region[2], region[4], pooled_height);
    const float weight = 1.0f / static_cast<float>(across.count * down.count);
    for (int64_t row = 0; row < pooled_height; ++row) {
      for (int64_t column = 0; column < pooled_width; ++column) {
        const int64_t bin = row * pooled_width + column;
        for (int64_t i = 0; i < down.count; ++i) {
          for (int64_t j = 0; j < across.count; ++j) {
            corners(down.at(row, i), across.at(column, j), weight, [&](int64_t pixel, float share) { each(bin, pixel, share); });
          }
        }
      }
    }
  }
};

// What the loops below index: maps [images, C, H, W], regions [count, 5] with their image first.
void check_regions(const char* op, const at::Tensor& maps, const at::Tensor& regions) {
  TORCH_CHECK(maps.dim() == 4 && regions.dim() == 2 && regions.size(1) == 5, op, ": maps ", maps.sizes(), " and regions ",
              regions.sizes(), "; [images, C, H, W] and [count, 5] are expected");
}
int64_t image_of(const float* region, int64_t images) {
  const auto image = static_cast<int64_t>(region[0]);
  TORCH_CHECK(image >= 0 && image < images, "regions: image ", image, " of ", images);
  return image;
}

}  // namespace

OP(aclnnROIAlign) {
  check_regions("aclnnROIAlign", self, rois);
  const at::Tensor maps = plain(self), regions = plain(rois);
  const int64_t channels = maps.size(1), pixels = maps.size(2) * maps.size(3), bins = pooledHeight * pooledWidth;
  const Regions pooling{maps.size(2), maps.size(3), pooledHeight, pooledWidth, sampleNum, roiEndMode, spatialScale};
  at::Tensor result = at::zeros({regions.size(0), channels, pooledHeight, pooledWidth}, at::kFloat);
  for (int64_t r = 0; r < regions.size(0); ++r) {
    const float* region = regions.const_data_ptr<float>() + r * 5;
    const float* from = maps.const_data_ptr<float>() + image_of(region, maps.size(0)) * channels * pixels;
    float* to = result.mutable_data_ptr<float>() + r * channels * bins;
    pooling.run(region, [&](int64_t bin, int64_t pixel, float weight) {
      for (int64_t c = 0; c < channels; ++c) to[c * bins + bin] += weight * from[c * pixels + pixel];
    });
  }
  put(out, result);
}
OP(aclnnROIAlignBackward) {
  check_regions("aclnnROIAlignBackward", xdiff, rois);
  const at::IntArrayRef sizes = ydiff.sizes();
  TORCH_CHECK(sizes == at::IntArrayRef({rois.size(0), xdiff.size(1), pooledHeight, pooledWidth}), "aclnnROIAlignBackward: ydiff ",
              sizes, " of ", rois.size(0), " regions, ", xdiff.size(1), " channels and ", pooledHeight, " x ", pooledWidth,
              " bins");
  const at::Tensor grad = plain(ydiff), regions = plain(rois);
  const int64_t channels = xdiff.size(1), pixels = xdiff.size(2) * xdiff.size(3), bins = pooledHeight * pooledWidth;
  const Regions pooling{xdiff.size(2), xdiff.size(3), pooledHeight, pooledWidth, sampleNum, roiEndMode, spatialScale};
  at::Tensor result = at::zeros(xdiff.sizes(), at::kFloat);
  for (int64_t r = 0; r < regions.size(0); ++r) {
    const float* region = regions.const_data_ptr<float>() + r * 5;
    const float* from = grad.const_data_ptr<float>() + r * channels * bins;
    float* to = result.mutable_data_ptr<float>() + image_of(region, xdiff.size(0)) * channels * pixels;
    pooling.run(region, [&](int64_t bin, int64_t pixel, float weight) {
      for (int64_t c = 0; c < channels; ++c) to[c * pixels + pixel] += weight * from[c * bins + bin];
    });
  }
  put(xdiff, result);
}
