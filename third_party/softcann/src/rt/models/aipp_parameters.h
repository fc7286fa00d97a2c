// Dynamic AIPP: image processing whose parameters a client gives with each run.
#pragma once

#include <string>

#include "rt/base/described.h"
#include "rt/models/model.h"

namespace softcann {

// What aclmdlSetAIPP* sets for all pictures of a batch.
struct AippCommon {
  uint32_t mark = 0;  // kAippMark: the memory was written by aclmdlSetInputAIPP
  uint32_t pictures = 0;
  int32_t format = 0;             // aclAippInputFormat
  int32_t width = 0, height = 0;  // of the raw pictures
  bool swap_rb_uv = false, swap_ax = false, convert = false;
  int16_t matrix[9] = {};
  uint8_t output_bias[3] = {}, input_bias[3] = {};
};
// What it sets for one picture.
struct AippPicture {
  bool crop = false, pad = false;
  int32_t crop_left = 0, crop_top = 0, crop_width = 0, crop_height = 0;
  int32_t top = 0, bottom = 0, left = 0, right = 0;
  int16_t mean[4] = {};
  float min[4] = {}, scale[4] = {1, 1, 1, 1};
};
struct Aipp {
  AippCommon common;
  std::vector<AippPicture> pictures;

  int32_t width(const AippPicture& one) const { return one.crop ? one.crop_width : common.width; }
  int32_t height(const AippPicture& one) const { return one.crop ? one.crop_height : common.height; }
};
inline constexpr uint32_t kAippMark = 0x41695070;

inline size_t aipp_bytes(size_t pictures) { return sizeof(AippCommon) + pictures * sizeof(AippPicture); }
void write_aipp(const Aipp& aipp, void* to);
// False where the memory holds none.
SOFTCANN_API bool read_aipp(const void* from, size_t bytes, Aipp* to);

// Bytes of one raw picture; 0: the format is not served.
SOFTCANN_API size_t aipp_picture_bytes(const AippCommon& common);
// Channels of a raw picture of a format that is served.
SOFTCANN_API int32_t aipp_channels(int32_t format);
// Why the parameters do not make what the network takes; empty where they do.
SOFTCANN_API std::string aipp_problem(const Aipp& aipp, const ModelTensor& input);

}  // namespace softcann

struct aclmdlAIPP : softcann::Handled {
  softcann::Aipp aipp;
};
