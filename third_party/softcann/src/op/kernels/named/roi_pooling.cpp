// Operators that clients name: position-sensitive pooling of regions.
#include "op/kernels/common.h"
#include "op/named.h"

using namespace softcann::op;

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
