// Regions of feature maps, by bilinear samples.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>

#include "op/kernels/common.h"

namespace softcann::op {

// The four pixels around a sample, and how much each has of it. None of a sample more than a pixel outside.
struct Around {
  int64_t top_left, top_right, bottom_left, bottom_right;
  float down, across;  // of the way to the bottom and to the right

  static std::optional<Around> of(int64_t height, int64_t width, float y, float x) {
    // NaN is in no order, and so outside.
    if (height == 0 || width == 0 || !(y >= -1 && x >= -1 && y <= static_cast<float>(height) && x <= static_cast<float>(width)))
      return std::nullopt;
    y = std::clamp(y, 0.0f, static_cast<float>(height - 1));
    x = std::clamp(x, 0.0f, static_cast<float>(width - 1));
    const auto top = static_cast<int64_t>(y), left = static_cast<int64_t>(x);
    const int64_t bottom = std::min(top + 1, height - 1), right = std::min(left + 1, width - 1);
    return Around{top * width + left,     top * width + right,         bottom * width + left,
                  bottom * width + right, y - static_cast<float>(top), x - static_cast<float>(left)};
  }
  // Calls each(pixel, weight).
  template <class Each>
  void each(Each&& each) const {
    each(top_left, (1 - down) * (1 - across));
    each(top_right, (1 - down) * across);
    each(bottom_left, down * (1 - across));
    each(bottom_right, down * across);
  }
};

// Note [Regions]
// A region (image, x1, y1, x2, y2) is cut into pooled_height x pooled_width bins; each is the mean of `samples` x `samples`
// bilinear samples (0: as many as it has pixels). Samples more than a pixel outside are 0. end_mode 1 and 3: the region ends a
// pixel later; 2 and 3: all is half a pixel shifted.
struct RegionBins {
  int64_t height, width, pooled_height, pooled_width, samples, end_mode;
  float scale;
  static constexpr float most_samples = 1 << 12;  // hardware ends a kernel that takes so long

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
    const float pixels = std::ceil(bin);
    const float count = samples > 0 ? static_cast<float>(samples) : pixels >= 1 ? pixels : 1;  // of NaN, too
    TORCH_CHECK(count <= most_samples, "regions: ", count, " samples of a bin in a dimension");
    return {start, bin, static_cast<int64_t>(count)};
  }
  // Samples of each bin of a region.
  int64_t samples_of(const float* region) const {
    return axis(region[1], region[3], pooled_width).count * axis(region[2], region[4], pooled_height).count;
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
            if (const auto around = Around::of(height, width, down.at(row, i), across.at(column, j))) {
              around->each([&](int64_t pixel, float share) { each(bin, pixel, weight * share); });
            }
          }
        }
      }
    }
  }
};

// What the loops below index: maps [images, C, H, W], regions [count, `numbers`] with their image first.
inline void check_regions(const char* op, at::IntArrayRef maps, const at::Tensor& regions, int64_t numbers = 5) {
  TORCH_CHECK(maps.size() == 4 && regions.dim() == 2 && regions.size(1) == numbers, op, ": maps ", maps, " and regions ",
              regions.sizes(), "; [images, C, H, W] and [count, ", numbers, "] are expected");
}
inline int64_t image_of(const float* region, int64_t images) {
  const auto image = static_cast<int64_t>(region[0]);
  TORCH_CHECK(image >= 0 && image < images, "regions: image ", image, " of ", images);
  return image;
}

// [regions, C, pooled height, pooled width] of maps [images, C, H, W]; and the maps' gradient.
at::Tensor roi_align(const at::Tensor& maps, const at::Tensor& rois, const RegionBins& pooling);
at::Tensor roi_align_gradient(const at::Tensor& gradient, const at::Tensor& rois, at::IntArrayRef sizes,
                              const RegionBins& pooling);

}  // namespace softcann::op
