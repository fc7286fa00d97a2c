// Operators that clients name: boxes of pictures, what detectors learn of them and which of them stay. Inputs, outputs and
// attributes are those of CANN's operators of these names. A box is (x1, y1, x2, y2) unless said otherwise.
#include <ATen/ATen.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "op/kernels/box_geometry.h"
#include "op/kernels/common.h"
#include "op/kernels/random.h"
#include "op/named.h"

using namespace softcann::op;

namespace {

using Integers = std::vector<int64_t>;
using Numbers = std::vector<float>;

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
  const auto turned = [](Slopes& slopes, const Boxes& boxes, const at::Tensor& by_angle) {
    const at::Tensor square = boxes.width().square() + boxes.height().square();
    slopes.own_width = by_angle * boxes.height() / square;
    slopes.own_height = -by_angle * boxes.width() / square;
  };
  turned(first, pairs.a, -by_turn);
  turned(second, pairs.b, by_turn);
  put(call.out(0), of_first(pairs, collected(pairs, pairs.a, pairs.b, first)));
  put(call.out(1), of_second(pairs, collected(pairs, pairs.b, pairs.a, second)));
}

// Boxes [n, 4] and [m, 4]: [m, n].
NAMED(Iou) {
  const at::Tensor a = widened(call.in(0)), b = widened(call.in(1));
  put(call.out(0), overlap_of(Boxes(a.unsqueeze(0)), Boxes(b.unsqueeze(1)), call.attribute<std::string>("mode", "iou"),
                              call.attribute("eps", 1.0F)));
}

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
    return (to / stride - from / stride + 0.5).clamp(tiny, 1 - tiny);
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

namespace {

// Which of boxes, best first, overlap none of those before them that stay by more than the threshold.
std::vector<bool> suppressed(const at::Tensor& ratio, double threshold) {
  const at::Tensor rows = ratio.contiguous();
  const auto count = rows.size(0);
  const auto* values = rows.const_data_ptr<float>();
  std::vector<bool> stays(static_cast<size_t>(count), true);
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < i && stays[i]; ++j) stays[i] = !(stays[j] && values[i * count + j] > threshold);
  }
  return stays;
}

at::Tensor ratio_of_all(const at::Tensor& boxes) {
  return overlap_of(Boxes(boxes.unsqueeze(0)), Boxes(boxes.unsqueeze(1)), "iou", 0).to(at::kFloat);
}

// The numbers of the boxes with a score above `least`, best first; of equal ones the first.
Integers by_score(const at::Tensor& scores, double least) {
  const at::Tensor values = scores.to(at::kFloat).contiguous();
  const auto* score = values.const_data_ptr<float>();
  Integers order;
  for (int64_t i = 0; i < values.numel(); ++i) {
    if (score[i] > least) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return score[a] > score[b]; });
  return order;
}

Integers survivors(const at::Tensor& boxes, const Integers& order, double threshold, int64_t most) {
  const std::vector<bool> stays = suppressed(ratio_of_all(boxes.index_select(0, at::tensor(order, at::kLong))), threshold);
  Integers kept;
  for (size_t i = 0; i < order.size() && static_cast<int64_t>(kept.size()) < most; ++i) {
    if (stays[i]) kept.push_back(order[i]);
  }
  return kept;
}

// Numbers of boxes into an output that may have more places; those are 0.
void put_numbers(const at::Tensor& out, const Integers& numbers) {
  at::Tensor all = at::zeros({out.numel()}, at::kLong);
  const auto count = std::min<int64_t>(out.numel(), static_cast<int64_t>(numbers.size()));
  all.narrow(0, 0, count).copy_(at::tensor(numbers, at::kLong).narrow(0, 0, count));
  put(out, all);
}

}  // namespace

