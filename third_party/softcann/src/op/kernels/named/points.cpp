// Operators that clients name: sets of points, and what lies near, between or around them.
#include <array>
#include <cmath>
#include <map>

#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/named.h"

using namespace softcann::op;

// Points [B, 3, N], centres [M, B, 3]: the first points of each ball, [M, B, samples]. A point at the centre belongs to every
// ball; where a ball holds fewer points than asked for, its first fills up.
NAMED(BallQuery) {
  const at::Tensor points = plain(call.in(0)), centres = plain(call.in(1));
  TORCH_CHECK(
      points.dim() == 3 && points.size(1) == 3 && centres.dim() == 3 && centres.size(2) == 3 && centres.size(1) == points.size(0),
      "points are [B, 3, N] and centres [M, B, 3], not ", points.sizes(), " and ", centres.sizes());
  const float inner = call.attribute("min_radius", 0.0F), outer = call.attribute("max_radius", 0.0F);
  const auto samples = call.attribute<int64_t>("sample_num", 0);
  const int64_t count = points.size(2), batches = points.size(0);
  const at::Tensor found = at::zeros({centres.size(0), batches, samples}, at::kLong);
  const auto from = points.accessor<float, 3>(), around = centres.accessor<float, 3>();
  auto to = found.accessor<int64_t, 3>();
  for (int64_t m = 0; m < centres.size(0); ++m) {
    for (int64_t b = 0; b < batches; ++b) {
      int64_t taken = 0;
      for (int64_t k = 0; k < count && taken < samples; ++k) {
        float distance = 0;
        for (int64_t axis = 0; axis < 3; ++axis) {
          const float way = around[m][b][axis] - from[b][axis][k];
          distance += way * way;
        }
        if (distance != 0 && (distance < inner * inner || distance >= outer * outer)) continue;
        for (int64_t i = taken; i < (taken == 0 ? samples : taken + 1); ++i) to[m][b][i] = k;
        ++taken;
      }
    }
  }
  put(call.out(0), found);
}

namespace {

// Of points [2, B, N] and others [2, B, M]: the squared distance of each point to the nearest of the others, and which it is.
std::tuple<at::Tensor, at::Tensor> nearest(const at::Tensor& points, const at::Tensor& others) {
  return (points.unsqueeze(3) - others.unsqueeze(2)).square().sum(0).min(2);
}

}  // namespace

// Two sets of points of a plane, [2, B, N] and [2, B, M]: the squared distance to the nearest of the other set, and which it is.
NAMED(ChamferDistance) {
  const at::Tensor first = widened(call.in(0)), second = widened(call.in(1));
  TORCH_CHECK(
      first.dim() == 3 && second.dim() == 3 && first.size(0) == 2 && second.size(0) == 2 && first.size(1) == second.size(1),
      "points are [2, B, N] and [2, B, M], not ", first.sizes(), " and ", second.sizes());
  for (const bool swapped : {false, true}) {
    const auto [distance, number] = swapped ? nearest(second, first) : nearest(first, second);
    put(call.out(swapped ? 1 : 0), distance);
    put(call.out(swapped ? 3 : 2), number);
  }
}

// Of ChamferDistance, here with points [B, N, 2] and [B, M, 2]: each distance pulls both of its points.
OP(aclnnChamferDistanceBackward) {
  const at::Tensor first = widened(xyz1), second = widened(xyz2);
  const at::Tensor for_first = at::zeros(first.sizes()), for_second = at::zeros(second.sizes());
  const auto pull = [](const at::Tensor& points, const at::Tensor& others, const at::Tensor& numbers, const at::Tensor& grad,
                       const at::Tensor& for_points, const at::Tensor& for_others) {
    const at::Tensor chosen = numbers.to(at::kLong).unsqueeze(2).expand_as(points);
    const at::Tensor change = (points - others.gather(1, chosen)) * widened(grad).unsqueeze(2) * 2;
    for_points.add_(change);
    for_others.scatter_add_(1, chosen, -change);
  };
  pull(first, second, idx1, gradDist1, for_first, for_second);
  pull(second, first, idx2, gradDist2, for_second, for_first);
  put(gradXyz1, for_first);
  put(gradXyz2, for_second);
}

// Points [B, M, C], three numbers of points and their weights [B, N, 3]: the weighted sums, which lie in memory as [B, N, C]
// whatever the output's shape.
NAMED(ThreeInterpolate) {
  const at::Tensor points = widened(call.in(0)), numbers = call.in(1).to(at::kLong), weights = widened(call.in(2));
  TORCH_CHECK(points.dim() == 3 && numbers.dim() == 3 && numbers.size(2) == 3 && weights.sizes() == numbers.sizes(),
              "points are [B, M, C], their numbers and weights [B, N, 3], not ", points.sizes(), ", ", numbers.sizes(), " and ",
              weights.sizes());
  const int64_t channels = points.size(2);
  const at::Tensor chosen = points.gather(1, numbers.flatten(1).unsqueeze(2).expand({-1, -1, channels}))
                                .reshape({points.size(0), numbers.size(1), 3, channels});
  put_reshaped(call.out(0), (chosen * weights.unsqueeze(3)).sum(2));
}

