#include "media/vpc.h"

#include "media/color.h"
#include "rt/base/error.h"

namespace softcann::media {
namespace {

// The hardware enlarges 16 times at most, and makes smaller 32 times.
bool possible_scale(uint32_t from, uint32_t to) { return to <= 16 * uint64_t{from} && from <= 32 * uint64_t{to}; }

}  // namespace

Step whole_step(const Picture& from, const Picture& to, acldvppCscMatrix matrix) {
  Step step;
  step.from = from;
  step.to = to;
  step.cut = {0, 0, from.width, from.height};
  step.width = to.width;
  step.height = to.height;
  step.matrix = matrix;
  return step;
}

aclError check_step(const char* entry, const Step& step) {
  if (const aclError code = check_picture(entry, "input", step.from)) return code;
  if (const aclError code = check_picture(entry, "output", step.to)) return code;
  const bool whole = step.cut.width == step.from.width && step.cut.height == step.from.height;
  if (!whole) {
    if (const aclError code = check_region(entry, "area that is cut out", step.from, step.cut)) return code;
  }
  if (!possible_scale(step.cut.width, step.width) || !possible_scale(step.cut.height, step.height)) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: %u x %u to %u x %u: sizes change 1/32 to 16 times", entry, step.cut.width,
                step.cut.height, step.width, step.height);
  }
  Region made{step.left, step.top, step.width, step.height};
  if (step.border) {
    const Border& border = *step.border;
    if (border.type > BORDER_REFLECT_101 || border.top > 65535 || border.bottom > 65535 || border.left > 65535 ||
        border.right > 65535) {
      return fail(ACL_ERROR_INVALID_PARAM, "%s: a border of type %d, %u, %u, %u and %u wide", entry,
                  static_cast<int>(border.type), border.top, border.bottom, border.left, border.right);
    }
    made.width += border.left + border.right;
    made.height += border.top + border.bottom;
    const PixelFormat& format = *find_format(step.to.format);
    if (((border.left | border.right) & format.shift_x) != 0 || ((border.top | border.bottom) & format.shift_y) != 0) {
      return fail(ACL_ERROR_INVALID_PARAM, "%s: borders of %s pictures are of even sizes", entry, format.name);
    }
  }
  const bool fills = made.left == 0 && made.top == 0 && made.width == step.to.width && made.height == step.to.height;
  return fills ? ACL_SUCCESS : check_region(entry, "area that is written", step.to, made);
}

void run_step(const Step& step) {
  Image image = resize(read_image(step.from, step.cut), step.width, step.height, step.interpolation);
  image = convert(std::move(image), *find_format(step.to.format), step.matrix);
  if (step.border) image = make_border(image, *step.border);
  write_image(image, step.to, step.left, step.top);
}

}  // namespace softcann::media
