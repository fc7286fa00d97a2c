// Operators that clients name: overlaps of boxes and their gradients.
#include <numbers>

#include "op/kernels/box_geometry.h"
#include "op/kernels/common.h"
#include "op/named.h"

using namespace softcann::op;

namespace {

// Two sets of boxes [4, n] and [4, m]: every one of the second with every one of the first, [m, n], or pairs, [1, n].
struct Pairs {
  explicit Pairs(const Named& call, size_t first)
      : centred(call.attribute("trans", false)),
        cross(call.attribute("is_cross", true)),
        mode(call.attribute<std::string>("mode", "iou")),
        rows_a(corners(call.in(first), centred)),
        rows_b(corners(call.in(first + 1), centred)),
        a(rows_a.unsqueeze(0)),
        b(rows_b.unsqueeze(cross ? 1 : 0)),
        both(intersection(a, b)),
        whole(a.area() + b.area() - both),
        below(mode == "iou" ? whole : b.area()),
        width(a.right.maximum(b.right) - a.left.minimum(b.left)),
        height(a.bottom.maximum(b.bottom) - a.top.minimum(b.top)) {
    TORCH_CHECK(mode == "iou" || mode == "iof", "mode '", mode, "' is not one of iou, iof");
  }
  bool centred, cross;
  std::string mode;
  at::Tensor rows_a, rows_b;
  Boxes a, b;
  at::Tensor both, whole, below, width, height;  // the areas, what the overlap is divided by, and the sides of the hull
};

// d(minimum(a, b)) / da, and with the arguments exchanged that of the maximum; a tie is shared as by torch.
at::Tensor below_share(const at::Tensor& a, const at::Tensor& b) { return a.lt(b).to(at::kFloat) + a.eq(b).to(at::kFloat) * 0.5; }

// Gradients for what the coordinates of one set make: the intersection, the set's own area, the hull's sides; and, where there
// are any, its centres and its own sides.
struct Slopes {
  at::Tensor both, own, width, height;
  at::Tensor x{}, y{}, own_width{}, own_height{};
};

// [4, n] as the client has its boxes: for left, top, right, bottom, or for centres and sizes.
at::Tensor collected(const Pairs& pairs, const Boxes& one, const Boxes& other, const Slopes& by) {
  const at::Tensor across = (pairs.a.right.minimum(pairs.b.right) - pairs.a.left.maximum(pairs.b.left)).clamp_min(0),
                   down = (pairs.a.bottom.minimum(pairs.b.bottom) - pairs.a.top.maximum(pairs.b.top)).clamp_min(0);
  at::Tensor wide = by.own * one.height(), high = by.own * one.width();
  if (by.own_width.defined()) wide = wide + by.own_width;
  if (by.own_height.defined()) high = high + by.own_height;
  const at::Tensor shared_wide = by.both * down * across.gt(0), shared_high = by.both * across * down.gt(0);
  at::Tensor left = -shared_wide * below_share(other.left, one.left) - wide - by.width * below_share(one.left, other.left);
  at::Tensor right = shared_wide * below_share(one.right, other.right) + wide + by.width * below_share(other.right, one.right);
  at::Tensor top = -shared_high * below_share(other.top, one.top) - high - by.height * below_share(one.top, other.top);
  at::Tensor bottom =
      shared_high * below_share(one.bottom, other.bottom) + high + by.height * below_share(other.bottom, one.bottom);
  if (by.x.defined()) {
    left = left + by.x / 2;
    right = right + by.x / 2;
    top = top + by.y / 2;
    bottom = bottom + by.y / 2;
  }
  if (pairs.centred) return at::stack({left + right, top + bottom, (right - left) / 2, (bottom - top) / 2});
  return at::stack({left, top, right, bottom});
}

// Sums over the other set where every one met every one: a is the last dimension of [4, m, n], b the one before.
at::Tensor of_first(const Pairs& pairs, const at::Tensor& value) { return pairs.cross ? value.sum(1) : value.reshape({4, -1}); }
at::Tensor of_second(const Pairs& pairs, const at::Tensor& value) { return pairs.cross ? value.sum(2) : value.reshape({4, -1}); }

// Slopes of both/below for the intersection and for the areas of a and b.
struct RatioSlopes {
  explicit RatioSlopes(const Pairs& pairs) {
    const at::Tensor share = pairs.both / pairs.below;
    if (pairs.mode == "iou") {
      both = (1 + share) / pairs.below;
      first = second = -share / pairs.below;
    } else {
      both = 1 / pairs.below;
      first = at::zeros_like(share);
      second = -share / pairs.below;
    }
  }
  at::Tensor both, first, second;
};

at::Tensor gradient_of(const Named& call, const Pairs& pairs) { return widened(call.in(0)).reshape(pairs.both.sizes()); }

}  // namespace