// Boxes and scores [n, 5 or more], best first: the boxes, their numbers, and whether they stay.
NAMED(NMSWithMask) {
  const at::Tensor& given = call.in(0);
  const std::vector<bool> stays = suppressed(ratio_of_all(widened(given).narrow(1, 0, 4)), call.attribute("iou_threshold", 0.5F));
  at::Tensor mask = at::zeros({given.size(0)}, at::kByte);
  for (size_t i = 0; i < stays.size(); ++i) mask[static_cast<int64_t>(i)].fill_(stays[i] ? 1 : 0);
  put(call.out(0), given.narrow(1, 0, call.out(0).size(1)));
  put(call.out(1), at::arange(given.size(0)));
  put(call.out(2), mask);
}
// Boxes [n, 4], scores [n], and a number each: how many at most, the overlap's and the score's threshold.
NAMED(NonMaxSuppressionV4) {
  const Integers chosen = survivors(widened(call.in(0)), by_score(call.in(1), call.in(4).item<double>()),
                                    call.in(3).item<double>(), call.in(2).item<int64_t>());
  put_numbers(call.out(0), chosen);
  put(call.out(1), at::scalar_tensor(static_cast<int64_t>(chosen.size()), at::kLong));
}

// Boxes [images, n, 1 or classes, 4], scores [images, n, classes]: of each class those that stay, of all the best.
NAMED(BatchMultiClassNonMaxSuppression) {
  TORCH_CHECK(!call.attribute("change_coordinate_frame", false) && !call.attribute("transpose_box", false),
              "change_coordinate_frame and transpose_box are not supported");
  const at::Tensor boxes = widened(call.in(0)), scores = widened(call.in(1));
  TORCH_CHECK(boxes.dim() == 4 && scores.dim() == 3 && (boxes.size(2) == 1 || boxes.size(2) == scores.size(2)),
              "boxes are [images, n, 1 or classes, 4] and scores [images, n, classes]");
  const auto most = call.attribute<int64_t>("max_total_size", 0), each = call.attribute<int64_t>("max_size_per_class", 0);
  const at::Tensor kept = at::zeros({scores.size(0), most, 6}), counts = at::zeros({scores.size(0)}, at::kInt);
  for (int64_t image = 0; image < scores.size(0); ++image) {
    std::vector<at::Tensor> rows;
    for (int64_t kind = 0; kind < scores.size(2); ++kind) {
      const at::Tensor own = boxes[image].select(1, boxes.size(2) == 1 ? 0 : kind), value = scores[image].select(1, kind);
      for (const int64_t i : survivors(own, by_score(value, call.attribute("score_threshold", 0.0F)),
                                       call.attribute("iou_threshold", 0.0F), each)) {
        rows.push_back(at::cat({own[i], value[i].reshape({1}), at::full({1}, kind, at::kFloat)}));
      }
    }
    if (rows.empty()) continue;
    const at::Tensor found = at::stack(rows);
    const at::Tensor order =
        std::get<1>(found.select(1, 4).sort(true, 0, true)).narrow(0, 0, std::min<int64_t>(most, found.size(0)));
    kept[image].narrow(0, 0, order.size(0)).copy_(found.index_select(0, order));
    counts[image].fill_(order.size(0));
  }
  put(call.out(0), kept.narrow(2, 0, 4));
  put(call.out(1), kept.select(2, 4));
  put(call.out(2), kept.select(2, 5));
  put(call.out(3), counts);
}

namespace {

// Seeds of 0 stand for numbers that differ each time.
at::Tensor shuffled(int64_t count, int64_t seed, int64_t seed2) {
  if (seed != 0 || seed2 != 0) return at::randperm(count, generator(key_of(seed, seed2)), at::TensorOptions(at::kLong));
  static thread_local at::Generator unseeded = at::detail::createCPUGenerator(c10::detail::getNonDeterministicRandom());
  return at::randperm(count, unseeded, at::TensorOptions(at::kLong));
}

}  // namespace

// Places of true elements, drawn without repetition, [count, dimensions]; and which of these rows there are.
NAMED(RandomChoiceWithMask) {
  const at::Tensor found = call.in(0).nonzero();
  const int64_t rows = call.out(0).size(0), drawn = std::min(rows, found.size(0));
  const at::Tensor order = shuffled(found.size(0), call.attribute<int64_t>("seed", 0), call.attribute<int64_t>("seed2", 0));
  const at::Tensor places = at::zeros({rows, call.in(0).dim()}, at::kLong);
  places.narrow(0, 0, drawn).copy_(found.index_select(0, order.narrow(0, 0, drawn)));
  put(call.out(0), places);
  put(call.out(1), at::arange(rows).lt(drawn));
}
// Labels (1, 0, -1 for ignored): of the positive ones and of the negative ones a part stays, drawn at random.
NAMED(SubSample) {
  const at::Tensor labels = call.in(0);
  const auto each = call.attribute<int64_t>("batch_size_per_images", 0);
  const at::Tensor positive = labels.eq(1).nonzero().flatten(), negative = labels.eq(0).nonzero().flatten();
  const int64_t yes = std::min<int64_t>(
      positive.numel(), static_cast<int64_t>(static_cast<float>(each) * call.attribute("positive_fraction", 0.0F)));
  const int64_t no = std::min<int64_t>(negative.numel(), each - yes);
  at::Tensor result = at::full_like(labels, -1);
  result.index_fill_(0, positive.index_select(0, shuffled(positive.numel(), 0, 0).narrow(0, 0, yes)), 1);
  result.index_fill_(0, negative.index_select(0, shuffled(negative.numel(), 0, 0).narrow(0, 0, no)), 0);
  put(call.out(0), result);
}

