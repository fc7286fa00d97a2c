// Video (aclvdec*, aclvenc*): descriptions are kept, channels are refused. There is no codec for it here; FFmpeg on the host is
// what programs use where they have no such hardware.
#include "media/descriptors.h"
#include "media/handle_macros.h"

using namespace softcann;

namespace {

aclError refuse(const char* entry, const char* why) { return fail(ACL_ERROR_FEATURE_UNSUPPORTED, "%s: %s", entry, why); }

aclError no_decoding(const char* entry) {
  return refuse(
      entry,
      "softcann decodes no video: decode on the host (FFmpeg, PyAV, OpenCV) and copy the frames to memory of acldvppMalloc");
}

aclError no_encoding(const char* entry) {
  return refuse(entry, "softcann encodes no video: copy the frames to the host and encode there (FFmpeg, PyAV, OpenCV)");
}

aclError refuse_parameter(const char* entry) {
  return refuse(entry, "parameters by number are not served: use the function of the field");
}

}  // namespace

struct acldvppStreamDesc {
  void* data = nullptr;
  uint32_t size = 0;
  acldvppStreamFormat format = H265_MAIN_LEVEL;
  uint64_t timestamp = 0;
  uint32_t result = 0;
  uint8_t end = 0;
};
struct aclvdecChannelDesc {
  uint32_t channel = 0, width = 0, height = 0, references = 0, bit_depth = 0, out_mode = 0;
  uint64_t thread = 0;
  aclvdecCallback callback = nullptr;
  acldvppStreamFormat type = H265_MAIN_LEVEL;
  acldvppPixelFormat format = PIXEL_FORMAT_YUV_SEMIPLANAR_420;
};
struct aclvdecFrameConfig {};
struct aclvencChannelDesc {
  uint32_t channel = 0, width = 0, height = 0, key_interval = 0, buffer_size = 0, rate_control = 0, source_rate = 0, max_rate = 0;
  uint64_t thread = 0;
  void* buffer = nullptr;
  aclvencCallback callback = nullptr;
  acldvppStreamFormat type = H265_MAIN_LEVEL;
  acldvppPixelFormat format = PIXEL_FORMAT_YUV_SEMIPLANAR_420;
};
struct aclvencFrameConfig {
  uint8_t key_frame = 0, end = 0;
};

