// Operators that clients name: rotated boxes.
#include <array>
#include <cmath>
#include <numbers>

#include "op/kernels/common.h"
#include "op/kernels/named/suppression.h"
#include "op/named.h"

using namespace softcann::op;

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
  TORCH_CHECK(call.in(1).dim() == 3 && call.in(1).size(1) == 5, "RotatedBoxDecode: deltas ", call.in(1).sizes(),
              ", not [B, 5, N]");
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
// Boxes [n, 5], scores [n], labels [n], one or none for all: of each label those that stay, and their numbers. `is_angle`: the
// angles are degrees, not radians.
NAMED(RotatedNMS) {
  const at::Tensor& boxes = call.in(0);
  const bool labelled = call.in(2).defined() && call.in(2).numel() > 0;
  const at::Tensor labels = (labelled ? call.in(2) : at::zeros({1})).expand({boxes.size(0)});
  const Integers order = by_score(call.in(1), call.attribute("score_threshold", 0.0F));
  at::Tensor turned = boxes.to(at::kFloat, false, true);  // a copy
  if (!call.attribute("is_angle", true)) turned.select(1, 4).div_(kDegree);
  const at::Tensor chosen = turned.index_select(0, at::tensor(order, at::kLong)).t().unsqueeze(0),
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
