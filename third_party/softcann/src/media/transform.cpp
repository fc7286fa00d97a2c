#include "media/transform.h"

#include <algorithm>
#include <cmath>

namespace softcann::media {
namespace {

constexpr int kBits = 11;  // of a weight: 8 + 2 * 11 fit in 32

// The pixels of a row that make one pixel, and their weights, which sum to 1 << kBits.
struct Taps {
  std::vector<uint32_t> first;
  std::vector<int32_t> weights;  // `count` for each pixel
  uint32_t count = 1;
};

double catmull_rom(double x) {
  x = std::abs(x);
  if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
  return x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
}

// Rounded weights whose sum is exact: the largest takes what rounding left.
void set_weights(Taps& taps, uint32_t index, const std::vector<double>& exact) {
  double sum = 0;
  for (const double weight : exact) sum += weight;
  int32_t left = 1 << kBits;
  size_t largest = 0;
  int32_t* to = &taps.weights[size_t{index} * taps.count];
  for (size_t i = 0; i < exact.size(); ++i) {
    to[i] = static_cast<int32_t>(std::lround(exact[i] / sum * (1 << kBits)));
    left -= to[i];
    if (exact[i] > exact[largest]) largest = i;
  }
  to[largest] += left;
}

Taps cubic_taps(uint32_t from, uint32_t to) {
  const double scale = static_cast<double>(from) / to, wide = std::max(scale, 1.0);
  Taps taps;
  taps.count = std::min<uint32_t>(from, static_cast<uint32_t>(std::ceil(4 * wide)) + 1);
  taps.first.resize(to);
  taps.weights.resize(size_t{to} * taps.count);
  for (uint32_t i = 0; i < to; ++i) {
    const double centre = (i + 0.5) * scale - 0.5;
    const auto low = static_cast<int64_t>(std::ceil(centre - 2 * wide));
    const auto first = std::clamp<int64_t>(low, 0, from - taps.count);
    taps.first[i] = static_cast<uint32_t>(first);
    std::vector<double> exact(taps.count);
    for (uint32_t k = 0; k < taps.count; ++k) exact[k] = catmull_rom((static_cast<double>(first + k) - centre) / wide);
    set_weights(taps, i, exact);
  }
  return taps;
}

Taps linear_taps(uint32_t from, uint32_t to, bool centres) {
  const double scale = static_cast<double>(from) / to;
  Taps taps;
  taps.count = std::min<uint32_t>(from, 2);
  taps.first.resize(to);
  taps.weights.resize(size_t{to} * taps.count);
  for (uint32_t i = 0; i < to; ++i) {
    const double place = std::clamp(centres ? (i + 0.5) * scale - 0.5 : i * scale, 0.0, from - 1.0);
    const auto first = std::min(static_cast<uint32_t>(place), from - taps.count);
    taps.first[i] = first;
    const double part = place - first;
    set_weights(taps, i, taps.count == 1 ? std::vector<double>{1.0} : std::vector<double>{1 - part, part});
  }
  return taps;
}

Taps nearest_taps(uint32_t from, uint32_t to) {
  Taps taps;
  taps.first.resize(to);
  taps.weights.assign(to, 1 << kBits);
  for (uint32_t i = 0; i < to; ++i) taps.first[i] = static_cast<uint32_t>(uint64_t{i} * from / to);
  return taps;
}

Taps make_taps(uint32_t from, uint32_t to, Interpolation interpolation) {
  switch (interpolation) {
    case Interpolation::cubic:
      return cubic_taps(from, to);
    case Interpolation::bilinear_opencv:
    case Interpolation::bilinear_tensorflow:
      return linear_taps(from, to, interpolation == Interpolation::bilinear_opencv);
    case Interpolation::nearest_opencv:
    case Interpolation::nearest_tensorflow:
      break;
  }
  return nearest_taps(from, to);
}

Plane resize_plane(const Plane& plane, uint32_t width, uint32_t height, Interpolation interpolation) {
  const Taps across = make_taps(plane.width, width, interpolation), down = make_taps(plane.height, height, interpolation);
  std::vector<int32_t> rows(size_t{plane.height} * width);
  for (uint32_t y = 0; y < plane.height; ++y) {
    const uint8_t* from = plane.row(y);
    int32_t* to = &rows[size_t{y} * width];
    for (uint32_t x = 0; x < width; ++x) {
      const int32_t* weights = &across.weights[size_t{x} * across.count];
      int32_t sum = 0;
      for (uint32_t k = 0; k < across.count; ++k) sum += weights[k] * from[across.first[x] + k];
      to[x] = sum;
    }
  }
  Plane made(width, height);
  std::vector<int64_t> sums(width);
  for (uint32_t y = 0; y < height; ++y) {
    std::fill(sums.begin(), sums.end(), int64_t{1} << (2 * kBits - 1));
    for (uint32_t k = 0; k < down.count; ++k) {
      const int32_t* from = &rows[size_t{down.first[y] + k} * width];
      const int64_t weight = down.weights[size_t{y} * down.count + k];
      for (uint32_t x = 0; x < width; ++x) sums[x] += weight * from[x];
    }
    uint8_t* to = made.row(y);
    for (uint32_t x = 0; x < width; ++x) to[x] = static_cast<uint8_t>(std::clamp<int64_t>(sums[x] >> (2 * kBits), 0, 255));
  }
  return made;
}

// The pixel of a row of `size` that stands for one before its begin or behind its end.
uint32_t reflected(int64_t index, uint32_t size, acldvppBorderType type) {
  if (type == BORDER_REPLICATE || size == 1) return static_cast<uint32_t>(std::clamp<int64_t>(index, 0, size - 1));
  const int64_t twice = type == BORDER_REFLECT_101 ? 1 : 0;
  while (index < 0 || index >= size) index = index < 0 ? -index - 1 + twice : 2 * int64_t{size} - 1 - twice - index;
  return static_cast<uint32_t>(index);
}

uint8_t saturated(double value) { return static_cast<uint8_t>(std::clamp(std::lround(value), 0L, 255L)); }

Plane border_plane(const Plane& plane, const Border& border, uint8_t shift_x, uint8_t shift_y, uint8_t value) {
  const uint32_t left = border.left >> shift_x, top = border.top >> shift_y;
  Plane made(plane.width + left + (border.right >> shift_x), plane.height + top + (border.bottom >> shift_y), value);
  for (uint32_t y = 0; y < made.height; ++y) {
    const int64_t from_y = int64_t{y} - top;
    const bool inside = from_y >= 0 && from_y < plane.height;
    if (border.type == BORDER_CONSTANT && !inside) continue;
    const uint8_t* from = plane.row(inside ? static_cast<uint32_t>(from_y) : reflected(from_y, plane.height, border.type));
    std::copy_n(from, plane.width, made.row(y) + left);
    if (border.type == BORDER_CONSTANT) continue;
    for (uint32_t x = 0; x < left; ++x) made.row(y)[x] = from[reflected(int64_t{x} - left, plane.width, border.type)];
    for (uint32_t x = left + plane.width; x < made.width; ++x) {
      made.row(y)[x] = from[reflected(int64_t{x} - left, plane.width, border.type)];
    }
  }
  return made;
}

Plane pyramid_plane(const Plane& plane, const std::array<std::array<int8_t, 5>, 5>& weights, uint32_t divisor,
                    acldvppBorderType border) {
  Plane made((plane.width + 1) / 2, (plane.height + 1) / 2);
  for (uint32_t y = 0; y < made.height; ++y) {
    for (uint32_t x = 0; x < made.width; ++x) {
      int32_t sum = 0;
      for (int64_t dy = -2; dy <= 2; ++dy) {
        const int64_t from_y = 2 * int64_t{y} + dy;
        for (int64_t dx = -2; dx <= 2; ++dx) {
          const int64_t from_x = 2 * int64_t{x} + dx;
          const bool inside = from_x >= 0 && from_y >= 0 && from_x < plane.width && from_y < plane.height;
          if (border == BORDER_CONSTANT && !inside) continue;
          const uint8_t pixel = plane.row(reflected(from_y, plane.height, border))[reflected(from_x, plane.width, border)];
          sum += weights[static_cast<size_t>(dy + 2)][static_cast<size_t>(dx + 2)] * pixel;
        }
      }
      made.row(y)[x] = static_cast<uint8_t>(
          std::clamp<int32_t>((sum + static_cast<int32_t>(divisor) / 2) / static_cast<int32_t>(divisor), 0, 255));
    }
  }
  return made;
}

template <class F>
Image of_planes(const Image& image, F&& f) {
  Image made{image.is_yuv, image.shift_x, image.shift_y, {}};
  for (size_t channel = 0; channel < image.planes.size(); ++channel) {
    const bool chroma = image.is_yuv && channel != 0;
    made.planes.push_back(
        f(image.planes[channel], channel, chroma ? image.shift_x : uint8_t{0}, chroma ? image.shift_y : uint8_t{0}));
  }
  return made;
}

}  // namespace

Image resize(const Image& image, uint32_t width, uint32_t height, Interpolation interpolation) {
  if (image.width() == width && image.height() == height) return image;
  return of_planes(image, [&](const Plane& plane, size_t, uint8_t shift_x, uint8_t shift_y) {
    return resize_plane(plane, (width + shift_x) >> shift_x, (height + shift_y) >> shift_y, interpolation);  // shifts are 0 or 1
  });
}

Image make_border(const Image& image, const Border& border) {
  return of_planes(image, [&](const Plane& plane, size_t channel, uint8_t shift_x, uint8_t shift_y) {
    return border_plane(plane, border, shift_x, shift_y, saturated(border.value.at(channel)));
  });
}

Image pyramid_down(const Image& image, const std::array<std::array<int8_t, 5>, 5>& weights, uint32_t divisor,
                   acldvppBorderType border) {
  return of_planes(image,
                   [&](const Plane& plane, size_t, uint8_t, uint8_t) { return pyramid_plane(plane, weights, divisor, border); });
}

Histogram histogram(const Plane& plane) {
  Histogram counts{};
  for (const uint8_t pixel : plane.pixels) ++counts[pixel];
  return counts;
}

void look_up(Plane& plane, const uint8_t* table) {
  for (uint8_t& pixel : plane.pixels) pixel = table[pixel];
}

}  // namespace softcann::media
