// acldvppJpeg* and acldvppPng*: pictures from and to files.
#include "media/decoded.h"
#include "media/work.h"
#include "rt/memory/check.h"
#include "rt/base/error.h"

using namespace softcann;
using namespace softcann::media;

namespace {

// What a prediction allows for, whatever the chip.
constexpr uint32_t kWidestAlign = 128;

// Functions that compute at once: what they throw is their code.
template <class F>
aclError answered(const char* entry, F&& f) {
  try {
    f();
    return ACL_SUCCESS;
  } catch (const Error& error) {
    return fail(error.kind() == ErrorKind::unsupported ? ACL_ERROR_FEATURE_UNSUPPORTED : ACL_ERROR_INVALID_PARAM, "%s: %s", entry,
                error.what());
  } catch (const std::exception& error) {
    return fail(ACL_ERROR_BAD_ALLOC, "%s: %s", entry, error.what());
  }
}

aclError predict(const char* entry, const CodedInfo& info, const PixelFormat& format, uint32_t* bytes) {
  const uint32_t stride = format.width_stride(even(info.width), kWidestAlign);
  const size_t needed = format.bytes(stride, align_up(info.height, 16));
  if (needed > UINT32_MAX) return fail(ACL_ERROR_INVALID_PARAM, "%s: the picture has %zu bytes", entry, needed);
  *bytes = static_cast<uint32_t>(needed);
  return ACL_SUCCESS;
}

bool is_semi_planar(uint32_t format) {
  const PixelFormat* found = find_format(format);
  return found != nullptr && (found->layout == Layout::semi_planar || found->layout == Layout::gray);
}

aclError check_coded(const char* entry, const void* data, uint32_t size) {
  SOFTCANN_REQUIRE(data, "data");
  if (size == 0) return fail(ACL_ERROR_INVALID_PARAM, "%s: size is 0", entry);
  if (!is_device_pointer(data)) return fail(ACL_ERROR_INVALID_PARAM, "%s: data is no memory of acldvppMalloc", entry);
  return check_device_range(data, size);
}

aclError submit_decode(const char* entry, const void* data, uint32_t size, const acldvppPicDesc* output, aclrtStream stream,
                       CodedInfo (*info)(const void*, size_t), Image (*decode)(const void*, size_t),
                       acldvppPixelFormat (*own)(const CodedInfo&)) {
  if (const aclError code = check_coded(entry, data, size)) return code;
  if (!is_device_pointer(output->state->picture.data)) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: the data of the output is no memory of acldvppMalloc", entry);
  }
  return submit_work(
      entry, stream,
      [entry, data, size, info, decode, own, state = output->state] {
        const void* bytes = device_view(data);
        const CodedInfo found = info(bytes, size);
        const Picture picture = completed(state->picture, found, own(found), kWidestAlign);
        write_decoded(entry, decode(bytes, size), found, picture);
        state->picture = picture;
      },
      [state = output->state](uint32_t code) { state->result = code; });
}

}  // namespace

extern "C" {

aclError acldvppJpegGetImageInfoV2(const void* data, uint32_t size, uint32_t* width, uint32_t* height, int32_t* components,
                                   acldvppJpegFormat* format) {
  SOFTCANN_ENTRY(acldvppJpegGetImageInfoV2);
  SOFTCANN_REQUIRE(data, "data");
  return answered("acldvppJpegGetImageInfoV2", [&] {
    const CodedInfo info = jpeg_info(data, size);
    if (width != nullptr) *width = info.width;
    if (height != nullptr) *height = info.height;
    if (components != nullptr) *components = info.channels;
    if (format != nullptr) *format = info.subsampling;
  });
}

aclError acldvppJpegGetImageInfo(const void* data, uint32_t size, uint32_t* width, uint32_t* height, int32_t* components) {
  SOFTCANN_ENTRY(acldvppJpegGetImageInfo);
  return acldvppJpegGetImageInfoV2(data, size, width, height, components, nullptr);
}

aclError acldvppJpegPredictDecSize(const void* data, uint32_t dataSize, acldvppPixelFormat outputPixelFormat, uint32_t* decSize) {
  SOFTCANN_ENTRY(acldvppJpegPredictDecSize);
  SOFTCANN_REQUIRE(data, "data");
  SOFTCANN_REQUIRE(decSize, "decSize");
  constexpr const char* entry = "acldvppJpegPredictDecSize";
  CodedInfo info;
  if (const aclError code = answered(entry, [&] { info = jpeg_info(data, dataSize); })) return code;
  const uint32_t format = outputPixelFormat == PIXEL_FORMAT_UNKNOWN ? jpeg_format(info) : outputPixelFormat;
  if (!is_semi_planar(format))
    return fail(ACL_ERROR_FEATURE_UNSUPPORTED, "%s: JPEG is not decoded to pixel format %u", entry, format);
  return predict(entry, info, *find_format(format), decSize);
}

aclError acldvppJpegDecodeAsync(acldvppChannelDesc* channelDesc, const void* data, uint32_t size, acldvppPicDesc* outputDesc,
                                aclrtStream stream) {
  SOFTCANN_ENTRY(acldvppJpegDecodeAsync);
  SOFTCANN_REQUIRE(outputDesc, "outputDesc");
  constexpr const char* entry = "acldvppJpegDecodeAsync";
  if (const aclError code = check_channel(entry, channelDesc, DVPP_CHNMODE_JPEGD)) return code;
  const uint32_t format = outputDesc->state->picture.format;
  if (format != PIXEL_FORMAT_UNKNOWN && !is_semi_planar(format)) {
    return fail(ACL_ERROR_FEATURE_UNSUPPORTED,
                "%s: JPEG is not decoded to pixel format %u: decode to YUV420SP and convert with acldvppVpcConvertColorAsync",
                entry, format);
  }
  return submit_decode(entry, data, size, outputDesc, stream, jpeg_info, decode_jpeg, jpeg_format);
}

aclError acldvppJpegPredictEncSize(const acldvppPicDesc* inputDesc, const acldvppJpegeConfig*, uint32_t* size) {
  SOFTCANN_ENTRY(acldvppJpegPredictEncSize);
  SOFTCANN_REQUIRE(inputDesc, "inputDesc");
  SOFTCANN_REQUIRE(size, "size");
  const Picture& picture = inputDesc->state->picture;
  constexpr const char* entry = "acldvppJpegPredictEncSize";
  const PixelFormat* format = find_format(picture.format);
  if (format == nullptr || !format->is_yuv || picture.width > 8192 || picture.height > 8192) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: pictures of pixel format %u, %u x %u, are not encoded", entry, picture.format,
                picture.width, picture.height);
  }
  return answered(entry, [&] { *size = static_cast<uint32_t>(jpeg_bound(picture.width, picture.height, *format)); });
}

