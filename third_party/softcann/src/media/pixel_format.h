// How pictures of each pixel format lie in memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rt/runtime.h"

#pragma GCC visibility push(default)
#include "acl/ops/acl_dvpp.h"
#pragma GCC visibility pop

namespace softcann::media {

enum class Layout : uint8_t {
  gray,         // one plane
  semi_planar,  // a plane of luma, then a plane of the two chroma channels, alternating
  packed_422,   // four bytes are two pixels
  packed,       // the channels of a pixel lie side by side
};

struct PixelFormat {
  acldvppPixelFormat id;
  const char* name;
  Layout layout;
  bool is_yuv;
  uint8_t channels;          // 1; 3: Y, U, V or R, G, B; 4: R, G, B, A
  uint8_t shift_x, shift_y;  // of chroma: its width is the luma's divided by 1 << shift_x
  uint8_t place[4];          // byte of each channel in its pixel, or pair; packed_422: of the first Y, U, V. Semi-planar: of U, V

  uint32_t pixel_bytes() const;  // of a row, of one pixel: what a width stride counts
  // Bytes of a picture of these strides.
  size_t bytes(uint32_t width_stride, uint32_t height_stride) const;
  // The least width stride of a picture so wide, by the alignment in pixels.
  uint32_t width_stride(uint32_t width, uint32_t align) const;
};

// Null: the format is not served.
const PixelFormat* find_format(uint32_t id);

constexpr uint32_t align_up(uint32_t value, uint32_t to) { return (value + to - 1) / to * to; }

}  // namespace softcann::media
