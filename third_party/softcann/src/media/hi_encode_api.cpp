// libacl_dvpp_mpi: the JPEG encoder of the media interface V2 (hi_mpi_venc_* of the type HI_PT_JPEG). A frame is encoded before
// the call that sends it returns; video is refused.
#include <set>

#include "media/hi_channels.h"
#include "media/jpeg.h"
#include "rt/memory/check.h"

using namespace softcann;
using namespace softcann::media;

namespace {

constexpr int32_t kMostChannels = 256;
constexpr Limits kEncoded{32, 32, 8192, 8192, 16, 2};

int32_t venc_code(Cause cause) { return hi_code(HI_ID_VENC, cause); }

struct Encoded {
  hi_u8* data = nullptr;
  hi_u32 bytes = 0;
  hi_u64 pts = 0, frame = 0;
  hi_u32 quality = 0;
  bool owned = false;  // memory of the channel's
};

struct EncodeChannel {
  ~EncodeChannel() {
    while (const auto left = results.pop(0)) {
      if (left->owned) aclrtFree(left->data);
    }
    for (hi_u8* one : fetched) aclrtFree(one);
  }

  std::mutex mutex;
  hi_venc_attr attributes{};
  hi_venc_jpeg_param parameters{};
  bool started = false;
  hi_s32 wanted = -1;  // frames that may still come; -1: any number
  hi_u32 sequence = 0;
  std::set<hi_u8*> fetched;  // memory of the channel's that the client has until it releases it
  Results<Encoded> results;
};

ChannelTable<EncodeChannel>& encode_channels() {
  static auto* table = new ChannelTable<EncodeChannel>(HI_ID_VENC, kMostChannels);
  return *table;
}

int32_t no_video_encoding(const char* entry) {
  return fail(venc_code(kUnsupported),
              "%s: softcann encodes no video, only JPEG (HI_PT_JPEG): encode on the host (FFmpeg, PyAV, OpenCV)", entry);
}

// The frame as a picture, whose planes must follow one another as in memory of one picture.
int32_t picture_of(const char* entry, const hi_video_frame_info& info, Picture* to) {
  const hi_video_frame& frame = info.v_frame;
  *to = {frame.virt_addr[0], 0, frame.pixel_format, frame.width, frame.height, frame.width_stride[0], frame.height_stride[0]};
  const PixelFormat* format = find_format(frame.pixel_format);
  if (format == nullptr || !format->is_yuv) {
    return fail(venc_code(kUnsupported), "%s: pixel format %u is not encoded: convert it with hi_mpi_vpc_convert_color", entry,
                frame.pixel_format);
  }
  const size_t bytes = format->bytes(to->width_stride, to->height_stride);
  if (bytes > UINT32_MAX) return fail(venc_code(kBadArgument), "%s: the frame has %zu bytes", entry, bytes);
  to->size = static_cast<uint32_t>(bytes);
  const auto* first = static_cast<const uint8_t*>(frame.virt_addr[0]);
  if (format->layout == Layout::semi_planar && frame.virt_addr[1] != nullptr &&
      frame.virt_addr[1] != first + size_t{to->width_stride} * to->height_stride) {
    return fail(venc_code(kUnsupported), "%s: the chroma of the frame does not follow its luma in memory", entry);
  }
  return hi_translated(HI_ID_VENC, check_picture(entry, "frame", *to, kEncoded));
}

int32_t check_quality(const char* entry, const hi_venc_jpeg_param& param) {
  if (param.qfactor >= 1 && param.qfactor <= 100) return HI_SUCCESS;
  return fail(venc_code(param.qfactor == UINT32_MAX ? kUnsupported : kBadArgument),
              "%s: a qfactor of %u; 1 to 100 are possible (quantisation tables of the client's own are not served)", entry,
              param.qfactor);
}

// Takes one of the frames that the channel was started for.
int32_t admit(const char* entry, hi_venc_chn number, EncodeChannel& channel, const Picture& picture, hi_u32* quality) {
  const std::lock_guard<std::mutex> lock(channel.mutex);
  if (!channel.started || channel.wanted == 0) {
    return fail(venc_code(kNotPermitted), "%s: channel %d takes no frame: call hi_mpi_venc_start_chn", entry, number);
  }
  if (picture.width > channel.attributes.max_pic_width || picture.height > channel.attributes.max_pic_height) {
    return fail(venc_code(kBadArgument), "%s: a frame of %u x %u, the channel was created for %u x %u", entry, picture.width,
                picture.height, channel.attributes.max_pic_width, channel.attributes.max_pic_height);
  }
  if (channel.wanted > 0) --channel.wanted;
  *quality = channel.parameters.qfactor;
  return HI_SUCCESS;
}

// Encodes into `to` of `room` bytes, or, where that is null, into memory that the channel then has.
int32_t encode(const char* entry, hi_venc_chn number, const hi_video_frame_info& frame, hi_u8* to, hi_u32 room) {
  HI_CHANNEL_OR_RETURN(channel, encode_channels(), number);
  Picture picture;
  if (const int32_t code = picture_of(entry, frame, &picture)) return code;
  Encoded made;
  made.pts = frame.v_frame.pts;
  made.frame = reinterpret_cast<hi_u64>(frame.v_frame.virt_addr[0]);
  if (const int32_t code = admit(entry, number, *channel, picture, &made.quality)) return code;
  try {
    std::vector<uint8_t> bytes(jpeg_bound(picture.width, picture.height, *find_format(picture.format)));
    bytes.resize(encode_jpeg(read_image(picture), made.quality, bytes.data(), bytes.size()));
    made.bytes = static_cast<hi_u32>(bytes.size());
    if (to != nullptr && made.bytes > room)
      return fail(venc_code(kTooSmall), "%s: the JPEG has %u bytes, the memory for it %u", entry, made.bytes, room);
    made.owned = to == nullptr;
    void* own = to;
    if (made.owned && aclrtMalloc(&own, bytes.size(), ACL_MEM_MALLOC_NORMAL_ONLY) != ACL_SUCCESS) return venc_code(kNoMemory);
    made.data = static_cast<hi_u8*>(own);
    std::copy(bytes.begin(), bytes.end(), static_cast<uint8_t*>(device_view(own)));
    check::mark_written_elsewhere(own, bytes.size());
  } catch (const Error& error) {
    return fail(venc_code(error.kind() == ErrorKind::unsupported ? kUnsupported : kBadArgument), "%s: %s", entry, error.what());
  } catch (const std::exception& error) {
    return fail(venc_code(kNoMemory), "%s: %s", entry, error.what());
  }
  channel->results.push(made);
  return HI_SUCCESS;
}

}  // namespace