aclError acldvppJpegEncodeAsync(acldvppChannelDesc* channelDesc, acldvppPicDesc* inputDesc, const void* data, uint32_t* size,
                                acldvppJpegeConfig* config, aclrtStream stream) {
  SOFTCANN_ENTRY(acldvppJpegEncodeAsync);
  SOFTCANN_REQUIRE(inputDesc, "inputDesc");
  SOFTCANN_REQUIRE(size, "size");
  constexpr const char* entry = "acldvppJpegEncodeAsync";
  if (const aclError code = check_channel(entry, channelDesc, DVPP_CHNMODE_JPEGE)) return code;
  const Picture picture = inputDesc->state->picture;
  if (const aclError code = check_picture(entry, "input", picture, {32, 32, 8192, 8192, 16, 2})) return code;
  if (!find_format(picture.format)->is_yuv) {
    return fail(ACL_ERROR_FEATURE_UNSUPPORTED, "%s: %s is not encoded: convert it with acldvppVpcConvertColorAsync", entry,
                find_format(picture.format)->name);
  }
  if (const aclError code = check_coded(entry, data, *size)) return code;
  // Level 0 is the best there is, as 100.
  const uint32_t level = config == nullptr || config->level == 0 ? 100 : config->level;
  return submit_work(
      entry, stream,
      [picture, data, size, room = *size, level] {
        *size = static_cast<uint32_t>(encode_jpeg(read_image(picture), level, device_view(data), room));
        check::mark_written_elsewhere(data, *size);
      },
      [state = inputDesc->state](uint32_t code) { state->result = code; });
}

aclError acldvppPngGetImageInfo(const void* data, uint32_t dataSize, uint32_t* width, uint32_t* height, int32_t* components) {
  SOFTCANN_ENTRY(acldvppPngGetImageInfo);
  SOFTCANN_REQUIRE(data, "data");
  return answered("acldvppPngGetImageInfo", [&] {
    const CodedInfo info = png_info(data, dataSize);
    if (width != nullptr) *width = info.width;
    if (height != nullptr) *height = info.height;
    if (components != nullptr) *components = info.channels;
  });
}

aclError acldvppPngPredictDecSize(const void* data, uint32_t dataSize, acldvppPixelFormat outputPixelFormat, uint32_t* decSize) {
  SOFTCANN_ENTRY(acldvppPngPredictDecSize);
  SOFTCANN_REQUIRE(data, "data");
  SOFTCANN_REQUIRE(decSize, "decSize");
  constexpr const char* entry = "acldvppPngPredictDecSize";
  CodedInfo info;
  if (const aclError code = answered(entry, [&] { info = png_info(data, dataSize); })) return code;
  const uint32_t format = outputPixelFormat == PIXEL_FORMAT_UNKNOWN ? png_format(info) : outputPixelFormat;
  if (format != PIXEL_FORMAT_RGB_888 && format != PIXEL_FORMAT_RGBA_8888) {
    return fail(ACL_ERROR_FEATURE_UNSUPPORTED, "%s: PNG is decoded to RGB888 and RGBA8888, not to pixel format %u", entry,
                format);
  }
  return predict(entry, info, *find_format(format), decSize);
}

aclError acldvppPngDecodeAsync(acldvppChannelDesc* channelDesc, const void* data, uint32_t size, acldvppPicDesc* outputDesc,
                               aclrtStream stream) {
  SOFTCANN_ENTRY(acldvppPngDecodeAsync);
  SOFTCANN_REQUIRE(outputDesc, "outputDesc");
  constexpr const char* entry = "acldvppPngDecodeAsync";
  if (const aclError code = check_channel(entry, channelDesc, DVPP_CHNMODE_PNGD)) return code;
  const uint32_t format = outputDesc->state->picture.format;
  if (format != PIXEL_FORMAT_RGB_888 && format != PIXEL_FORMAT_RGBA_8888) {
    return fail(ACL_ERROR_FEATURE_UNSUPPORTED, "%s: PNG is decoded to RGB888 and RGBA8888, not to pixel format %u", entry,
                format);
  }
  return submit_decode(entry, data, size, outputDesc, stream, png_info, decode_png, png_format);
}
}
