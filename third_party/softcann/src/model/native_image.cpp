// Kernels on regions of images, as ONNX has them.
#include <ATen/ops/argsort.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>

#include "model/native.h"

namespace softcann::model {
namespace {

struct Boxes {
  at::Tensor low, high, areas;  // of one batch: [boxes, 2], [boxes]

  // Which of all boxes overlap the chosen one by more than `threshold` of their union.
  at::Tensor too_close(int64_t box, double threshold) const {
    const at::Tensor sides = at::minimum(high, high[box]).sub(at::maximum(low, low[box])).clamp_min(0);
    const at::Tensor shared = sides.prod(-1);
    const at::Tensor joint = areas.add(areas[box]).sub(shared);
    return joint.gt(0).logical_and(shared.gt(joint.mul(threshold)));
  }
};

// The boxes of one class that stay, in the order of falling scores.
void keep_best(const Boxes& boxes, const at::Tensor& scores, int64_t most, double iou, const at::IValue& least, int64_t batch,
               int64_t label, std::vector<int64_t>& kept) {
  const at::Tensor order = at::argsort(scores, /*stable=*/true, 0, /*descending=*/true).contiguous();
  at::Tensor dropped = at::full_like(scores, false, at::TensorOptions().dtype(at::kBool));
  const auto* ranked = order.const_data_ptr<int64_t>();
  int64_t count = 0;
  for (int64_t i = 0; i < order.numel() && count < most; ++i) {
    const int64_t box = ranked[i];
    if (!least.isNone() && !(scores[box].item().toDouble() > least.toDouble())) return;
    if (dropped[box].item().toBool()) continue;
    kept.insert(kept.end(), {batch, label, box});
    ++count;
    dropped = dropped.logical_or(boxes.too_close(box, iou));
  }
}

// One for each pixel of a bin; a box of numbers that are no pixels has none.
int64_t samples_of(double size) {
  constexpr double most = 1 << 16;
  return size > 0 && size < most ? static_cast<int64_t>(std::ceil(size)) : 0;
}

// Where one box lies on the feature map, and how it is cut into bins and samples.
struct Region {
  double top, left, bin_height, bin_width;
  int64_t rows, columns;  // samples in a bin

  Region(const double* box, double scale, double offset, bool aligned, int64_t height, int64_t width, int64_t sampling) {
    left = box[0] * scale - offset;
    top = box[1] * scale - offset;
    double roi_width = box[2] * scale - offset - left, roi_height = box[3] * scale - offset - top;
    if (!aligned) {
      roi_width = std::max(roi_width, 1.0);
      roi_height = std::max(roi_height, 1.0);
    }
    bin_height = roi_height / static_cast<double>(height);
    bin_width = roi_width / static_cast<double>(width);
    rows = sampling > 0 ? sampling : samples_of(bin_height);
    columns = sampling > 0 ? sampling : samples_of(bin_width);
  }
};

// The four neighbours of a point and their weights; none of it counts when the point lies outside by more than a pixel.
struct Neighbours {
  int64_t at[4] = {0, 0, 0, 0};
  double weight[4] = {0, 0, 0, 0};

