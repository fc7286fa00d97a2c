#include "model/dynamic_aipp.h"

#include <ATen/ops/zeros.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <array>

#include "rt/base/error.h"

namespace softcann::model {
namespace {

using Pixel = std::array<int32_t, 4>;

Pixel raw_pixel(const AippCommon& common, const uint8_t* picture, int64_t x, int64_t y) {
  const int64_t at = y * common.width + x;
  switch (common.format) {
    case ACL_YUV400_U8:
      return {picture[at], 0, 0, 0};
    case ACL_RGB888_U8:
      return {picture[3 * at], picture[3 * at + 1], picture[3 * at + 2], 0};
    case ACL_XRGB8888_U8:
      return {picture[4 * at], picture[4 * at + 1], picture[4 * at + 2], picture[4 * at + 3]};
    default: {
      const uint8_t* chroma = picture + int64_t{common.width} * common.height + y / 2 * common.width + x / 2 * 2;
      return {picture[at], chroma[0], chroma[1], 0};
    }
  }
}

Pixel swapped(const AippCommon& common, Pixel pixel) {
  if (common.format == ACL_XRGB8888_U8 && common.swap_ax) std::rotate(pixel.begin(), pixel.begin() + 1, pixel.end());
  if (common.swap_rb_uv) {
    if (common.format == ACL_YUV420SP_U8) std::swap(pixel[1], pixel[2]);
    if (common.format == ACL_RGB888_U8 || common.format == ACL_XRGB8888_U8) std::swap(pixel[0], pixel[2]);
  }
  return pixel;
}

// From YUV the bias is taken off before, to YUV it is added after; 8 bits are shifted away.
Pixel converted(const AippCommon& common, const Pixel& pixel) {
  if (!common.convert || common.format == ACL_YUV400_U8) return pixel;
  const bool from_yuv = common.format == ACL_YUV420SP_U8;
  Pixel made = pixel;
  for (size_t row = 0; row < 3; ++row) {
    int32_t sum = 0;
    for (size_t k = 0; k < 3; ++k) sum += common.matrix[3 * row + k] * (pixel[k] - (from_yuv ? common.input_bias[k] : 0));
    made[row] = std::clamp((sum >> 8) + (from_yuv ? 0 : common.output_bias[row]), 0, 255);
  }
  return made;
}

void fill(const Aipp& aipp, const AippPicture& one, const uint8_t* picture, bool floating, const std::vector<int64_t>& dims,
          float* to) {
  const int64_t plane = dims[2] * dims[3], top = one.pad ? one.top : 0, left = one.pad ? one.left : 0;
  const int64_t from_x = one.crop ? one.crop_left : 0, from_y = one.crop ? one.crop_top : 0;
  for (int64_t y = 0; y < aipp.height(one); ++y) {
    for (int64_t x = 0; x < aipp.width(one); ++x) {
      const Pixel pixel = converted(aipp.common, swapped(aipp.common, raw_pixel(aipp.common, picture, from_x + x, from_y + y)));
      float* place = to + (y + top) * dims[3] + x + left;
      for (int64_t c = 0; c < dims[1]; ++c) {
        auto value = static_cast<float>(pixel[static_cast<size_t>(c)]);
        if (floating) value = (value - (static_cast<float>(one.mean[c]) + one.min[c])) * one.scale[c];
        place[c * plane] = value;
      }
    }
  }
}

}  // namespace

at::Tensor processed(const ModelTensor& input, const ModelArgument& pictures, const ModelArgument& parameters,
                     at::ScalarType type) {
  Aipp aipp;
  if (!read_aipp(parameters.data, parameters.bytes, &aipp)) {
    throw Error(ErrorKind::bad_argument,
                "input '" + input.name + "' needs AIPP's parameters: call aclmdlSetInputAIPP before the run");
  }
  if (const std::string problem = aipp_problem(aipp, input); !problem.empty()) {
    throw Error(ErrorKind::bad_argument, "AIPP's parameters of input '" + input.name + "': " + problem);
  }
  const std::vector<int64_t>& dims = input.network->dims;
  at::Tensor made = at::zeros(dims, at::kFloat);
  const size_t bytes = aipp_picture_bytes(aipp.common);
  for (int64_t n = 0; n < dims[0]; ++n) {
    fill(aipp, aipp.pictures[static_cast<size_t>(n)], static_cast<const uint8_t*>(pictures.data) + static_cast<size_t>(n) * bytes,
         at::isFloatingType(type), dims, made.data_ptr<float>() + n * dims[1] * dims[2] * dims[3]);
  }
  if (input.network->channels_last) made = made.permute({0, 2, 3, 1}).contiguous();
  return made.to(type);
}

}  // namespace softcann::model
