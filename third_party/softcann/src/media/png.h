// PNG by libpng, which is loaded when the first picture comes.
#pragma once

#include "media/jpeg.h"

namespace softcann::media {

// As jpeg_info() and decode_jpeg(): R, G, B, and A if it has any.
CodedInfo png_info(const void* data, size_t bytes);
Image decode_png(const void* data, size_t bytes);

}  // namespace softcann::media