// The overlap less the part of the hull that neither covers.
NAMED(GIoU) {
  const Pairs pairs(call, 0);
  put(call.out(0), pairs.both / pairs.below - 1 + pairs.whole / (pairs.width * pairs.height));
}
NAMED(GIoUGrad) {
  const Pairs pairs(call, 1);
  const RatioSlopes ratio(pairs);
  const at::Tensor by = gradient_of(call, pairs), hull = pairs.width * pairs.height, by_hull = -by * pairs.whole / hull.square();
  const at::Tensor both = by * (ratio.both - 1 / hull), width = by_hull * pairs.height, height = by_hull * pairs.width;
  put(call.out(0), of_first(pairs, collected(pairs, pairs.a, pairs.b, {both, by * (ratio.first + 1 / hull), width, height})));
  put(call.out(1), of_second(pairs, collected(pairs, pairs.b, pairs.a, {both, by * (ratio.second + 1 / hull), width, height})));
}

// The overlap less the squared distance of the centres over that of the hull's corners.
NAMED(DIoU) {
  const Pairs pairs(call, 0);
  const at::Tensor x = (pairs.a.left + pairs.a.right - pairs.b.left - pairs.b.right) / 2,
                   y = (pairs.a.top + pairs.a.bottom - pairs.b.top - pairs.b.bottom) / 2;
  put(call.out(0), pairs.both / pairs.below - (x.square() + y.square()) / (pairs.width.square() + pairs.height.square()));
}

namespace {

// The gradient of the overlap less the distance, for the first set and for the second.
std::array<Slopes, 2> distance_slopes(const Pairs& pairs, const at::Tensor& by) {
  const RatioSlopes ratio(pairs);
  const at::Tensor x = (pairs.a.left + pairs.a.right - pairs.b.left - pairs.b.right) / 2,
                   y = (pairs.a.top + pairs.a.bottom - pairs.b.top - pairs.b.bottom) / 2;
  const at::Tensor diagonal = pairs.width.square() + pairs.height.square();
  const at::Tensor by_diagonal = by * (x.square() + y.square()) / diagonal.square() * 2, by_x = -2 * by * x / diagonal,
                   by_y = -2 * by * y / diagonal;
  const at::Tensor both = by * ratio.both, width = by_diagonal * pairs.width, height = by_diagonal * pairs.height;
  return {Slopes{both, by * ratio.first, width, height, by_x, by_y},
          Slopes{both, by * ratio.second, width, height, -by_x, -by_y}};
}

}  // namespace

NAMED(DIoUGrad) {
  const Pairs pairs(call, 1);
  const auto [first, second] = distance_slopes(pairs, gradient_of(call, pairs));
  put(call.out(0), of_first(pairs, collected(pairs, pairs.a, pairs.b, first)));
  put(call.out(1), of_second(pairs, collected(pairs, pairs.b, pairs.a, second)));
}

// The distance's, less how much the proportions differ; and the difference of the angles of the diagonals.
NAMED(CIoU) {
  const Pairs pairs(call, 0);
  const Complete complete(pairs.a, pairs.b, pairs.mode);
  put(call.out(0), complete.ratio - complete.distance - complete.alpha * complete.aspect);
  if (call.outputs() > 1) put(call.out(1), complete.turn);
}
// The weight of the proportions is a constant.
NAMED(CIoUGrad) {
  const Pairs pairs(call, 1);
  const Complete complete(pairs.a, pairs.b, pairs.mode);
  const at::Tensor by = gradient_of(call, pairs),
                   by_turn = -by * complete.alpha * complete.turn * (8 / (std::numbers::pi * std::numbers::pi));
  auto [first, second] = distance_slopes(pairs, by);
  const auto rotate = [](Slopes& slopes, const Boxes& boxes, const at::Tensor& by_angle) {
    const at::Tensor square = boxes.width().square() + boxes.height().square();
    slopes.own_width = by_angle * boxes.height() / square;
    slopes.own_height = -by_angle * boxes.width() / square;
  };
  rotate(first, pairs.a, -by_turn);
  rotate(second, pairs.b, by_turn);
  put(call.out(0), of_first(pairs, collected(pairs, pairs.a, pairs.b, first)));
  put(call.out(1), of_second(pairs, collected(pairs, pairs.b, pairs.a, second)));
}

// Boxes [n, 4] and [m, 4]: [m, n]; `aligned`: [4, n] and [4, n]: [n, 1].
NAMED(Iou) {
  const bool aligned = call.attribute("aligned", false);
  const auto boxes = [&](size_t i) {
    const at::Tensor given = widened(call.in(i));
    TORCH_CHECK(given.dim() == 2 && given.size(aligned ? 0 : 1) == 4, "boxes are ", aligned ? "[4, n]" : "[n, 4]", ", not ",
                given.sizes());
    return Boxes(aligned ? given.t() : given.unsqueeze(static_cast<int64_t>(i)));
  };
  const at::Tensor overlap =
      overlap_of(boxes(0), boxes(1), call.attribute<std::string>("mode", "iou"), call.attribute("eps", 1.0F));
  put_reshaped(call.out(0), overlap);
}
