// Descriptions of pictures, areas and channels, and memory for pictures.
#include "media/descriptors.h"

#include <cstring>

#include "media/handle_macros.h"

using namespace softcann;
using namespace softcann::media;

namespace {

// A parameter of a channel description, read from or written to memory of the client's.
template <class T, class U>
aclError set_parameter(const char* entry, T& to, size_t length, const void* from, U most) {
  if (length != sizeof(T)) return fail(ACL_ERROR_INVALID_PARAM, "%s: %zu bytes, the parameter has %zu", entry, length, sizeof(T));
  T value;
  std::memcpy(&value, from, sizeof(T));
  if (static_cast<uint64_t>(value) > static_cast<uint64_t>(most)) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: the value is above %llu", entry, static_cast<unsigned long long>(most));
  }
  to = value;
  return ACL_SUCCESS;
}

template <class T>
aclError get_parameter(const char* entry, T value, size_t length, size_t* bytes, void* to) {
  if (length < sizeof(T)) return fail(ACL_ERROR_INVALID_PARAM, "%s: %zu bytes, the parameter has %zu", entry, length, sizeof(T));
  std::memcpy(to, &value, sizeof(T));
  *bytes = sizeof(T);
  return ACL_SUCCESS;
}

std::atomic<uint64_t> channels_opened{0};

}  // namespace

