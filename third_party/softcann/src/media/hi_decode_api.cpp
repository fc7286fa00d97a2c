// libacl_dvpp_mpi: JPEG and PNG decoders of the media interface V2. A stream is decoded before the call that sends it returns;
// video is refused.
#include <functional>

#include "media/decoded.h"
#include "media/hi_channels.h"
#include "rt/memory/check.h"

using namespace softcann;
using namespace softcann::media;

namespace {

constexpr uint32_t kAlign = 64;  // of the widths of what decoders write, in pixels

// A picture that was decoded, or not: then `cause` says why.
template <class Stream>
struct Decoded {
  Picture picture;
  Stream stream{};
  bool good = false;
  std::string cause;
};

struct JpegChannel {
  hi_vdec_chn_attr attributes{};
  hi_vdec_chn_param parameters{};
  bool started = false;
  hi_u32 received = 0, decoded = 0;
  std::mutex mutex;  // of the above
  Results<Decoded<hi_vdec_stream>> results;
};

struct PngChannel {
  Results<Decoded<hi_img_stream>> results;
};

ChannelTable<JpegChannel>& jpeg_channels() {
  static auto* table = new ChannelTable<JpegChannel>(HI_ID_VDEC, HI_VDEC_MAX_CHN_NUM);
  return *table;
}

ChannelTable<PngChannel>& png_channels() {
  static auto* table = new ChannelTable<PngChannel>(HI_ID_PNGD, HI_PNGD_MAX_CHN_NUM);
  return *table;
}

int32_t vdec_code(Cause cause) { return hi_code(HI_ID_VDEC, cause); }
int32_t pngd_code(Cause cause) { return hi_code(HI_ID_PNGD, cause); }

int32_t no_video(const char* entry) {
  return fail(
      vdec_code(kUnsupported),
      "%s: softcann decodes no video, only JPEG (HI_PT_JPEG): decode on the host (FFmpeg, PyAV, OpenCV) and copy the frames "
      "to memory of hi_mpi_dvpp_malloc",
      entry);
}

// What `ask` throws becomes a code of the module.
int32_t answered(hi_mod_id module, const char* entry, const std::function<void()>& ask) {
  try {
    ask();
    return HI_SUCCESS;
  } catch (const Error& error) {
    return fail(hi_code(module, error.kind() == ErrorKind::unsupported ? kUnsupported : kBadArgument), "%s: %s", entry,
                error.what());
  } catch (const std::exception& error) {
    return fail(hi_code(module, kNoMemory), "%s: %s", entry, error.what());
  }
}

using Read = CodedInfo (*)(const void*, size_t);
using Decode = Image (*)(const void*, size_t);
using Own = acldvppPixelFormat (*)(const CodedInfo&);

template <class Stream>
Decoded<Stream> decode(const char* entry, const void* bytes, uint32_t size, Picture picture, Read read, Decode decoder, Own own) {
  Decoded<Stream> made;
  made.picture = picture;
  try {
    const CodedInfo info = read(bytes, size);
    made.picture = completed(picture, info, own(info), kAlign);
    write_decoded(entry, decoder(bytes, size), info, made.picture);
    check::mark_written_elsewhere(made.picture.data, made.picture.size);
    made.good = true;
  } catch (const std::exception& error) {
    made.cause = error.what();
  }
  return made;
}

// The decoder's output must be device memory; the rest of it is checked with the file's own sizes.
bool is_output(const void* data, uint32_t size) {
  return data != nullptr && is_device_pointer(data) && check_device_range(data, size) == ACL_SUCCESS;
}

hi_jpeg_raw_format raw_format(acldvppJpegFormat subsampling) {
  switch (subsampling) {
    case ACL_JPEG_CSS_444:
      return HI_JPEG_RAW_FORMAT_YUV444;
    case ACL_JPEG_CSS_422:
      return HI_JPEG_RAW_FORMAT_YUV422;
    case ACL_JPEG_CSS_440:
      return HI_JPEG_RAW_FORMAT_YUV440;
    case ACL_JPEG_CSS_GRAY:
      return HI_JPEG_RAW_FORMAT_YUV400;
    case ACL_JPEG_CSS_411:
      return HI_JPEG_RAW_FORMAT_YUV411;
    default:
      return HI_JPEG_RAW_FORMAT_YUV420;
  }
}

// Sizes, strides and bytes of a decoder's output in `format`.
void describe(const CodedInfo& info, acldvppPixelFormat format, hi_img_info* to) {
  const Picture picture = completed({}, info, format, kAlign);
  *to = {};
  to->width = info.width;
  to->height = info.height;
  to->width_stride = picture.width_stride;
  to->height_stride = picture.height_stride;
  to->img_buf_size = static_cast<hi_u32>(find_format(format)->bytes(picture.width_stride, picture.height_stride));
}

hi_video_frame_info frame_of(const Decoded<hi_vdec_stream>& made) {
  hi_video_frame_info to{};
  to.mod_id = HI_ID_VDEC;
  hi_video_frame& frame = to.v_frame;
  frame.width = made.picture.width;
  frame.height = made.picture.height;
  frame.field = HI_VIDEO_FIELD_FRAME;
  frame.pixel_format = made.picture.format;
  frame.width_stride[0] = made.picture.width_stride;
  frame.height_stride[0] = made.picture.height_stride;
  frame.virt_addr[0] = made.picture.data;
  frame.pts = made.stream.pts;
  frame.frame_flag = made.good ? 0 : 1;
  return to;
}

}  // namespace

