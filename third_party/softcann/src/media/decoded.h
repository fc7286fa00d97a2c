// What decoders of both interfaces make of a file's picture.
#pragma once

#include "media/jpeg.h"
#include "media/png.h"

namespace softcann::media {

// Of what decoders write: the strides are 64 (in pixels) by 16.
inline constexpr Limits kDecoded{32, 32, 8192, 8192, 64, 16};

constexpr uint32_t even(uint32_t size) { return size + size % 2; }

// The format a JPEG has by itself, V before U, as hardware writes it; of a PNG, that of its channels.
acldvppPixelFormat jpeg_format(const CodedInfo& info);
acldvppPixelFormat png_format(const CodedInfo& info);

// What is not said of a picture (0, PIXEL_FORMAT_UNKNOWN) is as the file has it; the width stride is a multiple of `align`
// pixels.
Picture completed(Picture picture, const CodedInfo& info, acldvppPixelFormat own, uint32_t align);

// Writes a decoded image, its edge repeated to even sizes. Throws Error(bad_argument) where it does not fit into the picture.
void write_decoded(const char* entry, Image image, const CodedInfo& info, const Picture& picture);

}  // namespace softcann::media
