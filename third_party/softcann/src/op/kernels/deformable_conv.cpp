// Convolution of samples beside the kernel's own places.
//
// Note [Deformable samples]
// offset [N, parts, groups, taps, rows, columns]: all distances across, then all down, then, if modulated, factors. The samples
// are laid out as an image of rows * kernel_h by columns * kernel_w pixels, which a convolution with that kernel and stride sums
// up.
#include <cmath>

#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/named.h"

using namespace softcann::op;

namespace {

struct Deformation {
  at::IntArrayRef kernel, stride, padding, dilation;
  int64_t groups;
  bool modulated;

  struct Sizes {
    int64_t images, channels, height, width, rows, columns, taps;
  };
  Sizes sizes(const at::Tensor& image, const at::Tensor& offset) const {
    TORCH_CHECK(kernel.size() == 2 && stride.size() == 4 && padding.size() == 4 && dilation.size() == 4,
                "deformable convolution: kernelSize of 2, stride, padding and dilation of 4 numbers are expected");
    TORCH_CHECK(image.dim() == 4 && offset.dim() == 4 && image.size(0) == offset.size(0) && kernel[0] > 0 && kernel[1] > 0 &&
                    groups > 0 && image.size(1) % groups == 0,
                "deformable convolution: kernel ", kernel, " and ", groups, " groups for an image of ", image.sizes(),
                " and offsets of ", offset.sizes());
    TORCH_CHECK(offset.size(1) == (modulated ? 3 : 2) * groups * kernel[0] * kernel[1], "deformable convolution: offset of ",
                offset.sizes());
    return {image.size(0), image.size(1), image.size(2), image.size(3), offset.size(2), offset.size(3), kernel[0] * kernel[1]};
  }
  // Where a sample is taken and what it is multiplied with; `place`: of these numbers in the offsets.
  struct Sample {
    float y, x, factor;
    int64_t image, group, place, factor_place, target;
  };
  // Calls each(sample) for every image, group, tap, row and column.
  template <class Each>
  void run(const Sizes& s, const float* offset, Each&& each) const {
    const int64_t area = s.rows * s.columns, part = groups * s.taps * area;
    for (int64_t n = 0; n < s.images; ++n) {
      for (int64_t g = 0; g < groups; ++g) {
        for (int64_t tap = 0; tap < s.taps; ++tap) {
          const int64_t ky = tap / kernel[1], kx = tap % kernel[1];
          for (int64_t i = 0; i < area; ++i) {
            const int64_t row = i / s.columns, column = i % s.columns;
            const int64_t place = n * part * (modulated ? 3 : 2) + (g * s.taps + tap) * area + i;
            const float x = static_cast<float>(column * stride[3] - padding[2] + kx * dilation[3]) + offset[place];
            const float y = static_cast<float>(row * stride[2] - padding[0] + ky * dilation[2]) + offset[place + part];
            const int64_t target = (row * kernel[0] + ky) * s.columns * kernel[1] + column * kernel[1] + kx;
            each(Sample{y, x, modulated ? offset[place + 2 * part] : 1.0f, n, g, place, place + 2 * part, target});
          }
        }
      }
    }
  }
};

// Calls each(pixel, weight, its derivative by y, by x) for the pixels around a place; those outside count as 0.
template <class Each>
void corners(const Deformation::Sizes& s, float y, float x, Each&& each) {
  const float top = std::floor(y), left = std::floor(x), down = y - top, across = x - left;
  for (int dy = 0; dy < 2; ++dy) {
    for (int dx = 0; dx < 2; ++dx) {
      const float row = top + static_cast<float>(dy), column = left + static_cast<float>(dx);
      // NaN is in no order, and so outside.
      if (!(row >= 0 && column >= 0 && row < static_cast<float>(s.height) && column < static_cast<float>(s.width))) continue;
      const float by_y = dy ? down : 1 - down, by_x = dx ? across : 1 - across;
      each(static_cast<int64_t>(row) * s.width + static_cast<int64_t>(column), by_y * by_x, (dy ? 1 : -1) * by_x,
           (dx ? 1 : -1) * by_y);
    }
  }
}

at::Tensor samples_of(const Deformation& d, const at::Tensor& image, const at::Tensor& offset) {
  const auto s = d.sizes(image, offset);
  at::Tensor result = at::zeros({s.images, s.channels, s.rows * d.kernel[0], s.columns * d.kernel[1]}, at::kFloat);
  const float* from = image.const_data_ptr<float>();
  float* to = result.mutable_data_ptr<float>();
  const int64_t pixels = s.height * s.width, area = result.size(2) * result.size(3), each_group = s.channels / d.groups;
  d.run(s, offset.const_data_ptr<float>(), [&](const Deformation::Sample& sample) {
    const int64_t first = sample.image * s.channels + sample.group * each_group;
    corners(s, sample.y, sample.x, [&](int64_t pixel, float weight, float, float) {
      for (int64_t c = first; c < first + each_group; ++c)
        to[c * area + sample.target] += sample.factor * weight * from[c * pixels + pixel];
    });
  });
  return result;
}

// The gradients of samples_of() for the image and the offsets.
void samples_gradient(const Deformation& d, const at::Tensor& image, const at::Tensor& offset, const at::Tensor& grad,
                      const at::Tensor& image_grad, const at::Tensor& offset_grad) {
  const auto s = d.sizes(image, offset);
  const float *from = image.const_data_ptr<float>(), *arriving = grad.const_data_ptr<float>();
  float *to = image_grad.mutable_data_ptr<float>(), *places = offset_grad.mutable_data_ptr<float>();
  const int64_t pixels = s.height * s.width, area = grad.size(2) * grad.size(3), each_group = s.channels / d.groups;
  const int64_t part = d.groups * s.taps * s.rows * s.columns;
  d.run(s, offset.const_data_ptr<float>(), [&](const Deformation::Sample& sample) {
    const int64_t first = sample.image * s.channels + sample.group * each_group;
    float by_y = 0, by_x = 0, by_factor = 0;
    corners(s, sample.y, sample.x, [&](int64_t pixel, float weight, float weight_by_y, float weight_by_x) {
      for (int64_t c = first; c < first + each_group; ++c) {
        const float g = arriving[c * area + sample.target], value = from[c * pixels + pixel];
        to[c * pixels + pixel] += g * sample.factor * weight;
        by_y += g * sample.factor * weight_by_y * value;
        by_x += g * sample.factor * weight_by_x * value;
        by_factor += g * weight * value;
      }
    });
    places[sample.place] = by_x;
    places[sample.place + part] = by_y;
    if (d.modulated) places[sample.factor_place] = by_factor;
  });
}

// Attributes of the operator by name, whose tensors are NHWC.
struct NamedDeformation {
  explicit NamedDeformation(const Named& call)
      : kernel(call.attribute<std::vector<int64_t>>("ksize", {})),
        stride(channels_first(call, "strides")),
        padding(call.attribute<std::vector<int64_t>>("pads", {})),
        dilation(channels_first(call, "dilations")),
        deformation{kernel,
                    stride,
                    padding,
                    dilation,
                    call.attribute<int64_t>("deformable_groups", 1),
                    call.attribute("modulated", true)} {
    const auto format = call.attribute<std::string>("data_format", "NHWC");
    TORCH_CHECK(format == "NHWC", "data_format ", format, " is not supported");
  }
  static std::vector<int64_t> channels_first(const Named& call, const char* name) {
    const auto given = call.attribute<std::vector<int64_t>>(name, {});
    TORCH_CHECK(given.size() == 4, name, " has ", given.size(), " numbers, not 4");
    return {given[0], given[3], given[1], given[2]};
  }
  std::vector<int64_t> kernel, stride, padding, dilation;
  Deformation deformation;
};
at::Tensor channels_first(const at::Tensor& x) { return plain(x.permute({0, 3, 1, 2})); }

}  // namespace

