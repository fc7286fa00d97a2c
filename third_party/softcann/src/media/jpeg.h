// JPEG by libjpeg-turbo, which is loaded when the first picture comes: the wheel needs it for nothing else.
#pragma once

#include <string>

#include "media/picture.h"

namespace softcann::media {

struct CodedInfo {
  uint32_t width = 0, height = 0;
  int32_t channels = 0;
  acldvppJpegFormat subsampling = ACL_JPEG_CSS_UNKNOWN;
};

// All throw Error: bad_argument for what is no such picture or one that the hardware's decoder does not take either, with the
// reason; unsupported where the library is missing.
CodedInfo jpeg_info(const void* data, size_t bytes);
// In the picture's own subsampling; sizes are rounded up to whole samples of chroma.
Image decode_jpeg(const void* data, size_t bytes);
// Room that is enough for any picture of that size.
size_t jpeg_bound(uint32_t width, uint32_t height, const PixelFormat& format);
// Quality 1 to 100. Throws bad_argument where `room` is too small; gives the bytes.
size_t encode_jpeg(const Image& image, uint32_t quality, void* to, size_t room);

}  // namespace softcann::media