extern "C" {

hi_s32 hi_mpi_venc_create_chn(hi_venc_chn chn, const hi_venc_chn_attr* attr) {
  SOFTCANN_ENTRY(hi_mpi_venc_create_chn);
  HI_REQUIRE(HI_ID_VENC, attr);
  if (attr->venc_attr.type != HI_PT_JPEG && attr->venc_attr.type != HI_PT_MJPEG) return no_video_encoding(__func__);
  if (attr->venc_attr.jpeg_attr.dcf_en == HI_TRUE || attr->venc_attr.jpeg_attr.mpf_cfg.large_thumbnail_num != 0)
    return fail(venc_code(kUnsupported), "%s: JPEGs with thumbnails (DCF, MPF) are not served", __func__);
  auto channel = std::make_shared<EncodeChannel>();
  channel->attributes = attr->venc_attr;
  channel->parameters.qfactor = 90;
  return encode_channels().create(__func__, chn, channel);
}

HI_DESTROY(hi_mpi_venc_destroy_chn, hi_venc_chn, encode_channels())

hi_s32 hi_mpi_venc_start_chn(hi_venc_chn chn, const hi_venc_start_param* recv_param) {
  SOFTCANN_ENTRY(hi_mpi_venc_start_chn);
  HI_REQUIRE(HI_ID_VENC, recv_param);
  HI_CHANNEL_OR_RETURN(channel, encode_channels(), chn);
  if (recv_param->recv_pic_num == 0 || recv_param->recv_pic_num < -1)
    return fail(venc_code(kBadArgument), "%s: %d frames; -1 (any number) or more than 0", __func__, recv_param->recv_pic_num);
  const std::lock_guard<std::mutex> lock(channel->mutex);
  channel->started = true;
  channel->wanted = recv_param->recv_pic_num;
  return HI_SUCCESS;
}

HI_START(hi_mpi_venc_stop_chn, hi_venc_chn, encode_channels(), false)

hi_s32 hi_mpi_venc_query_status(hi_venc_chn chn, hi_venc_chn_status* status) {
  SOFTCANN_ENTRY(hi_mpi_venc_query_status);
  HI_REQUIRE(HI_ID_VENC, status);
  HI_LOCK_CHANNEL_OR_RETURN(channel, encode_channels(), chn);
  *status = {};
  status->left_stream_frames = static_cast<hi_u32>(channel->results.size());
  status->cur_packs = status->left_stream_frames == 0 ? 0 : 1;
  status->left_recv_pics = channel->wanted < 0 ? UINT32_MAX : static_cast<hi_u32>(channel->wanted);
  return HI_SUCCESS;
}

hi_s32 hi_mpi_venc_send_frame(hi_venc_chn chn, const hi_video_frame_info* frame, hi_s32) {
  SOFTCANN_ENTRY(hi_mpi_venc_send_frame);
  HI_REQUIRE(HI_ID_VENC, frame);
  return encode(__func__, chn, *frame, nullptr, 0);
}

hi_s32 hi_mpi_venc_send_jpege_frame(hi_venc_chn chn, const hi_video_frame_info* frame, const hi_img_stream* jpege_stream,
                                    hi_s32) {
  SOFTCANN_ENTRY(hi_mpi_venc_send_jpege_frame);
  HI_REQUIRE(HI_ID_VENC, frame);
  HI_REQUIRE(HI_ID_VENC, jpege_stream);
  if (jpege_stream->addr == nullptr || !is_device_pointer(jpege_stream->addr) ||
      check_device_range(jpege_stream->addr, jpege_stream->len) != ACL_SUCCESS) {
    return fail(venc_code(kBadArgument), "%s: the stream is no memory of hi_mpi_dvpp_malloc of %u bytes", __func__,
                jpege_stream->len);
  }
  return encode(__func__, chn, *frame, jpege_stream->addr, jpege_stream->len);
}

hi_s32 hi_mpi_venc_get_stream(hi_venc_chn chn, hi_venc_stream* stream, hi_s32 milli_sec) {
  SOFTCANN_ENTRY(hi_mpi_venc_get_stream);
  HI_REQUIRE(HI_ID_VENC, stream);
  HI_REQUIRE(HI_ID_VENC, stream->pack);
  HI_CHANNEL_OR_RETURN(channel, encode_channels(), chn);
  if (stream->pack_cnt == 0) return fail(venc_code(kBadArgument), "%s: the stream has room for no pack (pack_cnt)", __func__);
  const auto made = channel->results.pop(milli_sec);
  if (!made) return fail(venc_code(kEmpty), "%s: channel %d has encoded nothing that was not fetched", __func__, chn);
  hi_venc_pack& pack = stream->pack[0];
  pack = {};
  pack.input_addr = made->frame;
  pack.addr = made->data;
  pack.len = made->bytes;
  pack.pts = made->pts;
  pack.is_frame_end = HI_TRUE;
  pack.data_type.jpeg_type = HI_VENC_JPEG_PACK_PIC;
  stream->pack_cnt = 1;
  stream->jpeg_info = {made->bytes, 0, made->quality};
  const std::lock_guard<std::mutex> lock(channel->mutex);
  stream->seq = channel->sequence++;
  if (made->owned) channel->fetched.insert(made->data);
  return HI_SUCCESS;
}

hi_s32 hi_mpi_venc_release_stream(hi_venc_chn chn, hi_venc_stream* stream) {
  SOFTCANN_ENTRY(hi_mpi_venc_release_stream);
  HI_REQUIRE(HI_ID_VENC, stream);
  HI_REQUIRE(HI_ID_VENC, stream->pack);
  HI_CHANNEL_OR_RETURN(channel, encode_channels(), chn);
  {
    const std::lock_guard<std::mutex> lock(channel->mutex);
    if (channel->fetched.erase(stream->pack[0].addr) == 0) return HI_SUCCESS;  // memory of the client's
  }
  return hi_translated(HI_ID_VENC, aclrtFree(stream->pack[0].addr));
}

hi_s32 hi_mpi_venc_get_jpege_predicted_size(const hi_video_frame_info* frame, const hi_venc_jpeg_param*, hi_u32* size) {
  SOFTCANN_ENTRY(hi_mpi_venc_get_jpege_predicted_size);
  HI_REQUIRE(HI_ID_VENC, frame);
  HI_REQUIRE(HI_ID_VENC, size);
  const PixelFormat* format = find_format(frame->v_frame.pixel_format);
  if (format == nullptr || !format->is_yuv || frame->v_frame.width > 8192 || frame->v_frame.height > 8192) {
    return fail(venc_code(kBadArgument), "%s: frames of pixel format %u, %u x %u, are not encoded", __func__,
                frame->v_frame.pixel_format, frame->v_frame.width, frame->v_frame.height);
  }
  try {
    *size = static_cast<hi_u32>(jpeg_bound(frame->v_frame.width, frame->v_frame.height, *format));
    return HI_SUCCESS;
  } catch (const std::exception& error) {
    return fail(venc_code(kUnsupported), "%s: %s", __func__, error.what());
  }
}

hi_s32 hi_mpi_venc_set_jpeg_param(hi_venc_chn chn, const hi_venc_jpeg_param* jpeg_param) {
  SOFTCANN_ENTRY(hi_mpi_venc_set_jpeg_param);
  HI_REQUIRE(HI_ID_VENC, jpeg_param);
  HI_CHANNEL_OR_RETURN(channel, encode_channels(), chn);
  if (const int32_t code = check_quality(__func__, *jpeg_param)) return code;
  const std::lock_guard<std::mutex> lock(channel->mutex);
  channel->parameters = *jpeg_param;
  return HI_SUCCESS;
}

HI_TELL(hi_mpi_venc_get_jpeg_param, HI_ID_VENC, hi_venc_chn, encode_channels(), hi_venc_jpeg_param, jpeg_param, parameters)
HI_DESCRIPTOR(hi_mpi_venc_get_fd, hi_mpi_venc_close_fd, hi_venc_chn, encode_channels())
SOFTCANN_REFUSED(hi_mpi_venc_set_rc_param, no_video_encoding, hi_venc_chn, const hi_venc_rc_param*)
SOFTCANN_REFUSED(hi_mpi_venc_get_rc_param, no_video_encoding, hi_venc_chn, hi_venc_rc_param*)
SOFTCANN_REFUSED(hi_mpi_venc_set_chn_param, no_video_encoding, hi_venc_chn, const hi_venc_chn_param*)
SOFTCANN_REFUSED(hi_mpi_venc_set_scene_mode, no_video_encoding, hi_venc_chn, const hi_venc_scene_mode)
SOFTCANN_REFUSED(hi_mpi_venc_request_idr, no_video_encoding, hi_venc_chn, hi_bool)
}