extern "C" {

hi_s32 hi_mpi_vdec_create_chn(hi_vdec_chn chn, const hi_vdec_chn_attr* attr) {
  SOFTCANN_ENTRY(hi_mpi_vdec_create_chn);
  HI_REQUIRE(HI_ID_VDEC, attr);
  if (attr->type != HI_PT_JPEG && attr->type != HI_PT_MJPEG) return no_video(__func__);
  auto channel = std::make_shared<JpegChannel>();
  channel->attributes = *attr;
  channel->parameters.type = attr->type;
  channel->parameters.pic_param.pixel_format = HI_PIXEL_FORMAT_UNKNOWN;
  return jpeg_channels().create(__func__, chn, channel);
}

HI_DESTROY(hi_mpi_vdec_destroy_chn, hi_vdec_chn, jpeg_channels())

hi_s32 hi_mpi_vdec_set_chn_attr(hi_vdec_chn chn, const hi_vdec_chn_attr* attr) {
  SOFTCANN_ENTRY(hi_mpi_vdec_set_chn_attr);
  HI_REQUIRE(HI_ID_VDEC, attr);
  HI_LOCK_CHANNEL_OR_RETURN(channel, jpeg_channels(), chn);
  if (attr->type != channel->attributes.type)
    return fail(vdec_code(kNotPermitted), "%s: a channel keeps its type; create another", __func__);
  channel->attributes = *attr;
  return HI_SUCCESS;
}

HI_TELL(hi_mpi_vdec_get_chn_attr, HI_ID_VDEC, hi_vdec_chn, jpeg_channels(), hi_vdec_chn_attr, attr, attributes)
SOFTCANN_REFUSED(hi_mpi_vdec_set_protocol_param, no_video, hi_vdec_chn, const hi_vdec_protocol_param*)
SOFTCANN_REFUSED(hi_mpi_vdec_get_protocol_param, no_video, hi_vdec_chn, hi_vdec_protocol_param*)
HI_START(hi_mpi_vdec_start_recv_stream, hi_vdec_chn, jpeg_channels(), true)
HI_START(hi_mpi_vdec_stop_recv_stream, hi_vdec_chn, jpeg_channels(), false)

hi_s32 hi_mpi_vdec_query_status(hi_vdec_chn chn, hi_vdec_chn_status* status) {
  SOFTCANN_ENTRY(hi_mpi_vdec_query_status);
  HI_REQUIRE(HI_ID_VDEC, status);
  HI_LOCK_CHANNEL_OR_RETURN(channel, jpeg_channels(), chn);
  *status = {};
  status->type = channel->attributes.type;
  status->left_decoded_frames = static_cast<hi_u32>(channel->results.size());
  status->is_started = channel->started ? HI_TRUE : HI_FALSE;
  status->recv_stream_frames = channel->received;
  status->dec_stream_frames = channel->decoded;
  return HI_SUCCESS;
}

hi_s32 hi_mpi_vdec_reset_chn(hi_vdec_chn chn) {
  SOFTCANN_ENTRY(hi_mpi_vdec_reset_chn);
  HI_LOCK_CHANNEL_OR_RETURN(channel, jpeg_channels(), chn);
  if (channel->started) return fail(vdec_code(kNotPermitted), "%s: call hi_mpi_vdec_stop_recv_stream before", __func__);
  channel->received = channel->decoded = 0;
  channel->results.clear();
  return HI_SUCCESS;
}

hi_s32 hi_mpi_vdec_set_chn_param(hi_vdec_chn chn, const hi_vdec_chn_param* chn_param) {
  SOFTCANN_ENTRY(hi_mpi_vdec_set_chn_param);
  HI_REQUIRE(HI_ID_VDEC, chn_param);
  HI_CHANNEL_OR_RETURN(channel, jpeg_channels(), chn);
  const uint32_t format = chn_param->pic_param.pixel_format;
  if (format != HI_PIXEL_FORMAT_UNKNOWN && find_format(format) == nullptr)
    return fail(vdec_code(kUnsupported), "%s: JPEG is not decoded to pixel format %u", __func__, format);
  const std::lock_guard<std::mutex> lock(channel->mutex);
  channel->parameters = *chn_param;
  return HI_SUCCESS;
}

HI_TELL(hi_mpi_vdec_get_chn_param, HI_ID_VDEC, hi_vdec_chn, jpeg_channels(), hi_vdec_chn_param, chn_param, parameters)

hi_s32 hi_mpi_vdec_send_stream(hi_vdec_chn chn, const hi_vdec_stream* stream, hi_vdec_pic_info* vdec_pic_info, hi_s32) {
  SOFTCANN_ENTRY(hi_mpi_vdec_send_stream);
  HI_REQUIRE(HI_ID_VDEC, stream);
  HI_CHANNEL_OR_RETURN(channel, jpeg_channels(), chn);
  if (stream->end_of_stream == HI_TRUE && stream->len == 0) return HI_SUCCESS;
  HI_REQUIRE(HI_ID_VDEC, vdec_pic_info);
  const hi_vdec_pic_info& to = *vdec_pic_info;
  uint32_t format = to.pixel_format;
  {
    const std::lock_guard<std::mutex> lock(channel->mutex);
    if (!channel->started)
      return fail(vdec_code(kNotPermitted), "%s: channel %d does not receive: call hi_mpi_vdec_start_recv_stream", __func__, chn);
    if (format == HI_PIXEL_FORMAT_UNKNOWN) format = channel->parameters.pic_param.pixel_format;
    ++channel->received;
  }
  if (to.offset_top != 0 || to.offset_bottom != 0 || to.offset_left != 0 || to.offset_right != 0) {
    return fail(vdec_code(kUnsupported), "%s: a part of a JPEG is not decoded alone: decode it whole, and hi_mpi_vpc_crop",
                __func__);
  }
  auto* data = reinterpret_cast<void*>(to.vir_addr);
  if (!is_output(data, to.buffer_size))
    return fail(vdec_code(kBadArgument), "%s: the output is no memory of hi_mpi_dvpp_malloc of %u bytes", __func__,
                to.buffer_size);
  const void* bytes = hi_bytes(__func__, stream->addr, stream->len);
  if (bytes == nullptr) return vdec_code(kBadArgument);
  const Picture picture{data, to.buffer_size, format, to.width, to.height, to.width_stride, to.height_stride};
  auto made = decode<hi_vdec_stream>(__func__, bytes, stream->len, picture, jpeg_info, decode_jpeg, jpeg_format);
  made.stream = *stream;
  if (made.good) {
    const std::lock_guard<std::mutex> lock(channel->mutex);
    ++channel->decoded;
  }
  channel->results.push(std::move(made));
  return HI_SUCCESS;
}

hi_s32 hi_mpi_vdec_get_frame(hi_vdec_chn chn, hi_video_frame_info* frame_info, hi_vdec_supplement_info* supplement,
                             hi_vdec_stream* stream, hi_s32 milli_sec) {
  SOFTCANN_ENTRY(hi_mpi_vdec_get_frame);
  HI_REQUIRE(HI_ID_VDEC, frame_info);
  HI_CHANNEL_OR_RETURN(channel, jpeg_channels(), chn);
  const auto made = channel->results.pop(milli_sec);
  if (!made) return fail(vdec_code(kEmpty), "%s: channel %d has decoded nothing that was not fetched", __func__, chn);
  *frame_info = frame_of(*made);
  if (supplement != nullptr) {
    *supplement = {};
    supplement->type = HI_PT_JPEG;
  }
  if (stream != nullptr) *stream = made->stream;
  // As on hardware the frame tells that it is none (frame_flag); here the text tells why.
  if (!made->good) fail(vdec_code(kBadArgument), "%s: %s", __func__, made->cause.c_str());
  return HI_SUCCESS;
}

hi_s32 hi_mpi_vdec_release_frame(hi_vdec_chn chn, const hi_video_frame_info* frame_info) {
  SOFTCANN_ENTRY(hi_mpi_vdec_release_frame);
  HI_REQUIRE(HI_ID_VDEC, frame_info);
  HI_CHANNEL_OR_RETURN(channel, jpeg_channels(), chn);
  return HI_SUCCESS;  // the memory is the client's
}

HI_DESCRIPTOR(hi_mpi_vdec_get_fd, hi_mpi_vdec_close_fd, hi_vdec_chn, jpeg_channels())

hi_s32 hi_mpi_vdec_get_jpegd_output_info(const hi_vdec_stream* stream, hi_pixel_format output_format, hi_img_info* img_info) {
  SOFTCANN_ENTRY(hi_mpi_vdec_get_jpegd_output_info);
  HI_REQUIRE(HI_ID_VDEC, stream);
  HI_REQUIRE(HI_ID_VDEC, img_info);
  if (output_format != HI_PIXEL_FORMAT_UNKNOWN && find_format(output_format) == nullptr)
    return fail(vdec_code(kUnsupported), "%s: JPEG is not decoded to pixel format %u", __func__, output_format);
  const void* bytes = hi_bytes(__func__, stream->addr, stream->len);
  if (bytes == nullptr) return vdec_code(kBadArgument);
  return answered(HI_ID_VDEC, __func__, [&] {
    const CodedInfo info = jpeg_info(bytes, stream->len);
    const bool own = output_format == HI_PIXEL_FORMAT_UNKNOWN;
    describe(info, own ? jpeg_format(info) : static_cast<acldvppPixelFormat>(output_format), img_info);
    img_info->pixel_format = raw_format(info.subsampling);
  });
}

hi_s32 hi_mpi_dvpp_get_image_info(hi_payload_type img_type, const hi_vdec_stream* stream, hi_img_info* img_info) {
  SOFTCANN_ENTRY(hi_mpi_dvpp_get_image_info);
  if (img_type != HI_PT_JPEG && img_type != HI_PT_MJPEG) return no_video(__func__);
  return hi_mpi_vdec_get_jpegd_output_info(stream, HI_PIXEL_FORMAT_UNKNOWN, img_info);
}

hi_s32 hi_mpi_pngd_create_chn(hi_pngd_chn chn, const hi_pngd_chn_attr* attr) {
  SOFTCANN_ENTRY(hi_mpi_pngd_create_chn);
  HI_REQUIRE(HI_ID_PNGD, attr);
  return png_channels().create(__func__, chn, std::make_shared<PngChannel>());
}

HI_DESTROY(hi_mpi_pngd_destroy_chn, hi_pngd_chn, png_channels())

hi_s32 hi_mpi_pngd_send_stream(hi_pngd_chn chn, const hi_img_stream* stream, hi_pic_info* png_pic_info, hi_s32) {
  SOFTCANN_ENTRY(hi_mpi_pngd_send_stream);
  HI_REQUIRE(HI_ID_PNGD, stream);
  HI_REQUIRE(HI_ID_PNGD, png_pic_info);
  HI_CHANNEL_OR_RETURN(channel, png_channels(), chn);
  const hi_pic_info& to = *png_pic_info;
  if (to.picture_format != HI_PIXEL_FORMAT_UNKNOWN && to.picture_format != HI_PIXEL_FORMAT_RGB_888 &&
      to.picture_format != HI_PIXEL_FORMAT_RGBA_8888) {
    return fail(pngd_code(kUnsupported), "%s: PNG is decoded to RGB888 and RGBA8888, not to pixel format %u", __func__,
                to.picture_format);
  }
  if (!is_output(to.picture_address, to.picture_buffer_size)) {
    return fail(pngd_code(kBadArgument), "%s: the output is no memory of hi_mpi_dvpp_malloc of %u bytes", __func__,
                to.picture_buffer_size);
  }
  const void* bytes = hi_bytes(__func__, stream->addr, stream->len);
  if (bytes == nullptr) return pngd_code(kBadArgument);
  const Picture picture{to.picture_address, to.picture_buffer_size,  to.picture_format,       to.picture_width,
                        to.picture_height,  to.picture_width_stride, to.picture_height_stride};
  auto made = decode<hi_img_stream>(__func__, bytes, stream->len, picture, png_info, decode_png, png_format);
  made.stream = *stream;
  channel->results.push(std::move(made));
  return HI_SUCCESS;
}

hi_s32 hi_mpi_pngd_get_image_data(hi_pngd_chn chn, hi_pic_info* png_pic_info, hi_img_stream* stream, hi_s32 milli_sec) {
  SOFTCANN_ENTRY(hi_mpi_pngd_get_image_data);
  HI_REQUIRE(HI_ID_PNGD, png_pic_info);
  HI_CHANNEL_OR_RETURN(channel, png_channels(), chn);
  const auto made = channel->results.pop(milli_sec);
  if (!made) return fail(pngd_code(kEmpty), "%s: channel %d has decoded nothing that was not fetched", __func__, chn);
  const Picture& picture = made->picture;
  *png_pic_info = {picture.data,         picture.size,          picture.width, picture.height,
                   picture.width_stride, picture.height_stride, picture.format};
  if (stream != nullptr) *stream = made->stream;
  if (made->good) return HI_SUCCESS;
  return fail(pngd_code(kBadArgument), "%s: %s", __func__, made->cause.c_str());
}

hi_s32 hi_mpi_png_get_image_info(const hi_img_stream* png_stream, hi_img_info* img_info) {
  SOFTCANN_ENTRY(hi_mpi_png_get_image_info);
  HI_REQUIRE(HI_ID_PNGD, png_stream);
  HI_REQUIRE(HI_ID_PNGD, img_info);
  const void* bytes = hi_bytes(__func__, png_stream->addr, png_stream->len);
  if (bytes == nullptr) return pngd_code(kBadArgument);
  return answered(HI_ID_PNGD, __func__, [&] {
    const CodedInfo info = png_info(bytes, png_stream->len);
    describe(info, png_format(info), img_info);
    img_info->png_pixel_format = info.channels == 4 ? HI_PNG_COLOR_FORMAT_ARGB : HI_PNG_COLOR_FORMAT_RGB;
  });
}
}
