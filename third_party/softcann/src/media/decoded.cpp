#include "media/decoded.h"

#include "media/color.h"
#include "media/transform.h"
#include "rt/base/error.h"

namespace softcann::media {

acldvppPixelFormat jpeg_format(const CodedInfo& info) {
  switch (info.subsampling) {
    case ACL_JPEG_CSS_444:
      return PIXEL_FORMAT_YVU_SEMIPLANAR_444;
    case ACL_JPEG_CSS_422:
      return PIXEL_FORMAT_YVU_SEMIPLANAR_422;
    case ACL_JPEG_CSS_440:
      return PIXEL_FORMAT_YVU_SEMIPLANAR_440;
    case ACL_JPEG_CSS_GRAY:
      return PIXEL_FORMAT_YUV_400;
    default:
      return PIXEL_FORMAT_YVU_SEMIPLANAR_420;
  }
}

acldvppPixelFormat png_format(const CodedInfo& info) {
  return info.channels == 4 ? PIXEL_FORMAT_RGBA_8888 : PIXEL_FORMAT_RGB_888;
}

Picture completed(Picture picture, const CodedInfo& info, acldvppPixelFormat own, uint32_t align) {
  if (picture.format == PIXEL_FORMAT_UNKNOWN) picture.format = own;
  const PixelFormat* format = find_format(picture.format);
  if (picture.width == 0) picture.width = even(info.width);
  if (picture.height == 0) picture.height = even(info.height);
  if (picture.width_stride == 0 && format != nullptr) picture.width_stride = format->width_stride(picture.width, align);
  if (picture.height_stride == 0) picture.height_stride = align_up(picture.height, 16);
  return picture;
}

void write_decoded(const char* entry, Image image, const CodedInfo& info, const Picture& picture) {
  if (check_picture(entry, "output", picture, kDecoded) != ACL_SUCCESS) {
    throw Error(ErrorKind::bad_argument, take_recent_error());
  }
  if (picture.width != even(info.width) || picture.height != even(info.height)) {
    throw Error(ErrorKind::bad_argument, "the picture is " + std::to_string(info.width) + " x " + std::to_string(info.height) +
                                             ", the output " + std::to_string(picture.width) + " x " +
                                             std::to_string(picture.height));
  }
  Border edge;
  edge.type = BORDER_REPLICATE;
  edge.right = image.width() % 2;
  edge.bottom = image.height() % 2;
  image = make_border(image, edge);
  write_image(convert(std::move(image), *find_format(picture.format), ACL_DVPP_CSC_MATRIX_BT601_WIDE), picture);
}

}  // namespace softcann::media