  Neighbours(double y, double x, int64_t height, int64_t width) {
    if (!(y >= -1.0 && y <= static_cast<double>(height) && x >= -1.0 && x <= static_cast<double>(width))) return;
    y = std::clamp(y, 0.0, static_cast<double>(height - 1));
    x = std::clamp(x, 0.0, static_cast<double>(width - 1));
    const auto low_y = static_cast<int64_t>(y), low_x = static_cast<int64_t>(x);
    const int64_t high_y = std::min(low_y + 1, height - 1), high_x = std::min(low_x + 1, width - 1);
    const double fy = y - static_cast<double>(low_y), fx = x - static_cast<double>(low_x);
    const int64_t places[4] = {low_y * width + low_x, low_y * width + high_x, high_y * width + low_x, high_y * width + high_x};
    const double weights[4] = {(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx};
    std::copy_n(places, 4, at);
    std::copy_n(weights, 4, weight);
  }
};

struct Pooling {
  int64_t height, width, sampling;
  double scale;
  bool aligned, max;
};

double pool_bin(const double* plane, const Region& region, const Pooling& how, int64_t rows, int64_t columns, int64_t py,
                int64_t px) {
  double sum = 0, best = -INFINITY;
  for (int64_t iy = 0; iy < region.rows; ++iy) {
    const double y = region.top + (static_cast<double>(py) + (static_cast<double>(iy) + 0.5) / static_cast<double>(region.rows)) *
                                      region.bin_height;
    for (int64_t ix = 0; ix < region.columns; ++ix) {
      const double x =
          region.left +
          (static_cast<double>(px) + (static_cast<double>(ix) + 0.5) / static_cast<double>(region.columns)) * region.bin_width;
      const Neighbours near(y, x, rows, columns);
      for (int i = 0; i < 4; ++i) {
        const double part = near.weight[i] * plane[near.at[i]];
        sum += part;
        best = std::max(best, part);
      }
    }
  }
  const int64_t samples = region.rows * region.columns;
  if (samples <= 0) return 0;
  return how.max ? best : sum / static_cast<double>(samples);
}

}  // namespace

void suppress(Machine&, Stack& stack) {
  const at::Tensor boxes = stack[0].toTensor(), scores = stack[1].toTensor();
  const int64_t most = stack[2].toInt();
  const double iou = stack[3].toDouble();
  TORCH_CHECK(scores.dim() == 3 && boxes.dim() == 3 && boxes.size(2) == 4 && scores.size(0) == boxes.size(0) &&
                  scores.size(2) == boxes.size(1),
              "boxes ", boxes.sizes(), " and scores ", scores.sizes());
  const at::Tensor first = boxes.slice(-1, 0, 2), second = boxes.slice(-1, 2, 4);
  const bool centred = stack[5].toBool();
  const at::Tensor low = centred ? first.sub(second.div(2)) : at::minimum(first, second);
  const at::Tensor high = centred ? first.add(second.div(2)) : at::maximum(first, second);
  const at::Tensor areas = high.sub(low).prod(-1);
  std::vector<int64_t> kept;
  for (int64_t batch = 0; batch < scores.size(0); ++batch) {
    for (int64_t label = 0; label < scores.size(1); ++label) {
      keep_best({low[batch], high[batch], areas[batch]}, scores[batch][label], most, iou, stack[4], batch, label, kept);
    }
  }
  stack = {at::tensor(kept, at::kLong).reshape({-1, 3})};
}

void roi_align(Machine&, Stack& stack) {
  const at::Tensor given = stack[0].toTensor();
  const at::Tensor x = given.to(at::kDouble).contiguous(), rois = stack[1].toTensor().to(at::kDouble).contiguous();
  const at::Tensor batches = stack[2].toTensor().to(at::kLong).contiguous();
  const Pooling how{stack[3].toInt(),    stack[4].toInt(),  stack[6].toInt(),
                    stack[5].toDouble(), stack[7].toBool(), stack[8].toBool()};
  TORCH_CHECK(x.dim() == 4 && rois.dim() == 2 && rois.size(1) == 4 && batches.dim() == 1 && batches.size(0) == rois.size(0) &&
                  how.height > 0 && how.width > 0,
              "regions ", rois.sizes(), " of ", x.sizes(), " pooled to ", how.height, " by ", how.width);
  const int64_t count = rois.size(0), channels = x.size(1), rows = x.size(2), columns = x.size(3);
  at::Tensor made = at::empty({count, channels, how.height, how.width}, x.options());
  for (int64_t i = 0; i < count; ++i) {
    const int64_t batch = batches.const_data_ptr<int64_t>()[i];
    TORCH_CHECK_INDEX(batch >= 0 && batch < x.size(0) && rows > 0 && columns > 0, "region of image ", batch, " of ", x.size(0));
    const Region region(rois.const_data_ptr<double>() + 4 * i, how.scale, how.aligned ? 0.5 : 0.0, how.aligned, how.height,
                        how.width, how.sampling);
    for (int64_t c = 0; c < channels; ++c) {
      const double* plane = x.const_data_ptr<double>() + (batch * channels + c) * rows * columns;
      double* to = made.mutable_data_ptr<double>() + (i * channels + c) * how.height * how.width;
      for (int64_t bin = 0; bin < how.height * how.width; ++bin) {
        to[bin] = pool_bin(plane, region, how, rows, columns, bin / how.width, bin % how.width);
      }
    }
  }
  stack = {made.to(given.scalar_type())};
}

}  // namespace softcann::model
