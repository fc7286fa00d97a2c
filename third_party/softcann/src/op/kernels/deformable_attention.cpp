// Attention to samples beside points of feature maps (Zhu et al., Deformable DETR, 2021).
#include <cmath>

#include "op/kernel.h"
#include "op/kernels/common.h"

using namespace softcann::op;

namespace {

// Values [B, pixels of all levels, heads, channels], shapes [levels, 2] of (height, width) and the first pixel of each level,
// places [B, queries, heads, levels, points, 2] of (x, y) in parts of the map, weights without the last dimension.
struct SampledMaps {
  SampledMaps(const at::Tensor& value, const at::Tensor& shapes, const at::Tensor& starts, const at::Tensor& location,
              const at::Tensor& weight)
      : value(plain(value)),
        location(plain(location)),
        weight(plain(weight)),
        shapes(shapes.to(at::kLong).contiguous()),
        starts(starts.to(at::kLong).contiguous()) {
    TORCH_CHECK(value.dim() == 4 && location.dim() == 6 && location.size(5) == 2 &&
                    weight.sizes() == location.sizes().slice(0, 5) && value.size(0) == location.size(0) &&
                    value.size(2) == location.size(2),
                "value is [B, pixels, heads, channels], location [B, queries, heads, levels, points, 2], attnWeight the same "
                "without the last, not ",
                value.sizes(), ", ", location.sizes(), " and ", weight.sizes());
    TORCH_CHECK(shapes.sizes() == at::IntArrayRef({location.size(3), 2}) && starts.numel() == location.size(3),
                "spatialShape is [levels, 2] and levelStartIndex [levels], not ", shapes.sizes(), " and ", starts.sizes());
    const auto* shape = this->shapes.const_data_ptr<int64_t>();
    for (int64_t level = 0; level < location.size(3); ++level) {
      const int64_t start = this->starts.const_data_ptr<int64_t>()[level];
      TORCH_CHECK(start >= 0 && start + shape[2 * level] * shape[2 * level + 1] <= value.size(1), "level ", level,
                  " lies outside of value, which has ", value.size(1), " pixels");
    }
  }
  // Calls sample(number of the weight, first number of the query and head in the output), which takes
  // (first number of the pixel's channels, weight, its derivative by x, by y) for each pixel around the sample.
  template <class Sample>
  void each(Sample&& sample) const {
    const int64_t heads = location.size(2), levels = location.size(3), points = location.size(4), channels = value.size(3);
    const auto* place = location.const_data_ptr<float>();
    for (int64_t i = 0; i < weight.numel(); ++i) {
      const int64_t level = i / points % levels, row = i / points / levels, head = row % heads,
                    batch = row / heads / location.size(1);
      const int64_t height = shapes.const_data_ptr<int64_t>()[2 * level], width = shapes.const_data_ptr<int64_t>()[2 * level + 1];
      const int64_t first = batch * value.size(1) + starts.const_data_ptr<int64_t>()[level];
      const float x = place[2 * i] * static_cast<float>(width) - 0.5F, y = place[2 * i + 1] * static_cast<float>(height) - 0.5F;
      sample(i, row * channels, [&](auto&& pixel) {
        const float left = std::floor(x), top = std::floor(y);
        for (int corner = 0; corner < 4; ++corner) {
          const bool right = corner % 2, below = corner / 2;
          const float column = left + static_cast<float>(right), line = top + static_cast<float>(below);
          if (!(column >= 0 && line >= 0 && column < static_cast<float>(width) && line < static_cast<float>(height))) continue;
          const float by_x = right ? x - left : 1 - (x - left), by_y = below ? y - top : 1 - (y - top);
          const int64_t number = first + static_cast<int64_t>(line) * width + static_cast<int64_t>(column);
          pixel((number * heads + head) * channels, by_x * by_y, (right ? by_y : -by_y) * static_cast<float>(width),
                (below ? by_x : -by_x) * static_cast<float>(height));
        }
      });
    }
  }
  at::Tensor value, location, weight, shapes, starts;
};

}  // namespace

OP(aclnnMultiScaleDeformableAttnFunction) {
  const SampledMaps maps(value, spatialShape, levelStartIndex, location, attnWeight);
  const int64_t channels = value.size(3);
  const at::Tensor made = at::zeros({value.size(0), location.size(1), value.size(2) * channels});
  const auto *from = maps.value.const_data_ptr<float>(), *factor = maps.weight.const_data_ptr<float>();
  auto* to = made.mutable_data_ptr<float>();
  maps.each([&](int64_t i, int64_t target, auto&& pixels) {
    pixels([&](int64_t pixel, float weight, float, float) {
      for (int64_t c = 0; c < channels; ++c) to[target + c] += factor[i] * weight * from[pixel + c];
    });
  });
  put(output, made);
}
OP(aclnnMultiScaleDeformableAttentionGrad) {
  const SampledMaps maps(value, spatialShape, levelStartIndex, location, attnWeight);
  const int64_t channels = value.size(3);
  const at::Tensor arriving = plain(gradOutput), for_value = at::zeros(value.sizes()), for_location = at::zeros(location.sizes()),
                   for_weight = at::zeros(attnWeight.sizes());
  TORCH_CHECK(arriving.numel() == value.size(0) * location.size(1) * value.size(2) * channels, "gradOutput ", gradOutput.sizes(),
              " is not [B, queries, heads * channels]");
  const auto *from = maps.value.const_data_ptr<float>(), *factor = maps.weight.const_data_ptr<float>(),
             *grad = arriving.const_data_ptr<float>();
  auto *to = for_value.mutable_data_ptr<float>(), *by_place = for_location.mutable_data_ptr<float>(),
       *by_weight = for_weight.mutable_data_ptr<float>();
  maps.each([&](int64_t i, int64_t target, auto&& pixels) {
    pixels([&](int64_t pixel, float weight, float weight_by_x, float weight_by_y) {
      float both = 0;
      for (int64_t c = 0; c < channels; ++c) {
        both += grad[target + c] * from[pixel + c];
        to[pixel + c] += grad[target + c] * factor[i] * weight;
      }
      by_weight[i] += both * weight;
      by_place[2 * i] += both * factor[i] * weight_by_x;
      by_place[2 * i + 1] += both * factor[i] * weight_by_y;
    });
  });
  put(gradValue, for_value);
  put(gradLocation, for_location);
  put(gradAttnWeight, for_weight);
}
