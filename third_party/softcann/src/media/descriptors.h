// What clients of acldvpp* hold.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "media/picture.h"
#include "media/transform.h"

namespace softcann::media {

// Shared with the tasks that write it, which may outlive the client's handle.
struct PictureState {
  Picture picture;
  std::atomic<uint32_t> result{0};  // acldvppGetPicDescRetCode
};

// Modes of a channel, as acldvppChannelMode has them; video channels are descriptions of their own.
struct ChannelState {
  bool open = false;
  uint64_t id = 0;
  uint32_t mode = DVPP_CHNMODE_VPC | DVPP_CHNMODE_JPEGD | DVPP_CHNMODE_JPEGE | DVPP_CHNMODE_PNGD;
  acldvppCscMatrix matrix = ACL_DVPP_CSC_MATRIX_BT601_WIDE;
  uint32_t width = 0, height = 0;  // largest picture, a hint
  acldvppJpegdPrecisionMode precision = ACL_YUVOUT_ALIGN_DOWN;
};

}  // namespace softcann::media

struct acldvppPicDesc {
  std::shared_ptr<softcann::media::PictureState> state = std::make_shared<softcann::media::PictureState>();
};
struct acldvppBatchPicDesc {
  std::vector<acldvppPicDesc> pictures;
};
struct acldvppRoiConfig {
  uint32_t left, right, top, bottom;  // the last pixels are part of it

  softcann::media::Region region() const { return {left, top, right - left + 1, bottom - top + 1}; }
};
struct acldvppResizeConfig {
  uint32_t interpolation = 0;
};
struct acldvppBorderConfig {
  softcann::media::Border border;
};
struct acldvppLutMap {
  std::array<std::array<uint8_t, 256>, 3> tables{};
};
struct acldvppHist {
  struct State {
    std::array<softcann::media::Histogram, 3> counts{};
    std::atomic<uint32_t> dims{0}, result{0};
  };
  std::shared_ptr<State> state = std::make_shared<State>();
};
struct acldvppChannelDesc {
  softcann::media::ChannelState channel;
};
struct acldvppJpegeConfig {
  uint32_t level = 100;
};
