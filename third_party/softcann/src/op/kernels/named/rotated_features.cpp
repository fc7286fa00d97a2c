// Operators that clients name: filters and features of oriented objects.
#include <cmath>

#include "op/kernels/regions.h"
#include "op/named.h"

using namespace softcann::op;

namespace {

// [out, rotations, in, entries]: where the turned filters have each entry. Indices are [orientations, h, w, rotations] and begin
// at 1.
at::Tensor turned_places(const at::Tensor& indices, int64_t out, int64_t in) {
  TORCH_CHECK(indices.dim() == 4, "indices are [orientations, height, width, rotations], not ", indices.sizes());
  const at::Tensor places = (indices.flatten(0, 2).to(at::kLong) - 1).t();
  return places.reshape({1, places.size(0), 1, places.size(1)}).expand({out, -1, in, -1});
}

}  // namespace

// Filters [out, in, orientations, h, w] to [out * rotations, in * orientations, h, w].
NAMED(ActiveRotatedFilter) {
  const at::Tensor filters = widened(call.in(0));
  TORCH_CHECK(filters.dim() == 5, "filters are [out, in, orientations, height, width], not ", filters.sizes());
  const at::Tensor places = turned_places(call.in(1), filters.size(0), filters.size(1));
  put_reshaped(call.out(0), at::zeros(places.sizes()).scatter(3, places, filters.flatten(2).unsqueeze(1).expand_as(places)));
}
NAMED(ActiveRotatedFilterGrad) {
  const at::Tensor &made = call.out(0), places = turned_places(call.in(1), made.size(0), made.size(1));
  put_reshaped(made, widened(call.in(0)).reshape(places.sizes()).gather(3, places).sum(1));
}

namespace {

// Calls each(image, cell, pixel, weight) for the pixels that are added to a cell: those around the centre of its box and, with
// five points, around the corners. Boxes [images, 5, H, W] are (y, x, width, height, angle).
template <class Each>
void aligned(const Named& call, const at::Tensor& given, Each&& each) {
  const auto points = call.attribute<int64_t>("points", 1);
  const float scale = call.attribute("spatial_scale", 1.0F);
  TORCH_CHECK(points == 1 || points == 5, "points are 1 or 5, not ", points);
  const at::Tensor boxes = plain(given);
  const int64_t height = boxes.size(2), width = boxes.size(3), area = height * width;
  for (int64_t n = 0; n < boxes.size(0); ++n) {
    const float* box = boxes.const_data_ptr<float>() + n * 5 * area;
    for (int64_t cell = 0; cell < area; ++cell) {
      const auto visit = [&](float y, float x) {
        const auto around = Around::of(height, width, y, x);
        if (around) around->each([&](int64_t pixel, float weight) { each(n, cell, pixel, weight); });
      };
      const float y = box[cell] * scale, x = box[area + cell] * scale;
      visit(y, x);
      if (points == 1) continue;
      const float across = box[2 * area + cell] * scale / 2, down = box[3 * area + cell] * scale / 2,
                  cosine = std::cos(box[4 * area + cell]), sine = std::sin(box[4 * area + cell]);
      for (const auto& [side, end] : {std::pair(1.0F, 1.0F), {-1.0F, 1.0F}, {-1.0F, -1.0F}, {1.0F, -1.0F}}) {
        const float right = side * across, up = end * down;
        visit(y + right * sine + up * cosine, x + right * cosine - up * sine);
      }
    }
  }
}

void check_maps(const at::Tensor& maps, const at::Tensor& boxes) {
  TORCH_CHECK(maps.dim() == 4 && boxes.sizes() == at::IntArrayRef({maps.size(0), 5, maps.size(2), maps.size(3)}),
              "features are [N, C, H, W] and boxes [N, 5, H, W], not ", maps.sizes(), " and ", boxes.sizes());
}

}  // namespace

// Features [N, C, H, W]: each cell's, and those where its box is.
NAMED(RotatedFeatureAlign) {
  check_maps(call.in(0), call.in(1));
  const at::Tensor maps = plain(call.in(0)), made = maps.clone();
  const int64_t channels = maps.size(1), area = maps.size(2) * maps.size(3);
  const auto* from = maps.const_data_ptr<float>();
  auto* to = made.mutable_data_ptr<float>();
  aligned(call, call.in(1), [&](int64_t image, int64_t cell, int64_t pixel, float weight) {
    for (int64_t c = image * channels; c < (image + 1) * channels; ++c) to[c * area + cell] += weight * from[c * area + pixel];
  });
  put(call.out(0), made);
}
NAMED(RotatedFeatureAlignGrad) {
  check_maps(call.in(0), call.in(1));
  const at::Tensor grad = plain(call.in(0)), made = grad.clone();
  const int64_t channels = grad.size(1), area = grad.size(2) * grad.size(3);
  const auto* from = grad.const_data_ptr<float>();
  auto* to = made.mutable_data_ptr<float>();
  aligned(call, call.in(1), [&](int64_t image, int64_t cell, int64_t pixel, float weight) {
    for (int64_t c = image * channels; c < (image + 1) * channels; ++c) to[c * area + pixel] += weight * from[c * area + cell];
  });
  put(call.out(0), made);
}
