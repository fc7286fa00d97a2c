// Operators that clients name: what detectors learn of boxes, and which of them stay.
// A box is (x1, y1, x2, y2) unless said otherwise.
#include "op/kernels/box_geometry.h"
#include "op/kernels/common.h"
#include "op/named.h"

using namespace softcann::op;

namespace {

// Centre and size of boxes whose last pixel belongs to them.
struct Centred {
  explicit Centred(const at::Tensor& given) {
    const Boxes boxes(given);
    width = boxes.width() + 1;
    height = boxes.height() + 1;
    x = (boxes.left + boxes.right) / 2;
    y = (boxes.top + boxes.bottom) / 2;
  }
  at::Tensor x, y, width, height;
};

at::Tensor row_of(const Named& call, const char* name, float otherwise) {
  const auto given = call.attribute<Numbers>(name, Numbers(4, otherwise));
  TORCH_CHECK(given.size() == 4, name, " has ", given.size(), " numbers, not 4");
  return at::tensor(c10::ArrayRef<float>(given));
}

}  // namespace

// Anchors and boxes [n, 4] to (dx, dy, dw, dh), by means and deviations.
NAMED(BoundingBoxEncode) {
  const Centred anchor(widened(call.in(0))), truth(widened(call.in(1)));
  const at::Tensor deltas = at::stack({(truth.x - anchor.x) / anchor.width, (truth.y - anchor.y) / anchor.height,
                                       (truth.width / anchor.width).log(), (truth.height / anchor.height).log()},
                                      -1);
  put(call.out(0), (deltas - row_of(call, "means", 0)) / row_of(call, "stds", 1));
}
NAMED(BoundingBoxDecode) {
  const Centred roi(widened(call.in(0)));
  const std::vector<at::Tensor> delta = (widened(call.in(1)) * row_of(call, "stds", 1) + row_of(call, "means", 0)).unbind(-1);
  const double most = std::abs(std::log(call.attribute("wh_ratio_clip", 0.016F)));
  const at::Tensor x = roi.x + roi.width * delta[0], y = roi.y + roi.height * delta[1],
                   across = (roi.width * delta[2].clamp(-most, most).exp() - 1) / 2,
                   down = (roi.height * delta[3].clamp(-most, most).exp() - 1) / 2;
  const auto shape = call.attribute<Integers>("max_shape", {});
  TORCH_CHECK(!shape.empty(), "max_shape is missing");
  const int64_t bottom = shape[0] - 1, right = (shape.size() > 1 ? shape[1] : shape[0]) - 1;
  put(call.out(0), at::stack({(x - across).clamp(0, right), (y - down).clamp(0, bottom), (x + across).clamp(0, right),
                              (y + down).clamp(0, bottom)},
                             -1));
}

// Anchors and boxes [n, 4], strides [n]: the centre's place in its cell, and the logarithms of the ratios of the sides.
NAMED(YoloBoxesEncode) {
  constexpr double tiny = 1e-6;
  const Boxes anchor(widened(call.in(0))), truth(widened(call.in(1)));
  const at::Tensor stride = widened(call.in(2));
  const auto place = [&](const at::Tensor& from, const at::Tensor& to) {
    return ((to - from) / stride + 0.5).clamp(tiny, 1 - tiny);
  };
  put(call.out(0), at::stack({place((anchor.left + anchor.right) / 2, (truth.left + truth.right) / 2),
                              place((anchor.top + anchor.bottom) / 2, (truth.top + truth.bottom) / 2),
                              (truth.width() / anchor.width()).clamp_min(tiny).log(),
                              (truth.height() / anchor.height()).clamp_min(tiny).log()},
                             -1));
}

// Anchors [n] get 1 + the number of their box: by their own largest overlap, then by being the best anchor of a box.
NAMED(GridAssignPositive) {
  const at::Tensor assigned = widened(call.in(0)), overlaps = widened(call.in(1)), best = widened(call.in(3)),
                   best_of_box = widened(call.in(5)), anchor_of_box = call.in(6).to(at::kLong);
  const at::Tensor responsible = call.in(2).ne(0);
  const double positive = call.attribute("pos_iou_thr", 0.0F), least = call.attribute("min_pos_iou", 0.0F);
  const bool all = call.attribute("gt_max_assign_all", false);
  at::Tensor result = at::where(responsible.logical_and(best.gt(positive)), widened(call.in(4)) + 1, assigned);
  const at::Tensor places = at::arange(assigned.size(0), at::kLong);
  const int64_t boxes = std::min(call.in(7).item<int64_t>(), overlaps.size(0));
  for (int64_t box = 0; box < boxes; ++box) {
    if (best_of_box[box].item<double>() <= least) continue;
    const at::Tensor chosen = all ? overlaps[box].eq(best_of_box[box]) : places.eq(anchor_of_box[box]);
    result = result.masked_fill(chosen.logical_and(responsible), box + 1);
  }
  put(call.out(0), result);
}

// Boxes [n, 4] by their corners: 1 for each anchor of the cells of a feature map that hold a centre.
NAMED(AnchorResponseFlags) {
  const auto map = call.attribute<Integers>("featmap_size", {}), stride = call.attribute<Integers>("strides", {});
  const auto anchors = call.attribute<int64_t>("num_base_anchors", 0);
  TORCH_CHECK(map.size() == 2 && stride.size() == 2 && anchors > 0,
              "featmap_size and strides are pairs, num_base_anchors is positive");
  const at::Tensor corners = widened(call.in(0));
  const auto cell = [&](int64_t axis) {
    const at::Tensor centre = (corners.select(1, axis) + corners.select(1, axis + 2)) * 0.5;
    return (centre / stride[axis]).floor().to(at::kLong).clamp(0, map[1 - axis] - 1);
  };
  const at::Tensor flags = at::zeros({map[0] * map[1]}, at::kByte).index_fill_(0, cell(1) * map[1] + cell(0), 1);
  put(call.out(0), flags.repeat_interleave(anchors));
}
