#include "media/picture.h"

#include <algorithm>

#include "rt/memory/check.h"
#include "rt/base/error.h"

namespace softcann::media {
namespace {

// Where the samples of one channel lie in a picture.
struct Samples {
  uint8_t* first = nullptr;
  size_t row = 0, step = 0;  // bytes from one sample to the next below, and beside
  uint8_t shift_x = 0, shift_y = 0;

  uint8_t* at(uint32_t x, uint32_t y) const { return first + y * row + x * step; }
};

Samples samples_of(const Picture& picture, const PixelFormat& format, uint8_t channel) {
  auto* data = static_cast<uint8_t*>(device_view(picture.data));
  const size_t stride = picture.width_stride;
  const uint8_t place = format.place[channel];
  switch (format.layout) {
    case Layout::gray:
      return {data, stride, 1};
    case Layout::semi_planar: {
      if (channel == 0) return {data, stride, 1};
      uint8_t* chroma = data + stride * picture.height_stride;
      return {chroma + place, (stride >> format.shift_x) * 2, 2, format.shift_x, format.shift_y};
    }
    case Layout::packed_422:
      if (channel == 0) return {data + place, stride, 2};
      return {data + place, stride, 4, 1, 0};
    case Layout::packed:
      break;
  }
  return {data + place, stride, format.channels};
}

uint32_t shifted(uint32_t size, uint8_t shift) { return (size + (1U << shift) - 1) >> shift; }

aclError check_strides(const char* entry, const char* which, const Picture& picture, const PixelFormat& format,
                       const Limits& limits) {
  // Pictures that are wider than 4096 are aligned to 2.
  const uint32_t align = picture.width > 4096 ? 2 : limits.width_align;
  const uint32_t least = format.width_stride(picture.width, align);
  const uint32_t unit = format.layout == Layout::packed_422 ? align : align * format.pixel_bytes();
  if (picture.width_stride < least || picture.width_stride % unit != 0) {
    return fail(ACL_ERROR_INVALID_PARAM,
                "%s: the width stride of the %s, %s of %u x %u, is %u bytes; it must be at least %u, and a multiple of %u", entry,
                which, format.name, picture.width, picture.height, picture.width_stride, least, unit);
  }
  if (picture.height_stride < picture.height || picture.height_stride % limits.height_align != 0) {
    return fail(ACL_ERROR_INVALID_PARAM,
                "%s: the height stride of the %s is %u; it must be at least its height, %u, and a multiple of %u", entry, which,
                picture.height_stride, picture.height, limits.height_align);
  }
  if (picture.width_stride > 4 * limits.max_width || picture.height_stride > 2 * limits.max_height) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: the strides of the %s are %u and %u", entry, which, picture.width_stride,
                picture.height_stride);
  }
  return ACL_SUCCESS;
}

}  // namespace

aclError check_picture(const char* entry, const char* which, const Picture& picture, const Limits& limits) {
  const PixelFormat* format = find_format(picture.format);
  if (format == nullptr) {
    return fail(ACL_ERROR_FEATURE_UNSUPPORTED, "%s: the %s is of pixel format %u, which is not served", entry, which,
                picture.format);
  }
  if (picture.width < limits.min_width || picture.width > limits.max_width || picture.height < limits.min_height ||
      picture.height > limits.max_height) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: the %s is %u x %u; %u x %u to %u x %u is possible", entry, which, picture.width,
                picture.height, limits.min_width, limits.min_height, limits.max_width, limits.max_height);
  }
  if (picture.width % (1U << format->shift_x) != 0 || picture.height % (1U << format->shift_y) != 0) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: the %s is %u x %u; width%s must be even for %s", entry, which, picture.width,
                picture.height, format->shift_y ? " and height" : "", format->name);
  }
  if (const aclError code = check_strides(entry, which, picture, *format, limits)) return code;
  const size_t bytes = format->bytes(picture.width_stride, picture.height_stride);
  if (picture.size < bytes) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: the %s has %u bytes, %zu are needed", entry, which, picture.size, bytes);
  }
  if (!is_device_pointer(picture.data)) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: the data of the %s is no memory of acldvppMalloc", entry, which);
  }
  return check_device_range(picture.data, bytes);
}

aclError check_region(const char* entry, const char* which, const Picture& picture, const Region& region) {
  const uint64_t right = uint64_t{region.left} + region.width, bottom = uint64_t{region.top} + region.height;
  if (right > picture.width || bottom > picture.height || region.width < 2 || region.height < 2) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: the %s, %u x %u at %u, %u, leaves the picture of %u x %u", entry, which,
                region.width, region.height, region.left, region.top, picture.width, picture.height);
  }
  if ((region.left | region.top | region.width | region.height) % 2 != 0) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: the %s, %u x %u at %u, %u, must begin at even and end at odd pixels", entry, which,
                region.width, region.height, region.left, region.top);
  }
  return ACL_SUCCESS;
}

Image read_image(const Picture& picture, const Region& region) {
  const PixelFormat& format = *find_format(picture.format);
  Image image{format.is_yuv, format.shift_x, format.shift_y, {}};
  for (uint8_t channel = 0; channel < format.channels; ++channel) {
    const Samples from = samples_of(picture, format, channel);
    Plane& plane = image.planes.emplace_back(shifted(region.width, from.shift_x), shifted(region.height, from.shift_y));
    for (uint32_t y = 0; y < plane.height; ++y) {
      const uint8_t* source = from.at(region.left >> from.shift_x, (region.top >> from.shift_y) + y);
      uint8_t* to = plane.row(y);
      for (uint32_t x = 0; x < plane.width; ++x) to[x] = source[x * from.step];
    }
  }
  return image;
}

void write_image(const Image& image, const Picture& picture, uint32_t left, uint32_t top) {
  const PixelFormat& format = *find_format(picture.format);
  for (uint8_t channel = 0; channel < format.channels; ++channel) {
    const Samples into = samples_of(picture, format, channel);
    const Plane& plane = image.planes[channel];
    const uint32_t width = std::min(plane.width, shifted(picture.width - left, into.shift_x));
    const uint32_t height = std::min(plane.height, shifted(picture.height - top, into.shift_y));
    for (uint32_t y = 0; y < height; ++y) {
      uint8_t* to = into.at(left >> into.shift_x, (top >> into.shift_y) + y);
      const uint8_t* source = plane.row(y);
      for (uint32_t x = 0; x < width; ++x) to[x * into.step] = source[x];
    }
  }
  check::mark_written_elsewhere(picture.data, format.bytes(picture.width_stride, picture.height_stride));
}

}  // namespace softcann::media
