// Operators that clients name: regions of feature maps, by samples or by their greatest element.
#include "op/kernel.h"
#include "op/kernels/regions.h"
#include "op/named.h"

using namespace softcann::op;

namespace {

RegionBins bins_of(const Named& call, at::IntArrayRef maps) {
  TORCH_CHECK(maps.size() == 4, "feature maps ", maps, " are not [images, C, H, W]");
  return {maps[2],
          maps[3],
          call.attribute<int64_t>("pooled_height", 1),
          call.attribute<int64_t>("pooled_width", 1),
          call.attribute<int64_t>("sample_num", 2),
          call.attribute<int64_t>("roi_end_mode", 1),
          call.attribute("spatial_scale", 1.0F)};
}

// Bins of a region by samples, so many in each direction of a bin.
struct Samples {
  int64_t down, across;

  Samples(int64_t ratio, float height, float width)
      : down(ratio > 0 ? ratio : static_cast<int64_t>(std::ceil(height))),
        across(ratio > 0 ? ratio : static_cast<int64_t>(std::ceil(width))) {}
  float share() const { return 1.0f / static_cast<float>(std::max<int64_t>(down * across, 1)); }
  // Calls each(rows, columns of a bin, from 0 to 1).
  template <class Each>
  void run(Each&& each) const {
    for (int64_t i = 0; i < down; ++i) {
      for (int64_t j = 0; j < across; ++j) {
        each((static_cast<float>(i) + 0.5f) / static_cast<float>(down),
             (static_cast<float>(j) + 0.5f) / static_cast<float>(across));
      }
    }
  }
};

// Regions (image, centre x, centre y, width, height, angle), one a column of `regions`, of maps [images, H, W, C].
struct RotatedBins {
  int64_t height, width, rows, columns, ratio;
  float scale;
  bool aligned, clockwise;

  RotatedBins(const Named& call, at::IntArrayRef maps, at::IntArrayRef pooled)
      : height(maps[1]),
        width(maps[2]),
        rows(pooled[1]),
        columns(pooled[2]),
        ratio(call.attribute<int64_t>("sampling_ratio", 0)),
        scale(call.attribute("spatial_scale", 0.5F)),
        aligned(call.attribute("aligned", true)),
        clockwise(call.attribute("clockwise", false)) {}

  // Calls each(bin, pixel, weight).
  template <class Each>
  void run(const float* region, Each&& each) const {
    const float shift = aligned ? 0.5f : 0.0f, angle = clockwise ? -region[5] : region[5];
    const float x0 = region[1] * scale - shift, y0 = region[2] * scale - shift, cos = std::cos(angle), sin = std::sin(angle);
    const float least = aligned ? 0.0f : 1.0f;
    TORCH_CHECK(!aligned || (region[3] >= 0 && region[4] >= 0), "a rotated region of ", region[3], " x ", region[4]);
    const float across = std::max(region[3] * scale, least), down = std::max(region[4] * scale, least);
    const float bin_height = down / static_cast<float>(rows), bin_width = across / static_cast<float>(columns);
    const Samples samples(ratio, bin_height, bin_width);
    for (int64_t bin = 0; bin < rows * columns; ++bin) {
      samples.run([&](float i, float j) {
        const float y = (static_cast<float>(bin / columns) + i) * bin_height - down / 2;
        const float x = (static_cast<float>(bin % columns) + j) * bin_width - across / 2;
        if (const auto around = Around::of(height, width, y * cos - x * sin + y0, y * sin + x * cos + x0)) {
          around->each([&](int64_t pixel, float weight) { each(bin, pixel, weight * samples.share()); });
        }
      });
    }
  }
};

// [count, 6] of regions [6, count].
at::Tensor rotated_regions(const at::Tensor& given, at::IntArrayRef maps) {
  TORCH_CHECK(given.dim() == 2, "rotated regions are [6, count], not ", given.sizes());
  const at::Tensor regions = plain(given.t());
  check_regions("rotated regions", maps, regions, 6);
  return regions;
}

// A region's bins may each be elsewhere: `offset` [regions, 2, rows, columns], of x and then of y, times gamma and its sides.
struct DeformableBins {
  int64_t height, width, rows, columns, ratio;
  float scale, gamma;

