#include "media/pixel_format.h"

#include <algorithm>
#include <iterator>

namespace softcann::media {
namespace {

constexpr PixelFormat kFormats[] = {
    {PIXEL_FORMAT_YUV_400, "YUV400", Layout::gray, true, 1, 0, 0, {0}},
    {PIXEL_FORMAT_YUV_SEMIPLANAR_420, "YUV420SP", Layout::semi_planar, true, 3, 1, 1, {0, 0, 1}},
    {PIXEL_FORMAT_YVU_SEMIPLANAR_420, "YVU420SP", Layout::semi_planar, true, 3, 1, 1, {0, 1, 0}},
    {PIXEL_FORMAT_YUV_SEMIPLANAR_422, "YUV422SP", Layout::semi_planar, true, 3, 1, 0, {0, 0, 1}},
    {PIXEL_FORMAT_YVU_SEMIPLANAR_422, "YVU422SP", Layout::semi_planar, true, 3, 1, 0, {0, 1, 0}},
    {PIXEL_FORMAT_YUV_SEMIPLANAR_444, "YUV444SP", Layout::semi_planar, true, 3, 0, 0, {0, 0, 1}},
    {PIXEL_FORMAT_YVU_SEMIPLANAR_444, "YVU444SP", Layout::semi_planar, true, 3, 0, 0, {0, 1, 0}},
    {PIXEL_FORMAT_YUV_SEMIPLANAR_440, "YUV440SP", Layout::semi_planar, true, 3, 0, 1, {0, 0, 1}},
    {PIXEL_FORMAT_YVU_SEMIPLANAR_440, "YVU440SP", Layout::semi_planar, true, 3, 0, 1, {0, 1, 0}},
    {PIXEL_FORMAT_YUYV_PACKED_422, "YUYV422", Layout::packed_422, true, 3, 1, 0, {0, 1, 3}},
    {PIXEL_FORMAT_UYVY_PACKED_422, "UYVY422", Layout::packed_422, true, 3, 1, 0, {1, 0, 2}},
    {PIXEL_FORMAT_YVYU_PACKED_422, "YVYU422", Layout::packed_422, true, 3, 1, 0, {0, 3, 1}},
    {PIXEL_FORMAT_VYUY_PACKED_422, "VYUY422", Layout::packed_422, true, 3, 1, 0, {1, 2, 0}},
    {PIXEL_FORMAT_YUV_PACKED_444, "YUV444", Layout::packed, true, 3, 0, 0, {0, 1, 2}},
    {PIXEL_FORMAT_RGB_888, "RGB888", Layout::packed, false, 3, 0, 0, {0, 1, 2}},
    {PIXEL_FORMAT_BGR_888, "BGR888", Layout::packed, false, 3, 0, 0, {2, 1, 0}},
    {PIXEL_FORMAT_ARGB_8888, "ARGB8888", Layout::packed, false, 4, 0, 0, {1, 2, 3, 0}},
    {PIXEL_FORMAT_ABGR_8888, "ABGR8888", Layout::packed, false, 4, 0, 0, {3, 2, 1, 0}},
    {PIXEL_FORMAT_RGBA_8888, "RGBA8888", Layout::packed, false, 4, 0, 0, {0, 1, 2, 3}},
    {PIXEL_FORMAT_BGRA_8888, "BGRA8888", Layout::packed, false, 4, 0, 0, {2, 1, 0, 3}},
};

}  // namespace

uint32_t PixelFormat::pixel_bytes() const {
  switch (layout) {
    case Layout::gray:
    case Layout::semi_planar:
      return 1;
    case Layout::packed_422:
      return 2;
    case Layout::packed:
      break;
  }
  return channels;
}

size_t PixelFormat::bytes(uint32_t width_stride, uint32_t height_stride) const {
  const size_t first = size_t{width_stride} * height_stride;
  return layout == Layout::semi_planar ? first + 2 * (first >> (shift_x + shift_y)) : first;
}

uint32_t PixelFormat::width_stride(uint32_t width, uint32_t align) const {
  // Of two pixels in four bytes it is the row that is aligned.
  return layout == Layout::packed_422 ? align_up(2 * width, align) : align_up(width, align) * pixel_bytes();
}

const PixelFormat* find_format(uint32_t id) {
  const auto* found = std::find_if(std::begin(kFormats), std::end(kFormats),
                                   [id](const PixelFormat& one) { return static_cast<uint32_t>(one.id) == id; });
  return found == std::end(kFormats) ? nullptr : found;
}

}  // namespace softcann::media