namespace {

constexpr double kDegree = std::numbers::pi / 180;

// Boxes [batch, 5, n] by corners and an angle in degrees.
struct Turned {
  explicit Turned(const at::Tensor& given) {
    TORCH_CHECK(given.dim() == 3 && given.size(1) == 5, "boxes are [batch, 5, n], not ", given.sizes());
    const std::vector<at::Tensor> part = widened(given).unbind(1);
    x = (part[0] + part[2]) / 2;
    y = (part[1] + part[3]) / 2;
    width = part[2] - part[0];
    height = part[3] - part[1];
    tangent = (part[4] * kDegree).tan();
  }
  at::Tensor x, y, width, height, tangent;
};

at::Tensor weight_of(const Named& call) {
  const auto weight = call.attribute<Numbers>("weight", Numbers(5, 1));
  TORCH_CHECK(weight.size() == 5, "weight has ", weight.size(), " numbers, not 5");
  return at::tensor(c10::ArrayRef<float>(weight)).reshape({1, 5, 1});
}

}  // namespace

NAMED(RotatedBoxEncode) {
  const Turned anchor(call.in(0)), truth(call.in(1));
  const at::Tensor parts =
      at::stack({(truth.x - anchor.x) / anchor.width, (truth.y - anchor.y) / anchor.height, (truth.width / anchor.width).log(),
                 (truth.height / anchor.height).log(), truth.tangent - anchor.tangent},
                1);
  put(call.out(0), parts * weight_of(call));
}
NAMED(RotatedBoxDecode) {
  const Turned anchor(call.in(0));
  const std::vector<at::Tensor> delta = (widened(call.in(1)) / weight_of(call)).unbind(1);
  const at::Tensor x = anchor.x + delta[0] * anchor.width, y = anchor.y + delta[1] * anchor.height,
                   across = anchor.width * delta[2].exp() / 2, down = anchor.height * delta[3].exp() / 2;
  put(call.out(0), at::stack({x - across, y - down, x + across, y + down, (delta[4] + anchor.tangent).atan() / kDegree}, 1));
}

