#include "rt/models/aipp_parameters.h"

#include <cstring>

namespace softcann {

void write_aipp(const Aipp& aipp, void* to) {
  AippCommon common = aipp.common;
  common.mark = kAippMark;
  common.pictures = static_cast<uint32_t>(aipp.pictures.size());
  std::memcpy(to, &common, sizeof(common));
  std::memcpy(static_cast<char*>(to) + sizeof(common), aipp.pictures.data(), aipp.pictures.size() * sizeof(AippPicture));
}

bool read_aipp(const void* from, size_t bytes, Aipp* to) {
  if (bytes < sizeof(AippCommon)) return false;
  std::memcpy(&to->common, from, sizeof(AippCommon));
  if (to->common.mark != kAippMark || bytes < aipp_bytes(to->common.pictures)) return false;
  to->pictures.resize(to->common.pictures);
  std::memcpy(to->pictures.data(), static_cast<const char*>(from) + sizeof(AippCommon),
              to->pictures.size() * sizeof(AippPicture));
  return true;
}

int32_t aipp_channels(int32_t format) { return format == ACL_YUV400_U8 ? 1 : format == ACL_XRGB8888_U8 ? 4 : 3; }

size_t aipp_picture_bytes(const AippCommon& common) {
  const size_t pixels = static_cast<size_t>(common.width) * static_cast<size_t>(common.height);
  switch (common.format) {
    case ACL_YUV420SP_U8:
      return pixels * 3 / 2;
    case ACL_XRGB8888_U8:
    case ACL_RGB888_U8:
    case ACL_YUV400_U8:
      return pixels * static_cast<size_t>(aipp_channels(common.format));
    default:
      return 0;
  }
}

namespace {

std::string sizes(int64_t height, int64_t width) { return std::to_string(height) + " x " + std::to_string(width); }

std::string picture_problem(const Aipp& aipp, const AippPicture& one, int64_t height, int64_t width) {
  const AippCommon& common = aipp.common;
  const int64_t cut_h = aipp.height(one), cut_w = aipp.width(one);
  if (one.crop && (one.crop_left < 0 || one.crop_top < 0 || cut_h <= 0 || cut_w <= 0 || one.crop_left + cut_w > common.width ||
                   one.crop_top + cut_h > common.height)) {
    return "the crop of " + sizes(cut_h, cut_w) + " from " + std::to_string(one.crop_top) + ", " + std::to_string(one.crop_left) +
           " leaves the picture of " + sizes(common.height, common.width);
  }
  if (one.crop && common.format == ACL_YUV420SP_U8 && ((one.crop_left | one.crop_top) & 1) != 0) {
    return "the crop of a YUV420SP_U8 picture begins at even pixels";
  }
  const int64_t pads[] = {one.top, one.bottom, one.left, one.right};
  for (const int64_t pad : pads) {
    if (one.pad && (pad < 0 || pad > 32)) return "paddings are 0 to 32";
  }
  const int64_t made_h = cut_h + (one.pad ? one.top + one.bottom : 0), made_w = cut_w + (one.pad ? one.left + one.right : 0);
  if (made_h == height && made_w == width) return "";
  return "they make pictures of " + sizes(made_h, made_w) + ", the network takes " + sizes(height, width);
}

}  // namespace

std::string aipp_problem(const Aipp& aipp, const ModelTensor& input) {
  const AippCommon& common = aipp.common;
  const std::vector<int64_t>& dims = input.network->dims;
  if (common.width < 1 || common.width > 4096 || common.height < 1 || common.height > 4096) {
    return "the source is " + sizes(common.height, common.width) + " (aclmdlSetAIPPSrcImageSize)";
  }
  if (common.format == ACL_YUV420SP_U8 && ((common.width | common.height) & 1) != 0)
    return "YUV420SP_U8 pictures are of even sizes";
  const size_t bytes = aipp_picture_bytes(common) * static_cast<size_t>(dims[0]);
  if (bytes == 0) return "an input format must be set (aclmdlSetAIPPInputFormat)";
  if (bytes > static_cast<size_t>(input.dims[0])) {
    return "the pictures have " + std::to_string(bytes) + " bytes, max_src_image_size was " + std::to_string(input.dims[0]);
  }
  if (static_cast<int64_t>(aipp.pictures.size()) != dims[0]) {
    return "they are for " + std::to_string(aipp.pictures.size()) + " pictures, the batch is " + std::to_string(dims[0]);
  }
  const int32_t offered = common.format == ACL_XRGB8888_U8 && dims[1] != 4 ? 3 : aipp_channels(common.format);
  if (dims[1] != offered && !(common.convert && dims[1] == 1)) {
    return "they make " + std::to_string(offered) + " channels, the network takes " + std::to_string(dims[1]);
  }
  for (const AippPicture& one : aipp.pictures) {
    if (std::string problem = picture_problem(aipp, one, dims[2], dims[3]); !problem.empty()) return problem;
  }
  return "";
}

}  // namespace softcann