  DeformableBins(const Named& call, at::IntArrayRef maps)
      : height(maps[2]),
        width(maps[3]),
        ratio(call.attribute<int64_t>("sampling_ratio", 0)),
        scale(call.attribute("spatial_scale", 1.0F)),
        gamma(call.attribute("gamma", 0.1F)) {
    const auto size = call.attribute<Integers>("output_size", {});
    TORCH_CHECK(size.size() == 2, "output_size has ", size.size(), " numbers, not 2");
    rows = size[0], columns = size[1];
  }
  // Calls each(bin, the sample's surroundings, its share, the region's sides times gamma).
  template <class Each>
  void run(const float* region, const float* offset, Each&& each) const {
    const float left = region[1] * scale - 0.5f, top = region[2] * scale - 0.5f;
    const float across = (region[3] - region[1]) * scale, down = (region[4] - region[2]) * scale;
    const float bin_height = down / static_cast<float>(rows), bin_width = across / static_cast<float>(columns);
    const Samples samples(ratio, bin_height, bin_width);
    for (int64_t bin = 0; bin < rows * columns; ++bin) {
      const float move_x = offset == nullptr ? 0 : gamma * across * offset[bin];
      const float move_y = offset == nullptr ? 0 : gamma * down * offset[rows * columns + bin];
      samples.run([&](float i, float j) {
        const float y = top + move_y + (static_cast<float>(bin / columns) + i) * bin_height;
        const float x = left + move_x + (static_cast<float>(bin % columns) + j) * bin_width;
        if (const auto around = Around::of(height, width, y, x))
          each(bin, *around, samples.share(), gamma * across, gamma * down);
      });
    }
  }
};

const float* offsets_of(const at::Tensor& offsets, int64_t region, int64_t bins) {
  return offsets.defined() && offsets.numel() != 0 ? offsets.const_data_ptr<float>() + region * 2 * bins : nullptr;
}

}  // namespace

NAMED(ROIAlign) { put(call.out(0), roi_align(call.in(0), call.in(1), bins_of(call, call.in(0).sizes()))); }
NAMED(ROIAlignGrad) {
  const at::IntArrayRef maps = call.out(0).sizes();
  put(call.out(0), roi_align_gradient(call.in(0), call.in(1), maps, bins_of(call, maps)));
}

// Maps [images, H, W, C], regions: [regions, rows, columns, C].
NAMED(RoiAlignRotated) {
  const at::Tensor maps = plain(call.in(0)), regions = rotated_regions(call.in(1), call.in(0).sizes());
  const RotatedBins bins(call, maps.sizes(), call.out(0).sizes());
  at::Tensor result = at::zeros(call.out(0).sizes(), at::kFloat);
  const int64_t channels = maps.size(3), pixels = maps.size(1) * maps.size(2);
  for (int64_t r = 0; r < regions.size(0); ++r) {
    const float* region = regions.const_data_ptr<float>() + r * 6;
    const float* from = maps.const_data_ptr<float>() + image_of(region, maps.size(0)) * pixels * channels;
    float* to = result.mutable_data_ptr<float>() + r * bins.rows * bins.columns * channels;
    bins.run(region, [&](int64_t bin, int64_t pixel, float weight) {
      for (int64_t c = 0; c < channels; ++c) to[bin * channels + c] += weight * from[pixel * channels + c];
    });
  }
  put(call.out(0), result);
}
NAMED(RoiAlignRotatedGrad) {
  const at::Tensor gradient = plain(call.in(0)), regions = rotated_regions(call.in(1), call.out(0).sizes());
  const at::IntArrayRef maps = call.out(0).sizes();
  const RotatedBins bins(call, maps, gradient.sizes());
  at::Tensor result = at::zeros(maps, at::kFloat);
  const int64_t channels = maps[3], pixels = maps[1] * maps[2];
  for (int64_t r = 0; r < regions.size(0); ++r) {
    const float* region = regions.const_data_ptr<float>() + r * 6;
    const float* from = gradient.const_data_ptr<float>() + r * bins.rows * bins.columns * channels;
    float* to = result.mutable_data_ptr<float>() + image_of(region, maps[0]) * pixels * channels;
    bins.run(region, [&](int64_t bin, int64_t pixel, float weight) {
      for (int64_t c = 0; c < channels; ++c) to[pixel * channels + c] += weight * from[bin * channels + c];
    });
  }
  put(call.out(0), result);
}