#define PICTURE_FIELD(NAME, FIELD, VALUE)                                    \
  MEDIA_SETTER(acldvppSetPicDesc##NAME, acldvppPicDesc, state->FIELD, VALUE) \
  MEDIA_GETTER(acldvppGetPicDesc##NAME, acldvppPicDesc, state->FIELD, VALUE)
#define BORDER_FIELD(NAME, FIELD, VALUE)                                               \
  MEDIA_SETTER(acldvppSetBorderConfig##NAME, acldvppBorderConfig, border.FIELD, VALUE) \
  MEDIA_GETTER(acldvppGetBorderConfig##NAME, acldvppBorderConfig, border.FIELD, VALUE)

extern "C" {

aclError acldvppMalloc(void** devPtr, size_t size) {
  SOFTCANN_ENTRY(acldvppMalloc);
  SOFTCANN_REQUIRE(devPtr, "devPtr");
  return aclrtMalloc(devPtr, size, ACL_MEM_MALLOC_NORMAL_ONLY);
}

aclError acldvppFree(void* devPtr) {
  SOFTCANN_ENTRY(acldvppFree);
  return aclrtFree(devPtr);
}

MEDIA_HANDLE(acldvppPicDesc, acldvppCreatePicDesc, acldvppDestroyPicDesc)
PICTURE_FIELD(Data, picture.data, void*)
PICTURE_FIELD(Size, picture.size, uint32_t)
PICTURE_FIELD(Format, picture.format, acldvppPixelFormat)
PICTURE_FIELD(Width, picture.width, uint32_t)
PICTURE_FIELD(Height, picture.height, uint32_t)
PICTURE_FIELD(WidthStride, picture.width_stride, uint32_t)
PICTURE_FIELD(HeightStride, picture.height_stride, uint32_t)
PICTURE_FIELD(RetCode, result, uint32_t)

acldvppBatchPicDesc* acldvppCreateBatchPicDesc(uint32_t batchSize) {
  SOFTCANN_ENTRY_VALUE(acldvppCreateBatchPicDesc, nullptr);
  if (batchSize == 0 || batchSize > 256) {
    fail(ACL_ERROR_INVALID_PARAM, "acldvppCreateBatchPicDesc: %u pictures; 1 to 256 are possible", batchSize);
    return nullptr;
  }
  auto* made = make_handle<acldvppBatchPicDesc>();
  if (made != nullptr) made->pictures.resize(batchSize);
  return made;
}

acldvppPicDesc* acldvppGetPicDesc(acldvppBatchPicDesc* batchPicDesc, uint32_t index) {
  SOFTCANN_ENTRY_VALUE(acldvppGetPicDesc, nullptr);
  if (batchPicDesc == nullptr || index >= batchPicDesc->pictures.size()) {
    fail(ACL_ERROR_INVALID_PARAM, "acldvppGetPicDesc: picture %u of %zu", index,
         batchPicDesc ? batchPicDesc->pictures.size() : 0);
    return nullptr;
  }
  return &batchPicDesc->pictures[index];
}

aclError acldvppDestroyBatchPicDesc(acldvppBatchPicDesc* batchPicDesc) {
  SOFTCANN_ENTRY(acldvppDestroyBatchPicDesc);
  SOFTCANN_REQUIRE(batchPicDesc, "batchPicDesc");
  delete batchPicDesc;
  return ACL_SUCCESS;
}

aclError acldvppSetRoiConfig(acldvppRoiConfig* config, uint32_t left, uint32_t right, uint32_t top, uint32_t bottom) {
  SOFTCANN_ENTRY(acldvppSetRoiConfig);
  SOFTCANN_REQUIRE(config, "config");
  if (left > right || top > bottom) {
    return fail(ACL_ERROR_INVALID_PARAM, "acldvppSetRoiConfig: from %u to %u, from %u to %u: the end is before the begin", left,
                right, top, bottom);
  }
  *config = {left, right, top, bottom};
  return ACL_SUCCESS;
}

acldvppRoiConfig* acldvppCreateRoiConfig(uint32_t left, uint32_t right, uint32_t top, uint32_t bottom) {
  SOFTCANN_ENTRY_VALUE(acldvppCreateRoiConfig, nullptr);
  auto made = std::make_unique<acldvppRoiConfig>();
  return acldvppSetRoiConfig(made.get(), left, right, top, bottom) == ACL_SUCCESS ? made.release() : nullptr;
}

aclError acldvppDestroyRoiConfig(acldvppRoiConfig* roiConfig) {
  SOFTCANN_ENTRY(acldvppDestroyRoiConfig);
  SOFTCANN_REQUIRE(roiConfig, "roiConfig");
  delete roiConfig;
  return ACL_SUCCESS;
}

MEDIA_SETTER(acldvppSetRoiConfigLeft, acldvppRoiConfig, left, uint32_t)
MEDIA_SETTER(acldvppSetRoiConfigRight, acldvppRoiConfig, right, uint32_t)
MEDIA_SETTER(acldvppSetRoiConfigTop, acldvppRoiConfig, top, uint32_t)
MEDIA_SETTER(acldvppSetRoiConfigBottom, acldvppRoiConfig, bottom, uint32_t)

MEDIA_HANDLE(acldvppResizeConfig, acldvppCreateResizeConfig, acldvppDestroyResizeConfig)
MEDIA_GETTER(acldvppGetResizeConfigInterpolation, acldvppResizeConfig, interpolation, uint32_t)

aclError acldvppSetResizeConfigInterpolation(acldvppResizeConfig* resizeConfig, uint32_t interpolation) {
  SOFTCANN_ENTRY(acldvppSetResizeConfigInterpolation);
  SOFTCANN_REQUIRE(resizeConfig, "resizeConfig");
  if (interpolation >= kInterpolations) {
    return fail(ACL_ERROR_INVALID_PARAM, "acldvppSetResizeConfigInterpolation: %u; 0 to %u are possible", interpolation,
                kInterpolations - 1);
  }
  resizeConfig->interpolation = interpolation;
  return ACL_SUCCESS;
}

MEDIA_HANDLE(acldvppBorderConfig, acldvppCreateBorderConfig, acldvppDestroyBorderConfig)
BORDER_FIELD(BorderType, type, acldvppBorderType)
BORDER_FIELD(Top, top, uint32_t)
BORDER_FIELD(Bottom, bottom, uint32_t)
BORDER_FIELD(Left, left, uint32_t)
BORDER_FIELD(Right, right, uint32_t)

aclError acldvppSetBorderConfigValue(acldvppBorderConfig* borderConfig, uint32_t index, double value) {
  SOFTCANN_ENTRY(acldvppSetBorderConfigValue);
  SOFTCANN_REQUIRE(borderConfig, "borderConfig");
  if (index >= borderConfig->border.value.size()) {
    return fail(ACL_ERROR_INVALID_PARAM, "acldvppSetBorderConfigValue: value %u of %zu", index,
                borderConfig->border.value.size());
  }
  borderConfig->border.value[index] = value;
  return ACL_SUCCESS;
}

double acldvppGetBorderConfigValue(const acldvppBorderConfig* borderConfig, uint32_t index) {
  SOFTCANN_ENTRY_VALUE(acldvppGetBorderConfigValue, 0);
  if (borderConfig == nullptr || index >= borderConfig->border.value.size()) {
    fail(ACL_ERROR_INVALID_PARAM, "acldvppGetBorderConfigValue: there is no value %u", index);
    return 0;
  }
  return borderConfig->border.value[index];
}

MEDIA_HANDLE(acldvppLutMap, acldvppCreateLutMap, acldvppDestroyLutMap)

uint32_t acldvppGetLutMapDims(const acldvppLutMap* lutMap) {
  SOFTCANN_ENTRY_VALUE(acldvppGetLutMapDims, 0);
  return lutMap == nullptr ? 0 : static_cast<uint32_t>(lutMap->tables.size());
}

aclError acldvppGetLutMapData(const acldvppLutMap* lutMap, uint32_t dim, uint8_t** data, uint32_t* len) {
  SOFTCANN_ENTRY(acldvppGetLutMapData);
  SOFTCANN_REQUIRE(lutMap, "lutMap");
  SOFTCANN_REQUIRE(data, "data");
  SOFTCANN_REQUIRE(len, "len");
  if (dim >= lutMap->tables.size()) return fail(ACL_ERROR_INVALID_PARAM, "acldvppGetLutMapData: table %u of 3", dim);
  // The interface hands out a constant map's tables for the client to fill.
  *data = const_cast<uint8_t*>(lutMap->tables[dim].data());
  *len = static_cast<uint32_t>(lutMap->tables[dim].size());
  return ACL_SUCCESS;
}

MEDIA_HANDLE(acldvppHist, acldvppCreateHist, acldvppDestroyHist)

uint32_t acldvppGetHistDims(acldvppHist* hist) {
  SOFTCANN_ENTRY_VALUE(acldvppGetHistDims, 0);
  return hist == nullptr ? 0 : hist->state->dims.load();
}

aclError acldvppGetHistData(acldvppHist* hist, uint32_t dim, uint32_t** data, uint16_t* len) {
  SOFTCANN_ENTRY(acldvppGetHistData);
  SOFTCANN_REQUIRE(hist, "hist");
  SOFTCANN_REQUIRE(data, "data");
  SOFTCANN_REQUIRE(len, "len");
  if (dim >= hist->state->dims) {
    return fail(ACL_ERROR_INVALID_PARAM, "acldvppGetHistData: histogram %u of %u", dim, hist->state->dims.load());
  }
  *data = hist->state->counts[dim].data();
  *len = static_cast<uint16_t>(hist->state->counts[dim].size());
  return ACL_SUCCESS;
}

uint32_t acldvppGetHistRetCode(acldvppHist* hist) {
  SOFTCANN_ENTRY_VALUE(acldvppGetHistRetCode, ACL_ERROR_INVALID_PARAM);
  return hist == nullptr ? static_cast<uint32_t>(ACL_ERROR_INVALID_PARAM) : hist->state->result.load();
}

aclError acldvppClearHist(acldvppHist* hist) {
  SOFTCANN_ENTRY(acldvppClearHist);
  SOFTCANN_REQUIRE(hist, "hist");
  hist->state->counts = {};
  hist->state->dims = 0;
  hist->state->result = 0;
  return ACL_SUCCESS;
}

MEDIA_HANDLE(acldvppJpegeConfig, acldvppCreateJpegeConfig, acldvppDestroyJpegeConfig)
MEDIA_GETTER(acldvppGetJpegeConfigLevel, acldvppJpegeConfig, level, uint32_t)

aclError acldvppSetJpegeConfigLevel(acldvppJpegeConfig* jpegeConfig, uint32_t level) {
  SOFTCANN_ENTRY(acldvppSetJpegeConfigLevel);
  SOFTCANN_REQUIRE(jpegeConfig, "jpegeConfig");
  if (level > 100) return fail(ACL_ERROR_INVALID_PARAM, "acldvppSetJpegeConfigLevel: %u; 0 to 100 are possible", level);
  jpegeConfig->level = level;
  return ACL_SUCCESS;
}

MEDIA_HANDLE(acldvppChannelDesc, acldvppCreateChannelDesc, acldvppDestroyChannelDesc)
MEDIA_GETTER(acldvppGetChannelDescChannelId, acldvppChannelDesc, channel.id, uint64_t)

aclError acldvppSetChannelDescMode(acldvppChannelDesc* channelDesc, uint32_t mode) {
  SOFTCANN_ENTRY(acldvppSetChannelDescMode);
  SOFTCANN_REQUIRE(channelDesc, "channelDesc");
  return set_parameter("acldvppSetChannelDescMode", channelDesc->channel.mode, sizeof(mode), &mode, 15);
}

aclError acldvppSetChannelDescParam(acldvppChannelDesc* channelDesc, acldvppChannelDescParamType paramType, size_t length,
                                    const void* param) {
  SOFTCANN_ENTRY(acldvppSetChannelDescParam);
  SOFTCANN_REQUIRE(channelDesc, "channelDesc");
  SOFTCANN_REQUIRE(param, "param");
  ChannelState& channel = channelDesc->channel;
  constexpr const char* entry = "acldvppSetChannelDescParam";
  switch (paramType) {
    case ACL_DVPP_CSC_MATRIX_UINT32:
      return set_parameter(entry, channel.matrix, length, param, ACL_DVPP_CSC_MATRIX_BT2020_NARROW);
    case ACL_DVPP_MODE_UINT32:
      return set_parameter(entry, channel.mode, length, param, 15);
    case ACL_DVPP_CHANNEL_HEIGHT_UINT32:
      return set_parameter(entry, channel.height, length, param, UINT32_MAX);
    case ACL_DVPP_CHANNEL_WIDTH_UINT32:
      return set_parameter(entry, channel.width, length, param, UINT32_MAX);
    case ACL_DVPP_JPEGD_PRECISION_MODE_ENUM:
      return set_parameter(entry, channel.precision, length, param, ACL_YUVOUT_ALIGN_DOWN_COMPAT);
    case ACL_DVPP_CHANNEL_ID_UINT64:
      break;
  }
  return fail(ACL_ERROR_INVALID_PARAM, "%s: parameter %d cannot be set", entry, static_cast<int>(paramType));
}

aclError acldvppGetChannelDescParam(const acldvppChannelDesc* channelDesc, acldvppChannelDescParamType paramType, size_t length,
                                    size_t* paramRetSize, void* param) {
  SOFTCANN_ENTRY(acldvppGetChannelDescParam);
  SOFTCANN_REQUIRE(channelDesc, "channelDesc");
  SOFTCANN_REQUIRE(paramRetSize, "paramRetSize");
  SOFTCANN_REQUIRE(param, "param");
  const ChannelState& channel = channelDesc->channel;
  constexpr const char* entry = "acldvppGetChannelDescParam";
  switch (paramType) {
    case ACL_DVPP_CSC_MATRIX_UINT32:
      return get_parameter(entry, channel.matrix, length, paramRetSize, param);
    case ACL_DVPP_MODE_UINT32:
      return get_parameter(entry, channel.mode, length, paramRetSize, param);
    case ACL_DVPP_CHANNEL_ID_UINT64:
      return get_parameter(entry, channel.id, length, paramRetSize, param);
    case ACL_DVPP_CHANNEL_HEIGHT_UINT32:
      return get_parameter(entry, channel.height, length, paramRetSize, param);
    case ACL_DVPP_CHANNEL_WIDTH_UINT32:
      return get_parameter(entry, channel.width, length, paramRetSize, param);
    case ACL_DVPP_JPEGD_PRECISION_MODE_ENUM:
      return get_parameter(entry, channel.precision, length, paramRetSize, param);
  }
  return fail(ACL_ERROR_INVALID_PARAM, "%s: there is no parameter %d", entry, static_cast<int>(paramType));
}

aclError acldvppCreateChannel(acldvppChannelDesc* channelDesc) {
  SOFTCANN_ENTRY(acldvppCreateChannel);
  SOFTCANN_REQUIRE(channelDesc, "channelDesc");
  if (current_device() < 0)
    return fail(ACL_ERROR_RT_CONTEXT_NULL, "acldvppCreateChannel: there is no context: call aclrtSetDevice first");
  if (channelDesc->channel.open) return fail(ACL_ERROR_INVALID_PARAM, "acldvppCreateChannel: the channel is open");
  channelDesc->channel.open = true;
  channelDesc->channel.id = channels_opened++;
  return ACL_SUCCESS;
}

aclError acldvppDestroyChannel(acldvppChannelDesc* channelDesc) {
  SOFTCANN_ENTRY(acldvppDestroyChannel);
  SOFTCANN_REQUIRE(channelDesc, "channelDesc");
  if (!channelDesc->channel.open) return fail(ACL_ERROR_INVALID_PARAM, "acldvppDestroyChannel: the channel is not open");
  channelDesc->channel.open = false;
  return ACL_SUCCESS;
}
}
