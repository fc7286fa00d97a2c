#include "media/color.h"

#include <algorithm>
#include <cmath>

namespace softcann::media {
namespace {

constexpr int kBits = 16;
constexpr int32_t kHalf = 1 << (kBits - 1);

// The weights of a standard, as integers of kBits fractional bits. Wide: luma and chroma use all of 0 to 255; narrow: 16 to
// 235, 16 to 240.
struct Matrix {
  int32_t luma_offset;
  int32_t luma, red_v, green_u, green_v, blue_u;  // to RGB
  int32_t y[3], u[3], v[3];                       // from RGB
};

int32_t fixed(double value) { return static_cast<int32_t>(std::lround(value * (1 << kBits))); }

Matrix make_matrix(double red, double blue, bool narrow) {
  const double green = 1 - red - blue, luma = narrow ? 219.0 / 255 : 1, chroma = narrow ? 224.0 / 255 : 1;
  Matrix made{};
  made.luma_offset = narrow ? 16 : 0;
  made.luma = fixed(1 / luma);
  made.red_v = fixed(2 * (1 - red) / chroma);
  made.blue_u = fixed(2 * (1 - blue) / chroma);
  made.green_u = fixed(-2 * (1 - blue) * blue / green / chroma);
  made.green_v = fixed(-2 * (1 - red) * red / green / chroma);
  const double weights[] = {red, green, blue};
  for (int i = 0; i < 3; ++i) {
    made.y[i] = fixed(weights[i] * luma);
    made.u[i] = fixed(((i == 2 ? 1 : 0) - weights[i]) / (2 * (1 - blue)) * chroma);
    made.v[i] = fixed(((i == 0 ? 1 : 0) - weights[i]) / (2 * (1 - red)) * chroma);
  }
  return made;
}

const Matrix& matrix_of(acldvppCscMatrix which) {
  static const Matrix matrices[] = {make_matrix(0.299, 0.114, false),   make_matrix(0.299, 0.114, true),
                                    make_matrix(0.2126, 0.0722, false), make_matrix(0.2126, 0.0722, true),
                                    make_matrix(0.2627, 0.0593, false), make_matrix(0.2627, 0.0593, true)};
  return matrices[which];
}

uint8_t pixel(int32_t value) { return static_cast<uint8_t>(std::clamp((value + kHalf) >> kBits, 0, 255)); }

Plane repeated(const Plane& plane, uint8_t shift_x, uint8_t shift_y, uint32_t width, uint32_t height) {
  Plane made(width, height);
  for (uint32_t y = 0; y < height; ++y) {
    const uint8_t* from = plane.row(y >> shift_y);
    uint8_t* to = made.row(y);
    for (uint32_t x = 0; x < width; ++x) to[x] = from[x >> shift_x];
  }
  return made;
}

// Rounded means of 1 << shift_x by 1 << shift_y pixels.
Plane averaged(const Plane& plane, uint8_t shift_x, uint8_t shift_y) {
  Plane made(plane.width >> shift_x, plane.height >> shift_y);
  const uint32_t count = 1U << (shift_x + shift_y);
  for (uint32_t y = 0; y < made.height; ++y) {
    for (uint32_t x = 0; x < made.width; ++x) {
      uint32_t sum = count / 2;
      for (uint32_t dy = 0; dy >> shift_y == 0; ++dy) {
        for (uint32_t dx = 0; dx >> shift_x == 0; ++dx) sum += plane.row((y << shift_y) + dy)[(x << shift_x) + dx];
      }
      made.row(y)[x] = static_cast<uint8_t>(sum / count);
    }
  }
  return made;
}

void set_subsampling(Image& image, uint8_t shift_x, uint8_t shift_y) {
  if (image.shift_x == shift_x && image.shift_y == shift_y) return;
  for (size_t channel = 1; channel < image.planes.size(); ++channel) {
    Plane& plane = image.planes[channel];
    plane = averaged(repeated(plane, image.shift_x, image.shift_y, image.width(), image.height()), shift_x, shift_y);
  }
  image.shift_x = shift_x;
  image.shift_y = shift_y;
}

// Both of full size.
void to_rgb(Image& image, const Matrix& m) {
  Plane &first = image.planes[0], &second = image.planes[1], &third = image.planes[2];
  for (size_t i = 0; i < first.pixels.size(); ++i) {
    const int32_t y = (first.pixels[i] - m.luma_offset) * m.luma, u = second.pixels[i] - 128, v = third.pixels[i] - 128;
    first.pixels[i] = pixel(y + m.red_v * v);
    second.pixels[i] = pixel(y + m.green_u * u + m.green_v * v);
    third.pixels[i] = pixel(y + m.blue_u * u);
  }
  image.is_yuv = false;
}

void to_yuv(Image& image, const Matrix& m) {
  Plane &first = image.planes[0], &second = image.planes[1], &third = image.planes[2];
  for (size_t i = 0; i < first.pixels.size(); ++i) {
    const int32_t r = first.pixels[i], g = second.pixels[i], b = third.pixels[i];
    first.pixels[i] = pixel(m.y[0] * r + m.y[1] * g + m.y[2] * b + (m.luma_offset << kBits));
    second.pixels[i] = pixel(m.u[0] * r + m.u[1] * g + m.u[2] * b + (128 << kBits));
    third.pixels[i] = pixel(m.v[0] * r + m.v[1] * g + m.v[2] * b + (128 << kBits));
  }
  image.is_yuv = true;
}

}  // namespace

Image convert(Image image, const PixelFormat& to, acldvppCscMatrix matrix) {
  const uint32_t width = image.width(), height = image.height();
  // Without colour: chroma of its middle.
  if (image.planes.size() == 1 && to.channels != 1) {
    image.planes.resize(3, Plane(width, height, 128));
  }
  if (image.is_yuv != to.is_yuv) {
    if (image.planes.size() == 4) image.planes.pop_back();
    if (image.is_yuv) {
      set_subsampling(image, 0, 0);
      to_rgb(image, matrix_of(matrix));
    } else {
      to_yuv(image, matrix_of(matrix));
    }
  }
  if (to.channels == 1) image.planes.resize(1);
  if (image.planes.size() < to.channels) image.planes.emplace_back(width, height, 255);
  image.planes.resize(to.channels);
  set_subsampling(image, to.shift_x, to.shift_y);
  return image;
}

}  // namespace softcann::media