// Of ThreeInterpolate, here with [B, C, N, 1] for the points' gradients [B, C, m, 1].
OP(aclnnThreeInterpolateBackward) {
  const at::Tensor numbers = idx.to(at::kLong), arriving = widened(grad_x).flatten(2);
  TORCH_CHECK(numbers.dim() == 3 && numbers.size(2) == 3 && arriving.size(2) == numbers.size(1) && grad_y.size(2) == m,
              "grad_x is [B, C, N, 1], idx [B, N, 3] and grad_y [B, C, m, 1], not ", grad_x.sizes(), ", ", idx.sizes(), " and ",
              grad_y.sizes());
  const at::Tensor parts = (arriving.unsqueeze(3) * widened(weight).unsqueeze(1)).flatten(2);
  put_reshaped(
      grad_y,
      at::zeros({grad_y.size(0), grad_y.size(1), m}).scatter_add(2, numbers.flatten(1).unsqueeze(1).expand_as(parts), parts));
}

// Points [N, features], of which the first three are a place, the sides of a cell and the range of the grid: the cells that hold
// points in the order of their first, with as many points as fit; their places (z, y, x), numbers of points, and how many there
// are.
NAMED(Voxelization) {
  const at::Tensor points = plain(call.in(0)), sides = plain(call.in(1)), range = plain(call.in(2));
  TORCH_CHECK(points.dim() == 2 && points.size(1) >= 3 && sides.numel() == 3 && range.numel() == 6,
              "points are [N, 3 or more], sides are 3 numbers and the range is 6");
  const auto most_points = call.attribute<int64_t>("max_points", 0), most_cells = call.attribute<int64_t>("max_voxels", 0);
  TORCH_CHECK(most_points > 0 && most_cells > 0, "max_points and max_voxels are positive");
  const int64_t features = points.size(1);
  const at::Tensor cells = at::zeros({most_cells, most_points, features}), places = at::zeros({most_cells, 3}, at::kLong),
                   counts = at::zeros({most_cells}, at::kLong);
  const auto *side = sides.const_data_ptr<float>(), *bound = range.const_data_ptr<float>(),
             *from = points.const_data_ptr<float>();
  auto* count = counts.mutable_data_ptr<int64_t>();
  auto place = places.accessor<int64_t, 2>();
  std::map<std::array<int64_t, 3>, int64_t> known;
  for (int64_t i = 0; i < points.size(0); ++i) {
    std::array<int64_t, 3> where{};
    bool inside = true;
    for (size_t axis = 0; axis < 3 && inside; ++axis) {
      const float cell = std::floor((from[i * features + static_cast<int64_t>(axis)] - bound[axis]) / side[axis]);
      inside = cell >= 0 && cell < std::round((bound[axis + 3] - bound[axis]) / side[axis]);
      if (inside) where[2 - axis] = static_cast<int64_t>(cell);
    }
    if (!inside) continue;
    const auto next = static_cast<int64_t>(known.size());
    if (next == most_cells && known.count(where) == 0) continue;
    const auto [entry, added] = known.emplace(where, next);
    const int64_t cell = entry->second;
    for (size_t axis = 0; added && axis < 3; ++axis) place[cell][static_cast<int64_t>(axis)] = where[axis];
    if (count[cell] < most_points) cells[cell][count[cell]++].copy_(points[i]);
  }
  put(call.out(0), cells);
  put(call.out(1), places);
  put(call.out(2), counts);
  put(call.out(3), at::scalar_tensor(static_cast<int64_t>(known.size()), at::kLong));
}

namespace {

// By how often a ray from the point crosses the sides of the quadrangle; a point of a side is not inside.
bool inside(float x, float y, const std::array<float, 8>& corner) {
  bool odd = false;
  for (size_t i = 0; i < 4; ++i) {
    const size_t j = (i + 1) % 4;
    const float ax = corner[2 * i], ay = corner[2 * i + 1], bx = corner[2 * j], by = corner[2 * j + 1];
    const float turn = (bx - ax) * (y - ay) - (by - ay) * (x - ax);
    if (turn == 0 && x >= std::min(ax, bx) && x <= std::max(ax, bx) && y >= std::min(ay, by) && y <= std::max(ay, by))
      return false;
    if ((ay > y) != (by > y) && (turn > 0) == (by > ay)) odd = !odd;
  }
  return odd;
}

}  // namespace

// Points [N, 2] and quadrangles [8, M] by their corners: 1 where the point is inside, [N, M].
NAMED(PointsInPolygons) {
  const at::Tensor points = plain(call.in(0)), polygons = plain(call.in(1));
  TORCH_CHECK(points.dim() == 2 && points.size(1) == 2 && polygons.dim() == 2 && polygons.size(0) == 8,
              "points are [N, 2] and polygons [8, M], not ", points.sizes(), " and ", polygons.sizes());
  const at::Tensor made = at::empty({points.size(0), polygons.size(1)});
  const auto point = points.accessor<float, 2>(), polygon = polygons.accessor<float, 2>();
  auto to = made.accessor<float, 2>();
  for (int64_t m = 0; m < polygons.size(1); ++m) {
    std::array<float, 8> corner{};
    for (size_t i = 0; i < corner.size(); ++i) corner[i] = polygon[static_cast<int64_t>(i)][m];
    for (int64_t n = 0; n < points.size(0); ++n) to[n][m] = inside(point[n][0], point[n][1], corner) ? 1.0F : 0.0F;
  }
  put(call.out(0), made);
}
