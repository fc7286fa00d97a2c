// From one pixel format's channels to another's.
#pragma once

#include "media/picture.h"

namespace softcann::media {

// An image with the channels and the subsampling of a format: chroma is repeated or averaged, colours are converted in
// integers of 16 fractional bits, a missing alpha is 255.
Image convert(Image image, const PixelFormat& to, acldvppCscMatrix matrix);

}  // namespace softcann::media