namespace {

struct Point {
  double x, y;
};
double cross(Point a, Point b) { return a.x * b.y - a.y * b.x; }
Point operator-(Point a, Point b) { return {a.x - b.x, a.y - b.y}; }

// Centre, width, height and an angle in degrees; or, with `by_corners`, x1, y1, x2, y2 and the angle.
struct TurnedBox {
  TurnedBox(const float* given, int64_t stride, bool by_corners) {
    for (int64_t i = 0; i < 5; ++i) number[i] = given[i * stride];
    if (by_corners) {
      const std::array<double, 4> corner{number[0], number[1], number[2], number[3]};
      number = {(corner[0] + corner[2]) / 2, (corner[1] + corner[3]) / 2, corner[2] - corner[0], corner[3] - corner[1],
                number[4]};
    }
  }
  double area() const { return number[2] * number[3]; }
  std::vector<Point> vertices() const {  // counter-clockwise
    const double cosine = std::cos(number[4] * kDegree), sine = std::sin(number[4] * kDegree);
    std::vector<Point> made;
    for (const auto& [side, end] : {std::pair(-0.5, -0.5), {0.5, -0.5}, {0.5, 0.5}, {-0.5, 0.5}}) {
      const double across = number[2] * side, up = number[3] * end;
      made.push_back({number[0] + across * cosine - up * sine, number[1] + across * sine + up * cosine});
    }
    return made;
  }
  std::array<double, 5> number;
};

// Sutherland and Hodgman, Reentrant polygon clipping, 1974: what is left of a after each edge of b has cut it.
double shared_area(const TurnedBox& a, const TurnedBox& b) {
  std::vector<Point> left = a.vertices();
  const std::vector<Point> cutter = b.vertices();
  for (size_t edge = 0; edge < cutter.size() && !left.empty(); ++edge) {
    const Point from = cutter[edge], along = cutter[(edge + 1) % cutter.size()] - from;
    std::vector<Point> next;
    for (size_t i = 0; i < left.size(); ++i) {
      const Point here = left[i], there = left[(i + 1) % left.size()];
      const double at_here = cross(along, here - from), at_there = cross(along, there - from);
      if (at_here >= 0) next.push_back(here);
      if ((at_here < 0) != (at_there < 0)) {
        const double part = at_here / (at_here - at_there);
        next.push_back({here.x + part * (there.x - here.x), here.y + part * (there.y - here.y)});
      }
    }
    left = std::move(next);
  }
  double twice = 0;
  for (size_t i = 0; i < left.size(); ++i) twice += cross(left[i], left[(i + 1) % left.size()]);
  return std::max(0.0, twice / 2);
}

// Boxes [batch, 5, n] and [batch, 5, k]: value(a, b) of all pairs, [batch, n, k], or of those of one number, [batch, n].
template <class Value>
at::Tensor of_pairs(const at::Tensor& first, const at::Tensor& second, bool by_corners, bool all, Value&& value) {
  TORCH_CHECK(
      first.dim() == 3 && first.size(1) == 5 && second.dim() == 3 && second.size(1) == 5 && first.size(0) == second.size(0),
      "boxes are [batch, 5, n], not ", first.sizes(), " and ", second.sizes());
  TORCH_CHECK(all || first.size(2) == second.size(2), first.size(2), " boxes and ", second.size(2), " are not pairs");
  const at::Tensor a = first.to(at::kFloat).contiguous(), b = second.to(at::kFloat).contiguous();
  const int64_t n = a.size(2), k = b.size(2);
  at::Tensor made = all ? at::empty({a.size(0), n, k}) : at::empty({a.size(0), n});
  auto* result = made.mutable_data_ptr<float>();
  for (int64_t batch = 0; batch < a.size(0); ++batch) {
    const float *own = a.const_data_ptr<float>() + batch * 5 * n, *others = b.const_data_ptr<float>() + batch * 5 * k;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = all ? 0 : i; j < (all ? k : i + 1); ++j) {
        *result++ = static_cast<float>(value(TurnedBox(own + i, n, by_corners), TurnedBox(others + j, k, by_corners)));
      }
    }
  }
  return made;
}

double turned_ratio(const TurnedBox& a, const TurnedBox& b, bool over_first) {
  const double both = shared_area(a, b), whole = over_first ? a.area() : a.area() + b.area() - both;
  return whole > 0 ? both / whole : 0;
}

}  // namespace

NAMED(RotatedOverlaps) { put(call.out(0), of_pairs(call.in(0), call.in(1), call.attribute("trans", false), true, shared_area)); }
NAMED(RotatedIou) {
  const auto mode = call.attribute<std::string>("mode", "iou");
  TORCH_CHECK(mode == "iou" || mode == "iof", "mode '", mode, "' is not one of iou, iof");
  put(call.out(0), of_pairs(call.in(0), call.in(1), call.attribute("trans", false), call.attribute("is_cross", true),
                            [&](const TurnedBox& a, const TurnedBox& b) { return turned_ratio(a, b, mode == "iof"); }));
}
// Boxes [n, 5], scores [n], labels [n] or one for all: of each label those that stay, and their numbers.
NAMED(RotatedNMS) {
  const at::Tensor boxes = widened(call.in(0)), labels = call.in(2).expand({boxes.size(0)});
  const Integers order = by_score(call.in(1), call.attribute("score_threshold", 0.0F));
  const at::Tensor chosen = boxes.index_select(0, at::tensor(order, at::kLong)).t().unsqueeze(0),
                   label = labels.index_select(0, at::tensor(order, at::kLong));
  const bool by_corners = call.attribute<int64_t>("mode", 0) == 1;
  at::Tensor ratio = of_pairs(chosen, chosen, by_corners, true,
                              [](const TurnedBox& a, const TurnedBox& b) { return turned_ratio(a, b, false); })[0];
  ratio = ratio * label.unsqueeze(0).eq(label.unsqueeze(1));
  const std::vector<bool> stays = suppressed(ratio, call.attribute("iou_threshold", 0.0F));
  const auto most = call.attribute<int64_t>("max_output_size", -1);
  Integers kept;
  for (size_t i = 0; i < order.size() && (most < 0 || static_cast<int64_t>(kept.size()) < most); ++i) {
    if (stays[i]) kept.push_back(order[i]);
  }
  const at::Tensor numbers = at::tensor(kept, at::kLong);
  call.give(0, boxes.index_select(0, numbers));
  call.give(1, numbers);
}