// x and offsets; the samples.
NAMED(DeformableOffsets) {
  const NamedDeformation named(call);
  put(call.out(0), samples_of(named.deformation, channels_first(call.in(0)), channels_first(call.in(1))).permute({0, 2, 3, 1}));
}
// The gradient, x and offsets; the gradients of both.
NAMED(DeformableOffsetsGrad) {
  const NamedDeformation named(call);
  const at::Tensor x = channels_first(call.in(1)), offset = channels_first(call.in(2));
  const at::Tensor for_x = at::zeros(x.sizes(), at::kFloat), for_offset = at::zeros(offset.sizes(), at::kFloat);
  samples_gradient(named.deformation, x, offset, channels_first(call.in(0)), for_x, for_offset);
  put(call.out(0), for_x.permute({0, 2, 3, 1}));
  put(call.out(1), for_offset.permute({0, 2, 3, 1}));
}

OP(aclnnDeformableConv2d) {
  const Deformation deformation{kernelSize, stride, padding, dilation, deformableGroups, modulated};
  const at::Tensor samples = samples_of(deformation, plain(x), plain(offset));
  const at::Tensor bias = widened(biasOptional);
  put(out, at::convolution(samples, plain(weight), maybe(bias), kernelSize, {0, 0}, {1, 1}, false, {0, 0}, groups));
  if (given(deformOutOptional)) put(deformOutOptional, samples);
}
OP(aclnnDeformableConv2dBackward) {
  const Deformation deformation{kernelSize, stride, padding, dilation, deformableGroups, modulated};
  const at::Tensor image = plain(input), places = plain(offset), grad = plain(gradOutput);
  const at::Tensor samples = samples_of(deformation, image, places);
  const auto [by_samples, by_weight, by_bias] =
      at::convolution_backward(grad, samples, plain(weight), at::OptionalIntArrayRef(), kernelSize, at::IntArrayRef{0, 0},
                               at::IntArrayRef{1, 1}, false, at::IntArrayRef{0, 0}, groups, {true, true, false});
  const at::Tensor image_grad = at::zeros(image.sizes(), at::kFloat), offset_grad = at::zeros(places.sizes(), at::kFloat);
  samples_gradient(deformation, image, places, by_samples.contiguous(), image_grad, offset_grad);
  put(gradInput, image_grad);
  put(gradWeight, by_weight);
  put(gradOffset, offset_grad);
  if (given(gradBias)) put(gradBias, grad.sum({0, 2, 3}));
}