#define STREAM_FIELD(NAME, FIELD, VALUE)                                    \
  MEDIA_SETTER(acldvppSetStreamDesc##NAME, acldvppStreamDesc, FIELD, VALUE) \
  MEDIA_GETTER(acldvppGetStreamDesc##NAME, acldvppStreamDesc, FIELD, VALUE)
#define VDEC_FIELD(NAME, FIELD, VALUE)                                        \
  MEDIA_SETTER(aclvdecSetChannelDesc##NAME, aclvdecChannelDesc, FIELD, VALUE) \
  MEDIA_GETTER(aclvdecGetChannelDesc##NAME, aclvdecChannelDesc, FIELD, VALUE)
#define VENC_FIELD(NAME, FIELD, VALUE)                                        \
  MEDIA_SETTER(aclvencSetChannelDesc##NAME, aclvencChannelDesc, FIELD, VALUE) \
  MEDIA_GETTER(aclvencGetChannelDesc##NAME, aclvencChannelDesc, FIELD, VALUE)
#define VENC_FRAME_FIELD(NAME, FIELD)                                           \
  MEDIA_SETTER(aclvencSetFrameConfig##NAME, aclvencFrameConfig, FIELD, uint8_t) \
  MEDIA_GETTER(aclvencGetFrameConfig##NAME, aclvencFrameConfig, FIELD, uint8_t)

extern "C" {

MEDIA_HANDLE(acldvppStreamDesc, acldvppCreateStreamDesc, acldvppDestroyStreamDesc)
STREAM_FIELD(Data, data, void*)
STREAM_FIELD(Size, size, uint32_t)
STREAM_FIELD(Format, format, acldvppStreamFormat)
STREAM_FIELD(Timestamp, timestamp, uint64_t)
STREAM_FIELD(RetCode, result, uint32_t)
STREAM_FIELD(Eos, end, uint8_t)

MEDIA_HANDLE(aclvdecChannelDesc, aclvdecCreateChannelDesc, aclvdecDestroyChannelDesc)
VDEC_FIELD(ChannelId, channel, uint32_t)
VDEC_FIELD(ThreadId, thread, uint64_t)
VDEC_FIELD(Callback, callback, aclvdecCallback)
VDEC_FIELD(EnType, type, acldvppStreamFormat)
VDEC_FIELD(OutPicFormat, format, acldvppPixelFormat)
VDEC_FIELD(OutPicWidth, width, uint32_t)
VDEC_FIELD(OutPicHeight, height, uint32_t)
VDEC_FIELD(RefFrameNum, references, uint32_t)
VDEC_FIELD(BitDepth, bit_depth, uint32_t)
VDEC_FIELD(OutMode, out_mode, uint32_t)
MEDIA_HANDLE(aclvdecFrameConfig, aclvdecCreateFrameConfig, aclvdecDestroyFrameConfig)

SOFTCANN_REFUSED(aclvdecSetChannelDescParam, refuse_parameter, aclvdecChannelDesc*, aclvdecChannelDescParamType, size_t,
                 const void*)
SOFTCANN_REFUSED(aclvdecGetChannelDescParam, refuse_parameter, const aclvdecChannelDesc*, aclvdecChannelDescParamType, size_t,
                 size_t*, void*)
SOFTCANN_REFUSED(aclvdecCreateChannel, no_decoding, aclvdecChannelDesc*)
SOFTCANN_REFUSED(aclvdecDestroyChannel, no_decoding, aclvdecChannelDesc*)
SOFTCANN_REFUSED(aclvdecSendFrame, no_decoding, aclvdecChannelDesc*, acldvppStreamDesc*, acldvppPicDesc*, aclvdecFrameConfig*,
                 void*)
SOFTCANN_REFUSED(aclvdecSendSkippedFrame, no_decoding, aclvdecChannelDesc*, acldvppStreamDesc*, aclvdecFrameConfig*, void*)

MEDIA_HANDLE(aclvencChannelDesc, aclvencCreateChannelDesc, aclvencDestroyChannelDesc)
MEDIA_GETTER(aclvencGetChannelDescChannelId, aclvencChannelDesc, channel, uint32_t)
VENC_FIELD(ThreadId, thread, uint64_t)
VENC_FIELD(Callback, callback, aclvencCallback)
VENC_FIELD(EnType, type, acldvppStreamFormat)
VENC_FIELD(PicFormat, format, acldvppPixelFormat)
VENC_FIELD(PicWidth, width, uint32_t)
VENC_FIELD(PicHeight, height, uint32_t)
VENC_FIELD(KeyFrameInterval, key_interval, uint32_t)
VENC_FIELD(BufAddr, buffer, void*)
VENC_FIELD(BufSize, buffer_size, uint32_t)
VENC_FIELD(RcMode, rate_control, uint32_t)
VENC_FIELD(SrcRate, source_rate, uint32_t)
VENC_FIELD(MaxBitRate, max_rate, uint32_t)
MEDIA_HANDLE(aclvencFrameConfig, aclvencCreateFrameConfig, aclvencDestroyFrameConfig)
VENC_FRAME_FIELD(ForceIFrame, key_frame)
VENC_FRAME_FIELD(Eos, end)

SOFTCANN_REFUSED(aclvencSetChannelDescParam, refuse_parameter, aclvencChannelDesc*, aclvencChannelDescParamType, size_t,
                 const void*)
SOFTCANN_REFUSED(aclvencGetChannelDescParam, refuse_parameter, const aclvencChannelDesc*, aclvencChannelDescParamType, size_t,
                 size_t*, void*)
SOFTCANN_REFUSED(aclvencCreateChannel, no_encoding, aclvencChannelDesc*)
SOFTCANN_REFUSED(aclvencDestroyChannel, no_encoding, aclvencChannelDesc*)
SOFTCANN_REFUSED(aclvencSendFrame, no_encoding, aclvencChannelDesc*, acldvppPicDesc*, void*, aclvencFrameConfig*, void*)
}