namespace {

// [regions, bins, length]: which elements of a line belong to which bin of regions that begin at `start`, each bin `size` long.
at::Tensor bin_masks(const at::Tensor& start, const at::Tensor& size, int64_t bins, int64_t length) {
  const at::Tensor number = at::arange(bins, at::kFloat), pixel = at::arange(length, at::kFloat);
  const at::Tensor first = (start.unsqueeze(1) + number * size.unsqueeze(1)).floor().clamp(0, length),
                   last = (start.unsqueeze(1) + (number + 1) * size.unsqueeze(1)).ceil().clamp(0, length);
  return pixel.ge(first.unsqueeze(-1)).logical_and(pixel.lt(last.unsqueeze(-1))).to(at::kFloat);
}

// Regions [batch, 5, n] of (image, x1, y1, x2, y2) of pictures [images, ..., height, width], by bins.
struct Regions {
  Regions(const Named& call, const at::Tensor& given, int64_t images, int64_t height, int64_t width)
      : bins(call.attribute<int64_t>("group_size", 0)), channels(call.attribute<int64_t>("output_dim", 0)) {
    TORCH_CHECK(given.dim() == 3 && given.size(1) == 5, "regions are [batch, 5, n], not ", given.sizes());
    TORCH_CHECK(bins > 0 && channels > 0, "group_size and output_dim are positive");
    const double scale = call.attribute("spatial_scale", 1.0F);
    const std::vector<at::Tensor> part = widened(given).transpose(1, 2).reshape({-1, 5}).unbind(1);
    const at::Tensor left = part[1].round() * scale, top = part[2].round() * scale;
    const auto sizes = [&](const at::Tensor& end, const at::Tensor& begin) {
      return ((end.round() + 1) * scale - begin).clamp_min(0.1) / bins;
    };
    rows = bin_masks(top, sizes(part[4], top), bins, height);
    columns = bin_masks(left, sizes(part[3], left), bins, width);
    const at::Tensor valid = part[0].ge(0).logical_and(part[0].lt(images));
    image = part[0].to(at::kLong).clamp(0, images - 1);
    const at::Tensor area = rows.sum(2).unsqueeze(2) * columns.sum(2).unsqueeze(1);
    factor = (valid.to(at::kFloat).reshape({-1, 1, 1}) / area.clamp_min(1)).unsqueeze(1);
  }
  int64_t bins, channels;
  at::Tensor rows, columns, image, factor;  // factor: [regions, 1, bins, bins], one over the bin's area
};

}  // namespace

// x [images, channels * bins^2, H, W]: bin (i, j) of a region is the mean over its own channel's pixels.
NAMED(PSROIPoolingV2) {
  const at::Tensor x = widened(call.in(0));
  const Regions region(call, call.in(1), x.size(0), x.size(2), x.size(3));
  const at::Tensor maps =
      x.reshape({x.size(0), region.channels, region.bins, region.bins, x.size(2), x.size(3)}).index_select(0, region.image);
  put(call.out(0), at::einsum("rcijhw,rih,rjw->rcij", {maps, region.rows, region.columns}) * region.factor);
}
NAMED(PSROIPoolingGradV2D) {
  const c10::IntArrayRef shape = call.out(0).sizes();
  const Regions region(call, call.in(1), shape[0], shape[2], shape[3]);
  const at::Tensor by = widened(call.in(0)).reshape({-1, region.channels, region.bins, region.bins}) * region.factor;
  const at::Tensor spread = at::einsum("rcij,rih,rjw->rcijhw", {by, region.rows, region.columns});
  at::Tensor made = at::zeros({shape[0], region.channels, region.bins, region.bins, shape[2], shape[3]});
  put(call.out(0), made.index_add(0, region.image, spread).reshape(shape));
}
