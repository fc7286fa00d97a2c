// Pictures in device memory, and images: the same as planes to compute with.
#pragma once

#include <vector>

#include "media/pixel_format.h"

namespace softcann::media {

// A picture as a client describes it.
struct Picture {
  void* data = nullptr;
  uint32_t size = 0;
  uint32_t format = PIXEL_FORMAT_UNKNOWN;
  uint32_t width = 0, height = 0, width_stride = 0, height_stride = 0;
};

// A rectangle of pixels.
struct Region {
  uint32_t left = 0, top = 0, width = 0, height = 0;
};

struct Plane {
  uint32_t width = 0, height = 0;
  std::vector<uint8_t> pixels;  // row by row, without gaps

  Plane() = default;
  Plane(uint32_t w, uint32_t h, uint8_t value = 0) : width(w), height(h), pixels(size_t{w} * h, value) {}
  uint8_t* row(uint32_t y) { return pixels.data() + size_t{y} * width; }
  const uint8_t* row(uint32_t y) const { return pixels.data() + size_t{y} * width; }
};

// Y; Y, U, V with chroma of their own size; R, G, B; or R, G, B, A.
struct Image {
  bool is_yuv = true;
  uint8_t shift_x = 0, shift_y = 0;
  std::vector<Plane> planes;

  uint32_t width() const { return planes[0].width; }
  uint32_t height() const { return planes[0].height; }
};

// What a picture must obey.
struct Limits {
  uint32_t min_width = 10, min_height = 6, max_width = 8192, max_height = 8192;
  uint32_t width_align = 16, height_align = 2;  // of the strides, in pixels
};

// ACL_SUCCESS, or a code whose text names the picture (`which`) and what is wrong.
aclError check_picture(const char* entry, const char* which, const Picture& picture, const Limits& limits = {});
// The region must lie in the picture, and not divide a sample of chroma.
aclError check_region(const char* entry, const char* which, const Picture& picture, const Region& region);

// Reads a region of a picture; what was checked.
Image read_image(const Picture& picture, const Region& region);
inline Image read_image(const Picture& picture) { return read_image(picture, {0, 0, picture.width, picture.height}); }
// Writes an image of the picture's own format with its left upper corner at `left`, `top`; what does not fit is left out.
void write_image(const Image& image, const Picture& picture, uint32_t left = 0, uint32_t top = 0);

}  // namespace softcann::media
