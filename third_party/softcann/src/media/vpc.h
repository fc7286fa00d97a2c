// One step of VPC: part of a picture, resized, in a border, into part of another. All its calls, of both interfaces, are this.
#pragma once

#include <optional>

#include "media/picture.h"
#include "media/transform.h"

namespace softcann::media {

struct Step {
  Picture from, to;
  Region cut;                      // of `from`
  uint32_t width = 0, height = 0;  // it becomes so large
  Interpolation interpolation = Interpolation::cubic;
  std::optional<Border> border;  // goes round it
  uint32_t left = 0, top = 0;    // where it goes
  acldvppCscMatrix matrix = ACL_DVPP_CSC_MATRIX_BT601_WIDE;
};

// A step that makes all of `to` of all of `from`.
Step whole_step(const Picture& from, const Picture& to, acldvppCscMatrix matrix);

// ACL_SUCCESS, or a code with its text.
aclError check_step(const char* entry, const Step& step);
void run_step(const Step& step);

}  // namespace softcann::media