// Maps [images, C, H, W], regions [count, 5], (offsets).
NAMED(DeformableRoiPool) {
  const at::Tensor maps = plain(call.in(0)), regions = plain(call.in(1)), offsets = plain(call.in(2));
  check_regions("DeformableRoiPool", maps.sizes(), regions);
  const DeformableBins bins(call, maps.sizes());
  at::Tensor result = at::zeros({regions.size(0), maps.size(1), bins.rows, bins.columns}, at::kFloat);
  const int64_t channels = maps.size(1), pixels = maps.size(2) * maps.size(3), count = bins.rows * bins.columns;
  for (int64_t r = 0; r < regions.size(0); ++r) {
    const float* region = regions.const_data_ptr<float>() + r * 5;
    const float* from = maps.const_data_ptr<float>() + image_of(region, maps.size(0)) * channels * pixels;
    float* to = result.mutable_data_ptr<float>() + r * channels * count;
    bins.run(region, offsets_of(offsets, r, count), [&](int64_t bin, const Around& around, float share, float, float) {
      around.each([&](int64_t pixel, float weight) {
        for (int64_t c = 0; c < channels; ++c) to[c * count + bin] += share * weight * from[c * pixels + pixel];
      });
    });
  }
  put(call.out(0), result);
}
// The result's gradient, maps, regions, (offsets): gradients of the maps and of the offsets.
NAMED(DeformableRoiPoolGrad) {
  const at::Tensor gradient = plain(call.in(0)), maps = plain(call.in(1)), regions = plain(call.in(2)),
                   offsets = plain(call.in(3));
  check_regions("DeformableRoiPoolGrad", maps.sizes(), regions);
  const DeformableBins bins(call, maps.sizes());
  const int64_t channels = maps.size(1), pixels = maps.size(2) * maps.size(3), count = bins.rows * bins.columns;
  at::Tensor by_maps = at::zeros(maps.sizes(), at::kFloat), by_offsets = at::zeros({regions.size(0), 2, count}, at::kFloat);
  for (int64_t r = 0; r < regions.size(0); ++r) {
    const float* region = regions.const_data_ptr<float>() + r * 5;
    const int64_t image = image_of(region, maps.size(0)) * channels * pixels;
    const float *from = gradient.const_data_ptr<float>() + r * channels * count, *map = maps.const_data_ptr<float>() + image;
    float *to = by_maps.mutable_data_ptr<float>() + image, *moved = by_offsets.mutable_data_ptr<float>() + r * 2 * count;
    bins.run(region, offsets_of(offsets, r, count), [&](int64_t bin, const Around& at, float share, float by_x, float by_y) {
      for (int64_t c = 0; c < channels; ++c) {
        const float grad = share * from[c * count + bin];
        at.each([&](int64_t pixel, float weight) { to[c * pixels + pixel] += grad * weight; });
        const float* channel = map + c * pixels;
        const float top = channel[at.top_right] - channel[at.top_left],
                    bottom = channel[at.bottom_right] - channel[at.bottom_left];
        const float left = channel[at.bottom_left] - channel[at.top_left],
                    right = channel[at.bottom_right] - channel[at.top_right];
        moved[bin] += grad * by_x * (top * (1 - at.down) + bottom * at.down);
        moved[count + bin] += grad * by_y * (left * (1 - at.across) + right * at.across);
      }
    });
  }
  put(call.out(0), by_maps);
  if (call.outputs() > 1 && call.out(1).numel() != 0) put_reshaped(call.out(1), by_offsets);
}

namespace {

// Maps [images, C, H, W], regions [count, 5]: the greatest element of each bin, and where it is in its map, -1 in an empty bin.
struct Greatest {
  int64_t rows, columns;
  float scale_y, scale_x;

