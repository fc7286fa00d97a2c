// What VPC does with images: sizes, borders, pyramids, histograms. All in integers; docs/media.md has the formulas.
#pragma once

#include <array>

#include "media/picture.h"

namespace softcann::media {

enum class Interpolation : uint32_t {
  cubic = 0,                // Catmull-Rom, widened where it shrinks: stands for the chip's own filter of higher order
  bilinear_opencv = 1,      // centres of pixels
  nearest_opencv = 2,       // corners
  bilinear_tensorflow = 3,  // corners
  nearest_tensorflow = 4,   // corners
};
constexpr uint32_t kInterpolations = 5;

struct Border {
  uint32_t top = 0, bottom = 0, left = 0, right = 0;
  acldvppBorderType type = BORDER_CONSTANT;
  std::array<double, 4> value{};  // of each channel, for BORDER_CONSTANT
};

Image resize(const Image& image, uint32_t width, uint32_t height, Interpolation interpolation);
// Borders of subsampled images are of even sizes.
Image make_border(const Image& image, const Border& border);
// Half the size, from the filter `weights` (of 5 rows) / divisor around every second pixel.
Image pyramid_down(const Image& image, const std::array<std::array<int8_t, 5>, 5>& weights, uint32_t divisor,
                   acldvppBorderType border);

using Histogram = std::array<uint32_t, 256>;
Histogram histogram(const Plane& plane);
void look_up(Plane& plane, const uint8_t* table);

}  // namespace softcann::media