  // The first and the end of a bin's elements.
  static std::pair<int64_t, int64_t> extent(float start, float end, int64_t cell, int64_t cells, int64_t length) {
    if (end <= start) return {0, 0};
    const float size = (end - start) / static_cast<float>(cells);
    const auto first = static_cast<int64_t>(std::floor(start + static_cast<float>(cell) * size));
    const auto last = static_cast<int64_t>(std::ceil(start + static_cast<float>(cell + 1) * size));
    return {std::clamp<int64_t>(first, 0, length), std::clamp<int64_t>(last, 0, length)};
  }
  std::pair<at::Tensor, at::Tensor> of(const at::Tensor& given_maps, const at::Tensor& given_regions) const {
    const at::Tensor maps = plain(given_maps), regions = plain(given_regions);
    check_regions("RoiPoolingWithArgMax", maps.sizes(), regions);
    const int64_t channels = maps.size(1), height = maps.size(2), width = maps.size(3);
    at::Tensor result = at::zeros({regions.size(0), channels, rows, columns}, at::kFloat);
    at::Tensor places = at::full(result.sizes(), -1, at::kInt);
    for (int64_t r = 0; r < regions.size(0); ++r) {
      const float* region = regions.const_data_ptr<float>() + r * 5;
      const at::Tensor map = maps[image_of(region, maps.size(0))];
      for (int64_t bin = 0; bin < rows * columns; ++bin) {
        const auto [top, bottom] = extent(region[2] * scale_y, (region[4] + 1) * scale_y, bin / columns, rows, height);
        const auto [left, right] = extent(region[1] * scale_x, (region[3] + 1) * scale_x, bin % columns, columns, width);
        if (top >= bottom || left >= right) continue;
        const auto [value, place] = map.slice(1, top, bottom).slice(2, left, right).flatten(1).max(1);
        result.select(0, r).flatten(1).select(1, bin).copy_(value);
        const at::Tensor row = place.floor_divide(right - left) + top, column = place.remainder(right - left) + left;
        places.select(0, r).flatten(1).select(1, bin).copy_(row * width + column);
      }
    }
    return {result, places};
  }
};

double greatest_cost(const at::Tensor& maps, int64_t rows, int64_t columns, double scale_y, double scale_x) {
  if (given(maps) && maps.dim() != 4) invalid("feature maps have %ld dimensions; 4 are expected", long(maps.dim()));
  if (rows <= 0 || columns <= 0) invalid("%ld x %ld bins; both are positive", long(rows), long(columns));
  if (!(scale_y > 0 && scale_x > 0)) invalid("scales %g and %g; both are positive", scale_y, scale_x);
  return bytes(maps);
}

}  // namespace

NAMED(RoiPoolingWithArgMax) {
  const Greatest pooling{call.attribute<int64_t>("pooled_h", 0), call.attribute<int64_t>("pooled_w", 0),
                         call.attribute("spatial_scale_h", 1.0F), call.attribute("spatial_scale_w", 1.0F)};
  const auto [result, places] = pooling.of(call.in(0), call.in(1));
  put(call.out(0), result);
  if (call.outputs() > 1) put(call.out(1), places);
}
OP_COST(aclnnRoiPoolingWithArgMax,
        greatest_cost(x, pooled_h, pooled_w, static_cast<double>(spatial_scale_h), static_cast<double>(spatial_scale_w))) {
  const auto [result, places] = Greatest{pooled_h, pooled_w, spatial_scale_h, spatial_scale_w}.of(x, rois);
  put(y, result);
  put(argmax, places);
}
// The same of a gradient and places [count, C, rows, columns], each place in its channel's plane.
OP_COST(aclnnRoiPoolingGradWithArgMax, greatest_cost(gradInputRef, pooledH, pooledW, 1, 1)) {
  const at::Tensor gradient = plain(gradOutput), regions = plain(rois);
  check_regions("aclnnRoiPoolingGradWithArgMax", gradInputRef.sizes(), regions);
  TORCH_CHECK(argmax.sizes() == gradient.sizes(), "aclnnRoiPoolingGradWithArgMax: places ", argmax.sizes(), " of a gradient ",
              gradient.sizes());
  const at::Tensor places = argmax.to(at::kLong).flatten(2), result = at::zeros(gradInputRef.sizes(), at::kFloat).flatten(2);
  for (int64_t r = 0; r < regions.size(0); ++r) {
    const at::Tensor there = places[r].ge(0);
    at::Tensor image = result[image_of(regions.const_data_ptr<float>() + r * 5, gradInputRef.size(0))];
    image.scatter_add_(1, places[r].clamp_min(0), gradient[r].flatten(1) * there);
  }
  put(gradInputRef, result.view(gradInputRef.sizes()));
}
// The result's gradient [count, rows, columns, C], maps [images, H, W, C], regions, (how many), places: the maps' gradient.
NAMED(RoiPoolingGradWithArgMax) {
  const at::Tensor gradient = plain(call.in(0)), regions = plain(call.in(2)), places = call.in(4).to(at::kLong).contiguous();
  const at::IntArrayRef maps = call.out(0).sizes();
  check_regions("RoiPoolingGradWithArgMax", maps, regions);
  TORCH_CHECK(places.sizes() == gradient.sizes(), "places ", places.sizes(), " of a gradient ", gradient.sizes());
  at::Tensor result = at::zeros({maps[0], maps[1] * maps[2], maps[3]}, at::kFloat);
  for (int64_t r = 0; r < regions.size(0); ++r) {
    const at::Tensor place = places[r].flatten(0, 1), there = place.ge(0);
    const at::Tensor image = result[image_of(regions.const_data_ptr<float>() + r * 5, maps[0])];
    image.scatter_add_(0, at::where(there, place, 0), gradient[r].flatten(0, 1) * there);
  }
  put(call.out(0), result.view(maps));
}
