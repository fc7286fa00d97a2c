// Pooling.
#include <ATen/Dispatch.h>
#include <ATen/native/Pool.h>
#include <ATen/Parallel.h>

#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/max_pool.h"

using namespace softcann::op;

namespace {

std::optional<int64_t> divisor(int64_t override) { return override ? std::optional(override) : std::nullopt; }
// ATen's gradients of pooling do not look at how many images, and channels, the gradient is of.
void require_images(const at::Tensor& gradient, const at::Tensor& self, int64_t spatial) {
  const int64_t before = self.dim() - spatial;
  TORCH_CHECK(gradient.dim() == self.dim() && (before == 1 || before == 2) &&
                  gradient.sizes().slice(0, static_cast<size_t>(before)) == self.sizes().slice(0, static_cast<size_t>(before)),
              "pooling: a gradient of ", gradient.sizes(), " for ", self.sizes());
}
// Nor at where the greatest elements lay, in the last `spatial` dimensions of self; -1 is nowhere.
void require_places(const at::Tensor& indices, const at::Tensor& gradient, const at::Tensor& self, int64_t spatial) {
  TORCH_CHECK(indices.sizes() == gradient.sizes(), "pooling: places ", indices.sizes(), " for a gradient of ", gradient.sizes());
  if (indices.numel() == 0) return;
  const int64_t area = c10::multiply_integers(self.sizes().slice(static_cast<size_t>(self.dim() - spatial)));
  const auto [least, greatest] = at::aminmax(indices);
  TORCH_CHECK(least.item<int64_t>() >= -1 && greatest.item<int64_t>() < area, "pooling: places from ", least.item<int64_t>(),
              " to ", greatest.item<int64_t>(), " of ", area);
}
at::IntArrayRef or_kernel(at::IntArrayRef stride, at::IntArrayRef kernel) { return stride.empty() ? kernel : stride; }

}  // namespace

OP(aclnnAvgPool2d) {
  at::cpu::avg_pool2d_outf(self, kernelSize, strides, paddings, ceilMode, countIncludePad, divisor(divisorOverride), out);
}
OP(aclnnAvgPool2dBackward) {
  require_images(gradOutput, self, 2);
  at::cpu::avg_pool2d_backward_outf(gradOutput, self, kernelSize, stride, padding, ceilMode, countIncludePad,
                                    divisor(divisorOverride), gradInput);
}
OP(aclnnAvgPool3d) {
  PlainResult result(out);  // ATen takes it for contiguous
  at::cpu::avg_pool3d_outf(widened(self), kernelSize, stride, padding, ceilMode, countIncludePad, divisor(divisorOverride),
                           result.value());
  result.finish();
}
OP(aclnnAvgPool3dBackward) {
  require_images(gradOutput, self, 3);
  PlainResult result(output);
  at::cpu::avg_pool3d_backward_outf(widened(gradOutput), widened(self), kernelSize, stride, padding, ceilMode, countIncludePad,
                                    divisor(divisorOverride), result.value());
  result.finish();
}
// Note [Outputs that ATen lays out]
// Where an input has the order of channels_last, ATen's older kernels give the output that order too, even one that is given to
// them. Theirs are therefore results of their own, which go to the client's output in its order.
OP(aclnnAdaptiveAvgPool2d) {
  into(out, [&] { return at::_adaptive_avg_pool2d(self, outputSize); });
}
OP(aclnnAdaptiveAvgPool2dBackward) {
  require_images(gradOutput, self, 2);
  into(out, [&] { return at::_adaptive_avg_pool2d_backward(gradOutput, self); });
}
OP(aclnnAdaptiveAvgPool3d) {
  into(out, [&] { return at::_adaptive_avg_pool3d(self, outputSize); });
}
OP(aclnnAdaptiveAvgPool3dBackward) {
  require_images(gradOutput, self, 3);
  into(out, [&] { return at::_adaptive_avg_pool3d_backward(gradOutput, self.contiguous()); });
}
OP(aclnnGlobalAveragePool) {
  std::vector<int64_t> dims;
  for (int64_t i = 2; i < self.dim(); ++i) dims.push_back(i);
  put(out, self.mean(dims, true));
}
OP(aclnnGlobalMaxPool) {
  std::vector<int64_t> dims;
  for (int64_t i = 2; i < self.dim(); ++i) dims.push_back(i);
  put(out, at::amax(self, dims, true));
}

OP(aclnnAdaptiveMaxPool2d) {
  with_long(indicesOut, [&](at::Tensor& index) { at::cpu::adaptive_max_pool2d_outf(self, outputSize, outputOut, index); });
}
OP(aclnnAdaptiveMaxPool2dBackward) {
  require_images(gradOutput, self, 2);
  require_places(indices, gradOutput, self, 2);
  at::cpu::adaptive_max_pool2d_backward_outf(gradOutput, self, indices.to(at::kLong).contiguous(), gradInput);
}
OP(aclnnAdaptiveMaxPool3d) {
  PlainResult result(outputOut);
  with_long(indicesOut,
            [&](at::Tensor& index) { at::cpu::adaptive_max_pool3d_outf(plain(self), outputSize, result.value(), index); });
  result.finish();
}
OP(aclnnAdaptiveMaxPool3dBackward) {
  require_images(gradOutput, self, 3);
  require_places(indices, gradOutput, self, 3);
  PlainResult result(gradInput);
  at::cpu::adaptive_max_pool3d_backward_outf(plain(gradOutput), plain(self), indices.to(at::kLong).contiguous(), result.value());
  result.finish();
}
namespace {

// The sizes that the kernel below trusts are those that ATen would compute.
bool max_pool_fits(const at::Tensor& self, const PoolWindow& w, const at::Tensor& out, bool ceil_mode) {
  const auto wanted = [ceil_mode](int64_t size, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation) {
    return at::native::pooling_output_shape<int64_t>(size, kernel, pad, stride, dilation, ceil_mode);
  };
  return self.dim() == out.dim() && self.dim() >= 3 &&
         self.sizes().slice(0, self.dim() - 2) == out.sizes().slice(0, out.dim() - 2) &&
         out.size(-2) == wanted(self.size(-2), w.kernel_h, w.stride_h, w.pad_h, w.dilation_h) &&
         out.size(-1) == wanted(self.size(-1), w.kernel_w, w.stride_w, w.pad_w, w.dilation_w);
}
// Nothing where ATen has an error to report.
std::optional<PoolWindow> pool_window(at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef pad,
                                      at::IntArrayRef dilation) {
  const auto strides = or_kernel(stride, kernel);
  for (const at::IntArrayRef values : {kernel, strides, pad, dilation}) {
    if (values.empty() || values.size() > 2) return std::nullopt;
  }
  const PoolWindow w{kernel.front(), kernel.back(), strides.front(),  strides.back(),
                     pad.front(),    pad.back(),    dilation.front(), dilation.back()};
  if (std::min({w.kernel_h, w.kernel_w, w.stride_h, w.stride_w, w.dilation_h, w.dilation_w}) < 1) return std::nullopt;
  const auto padding_fits = [](int64_t size, int64_t dilation, int64_t padded) {
    return padded >= 0 && 2 * padded <= (size - 1) * dilation + 1;
  };
  if (!padding_fits(w.kernel_h, w.dilation_h, w.pad_h) || !padding_fits(w.kernel_w, w.dilation_w, w.pad_w)) return std::nullopt;
  return w;
}

}  // namespace

OP(aclnnMaxPool2dWithIndices) {
  if (const auto window = pool_window(kernelSize, stride, padding, dilation);
      window && max_pool_fits(self, *window, out, ceilMode)) {
    const bool narrow = low_precision(self) && self.is_contiguous() && out.scalar_type() == self.scalar_type();
    PlainResult wide(out, narrow);
    if (max_pool(narrow ? widened(self) : self, *window, narrow ? wide.value() : out, indices)) return wide.finish();
  }
  with_long(indices, [&](at::Tensor& index) {
    at::cpu::max_pool2d_with_indices_outf(self, kernelSize, or_kernel(stride, kernelSize), padding, dilation, ceilMode, out,
                                          index);
  });
}

namespace {

// The gradients of overlapping windows meet in one element: 16-bit ones are added in float32.
void max_pool2d_gradient(const at::Tensor& gradient, const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef stride,
                         at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode, const at::Tensor& indices,
                         at::Tensor& result) {
  require_images(gradient, self, 2);
  require_places(indices, gradient, self, 2);
  const at::Tensor wide = widened(gradient);
  at::Tensor sums = wide.is_same(gradient) ? result : at::empty({0}, wide.options());
  at::cpu::max_pool2d_with_indices_backward_outf(wide, widened(self), kernel, or_kernel(stride, kernel), padding, dilation,
                                                 ceil_mode, indices, sums);
  put(result, sums);
}

}  // namespace

OP(aclnnMaxPool2dWithIndicesBackward) {
  if (max_pool_gradient(gradOutput, indices, gradInput)) return;
  max_pool2d_gradient(gradOutput, self, kernelSize, stride, padding, dilation, ceilMode, indices.to(at::kLong), gradInput);
}
// ONNX's: each side is padded by itself, and what begins in the padding after the last element is left out.
OP(aclnnMaxPool) {
  const auto pair = [](at::IntArrayRef values, int64_t otherwise) {
    return values.empty() ? std::array{otherwise, otherwise} : std::array{values.front(), values.back()};
  };
  TORCH_CHECK(self.dim() == 3 || self.dim() == 4, "aclnnMaxPool: self has ", self.dim(), " dimensions, expected 3 or 4");
  TORCH_CHECK(autoPad == 0, "aclnnMaxPool: autoPad ", autoPad, ", only 0 is supported");
  TORCH_CHECK(kernelShape.size() == 1 || kernelShape.size() == 2, "aclnnMaxPool: kernelShape has ", kernelShape.size(),
              " elements, expected 1 or 2");
  for (const int64_t dilation : dilations)
    TORCH_CHECK(dilation == 1, "aclnnMaxPool: dilation ", dilation, ", only 1 is supported");
  const auto kernel = pair(kernelShape, 1), stride = pair(strides, 1);
  const auto before = pads.size() == 4 ? std::array{pads[0], pads[1]} : pair(pads, 0);
  const auto after = pads.size() == 4 ? std::array{pads[2], pads[3]} : before;
  at::Scalar least = -std::numeric_limits<double>::infinity();
  if (!fractional(self)) {
    AT_DISPATCH_INTEGRAL_TYPES(self.scalar_type(), "aclnnMaxPool", [&] { least = std::numeric_limits<scalar_t>::lowest(); });
  }
  const at::Tensor padded = at::constant_pad_nd(self, {before[1], after[1], before[0], after[0]}, least);
  at::Tensor pooled = at::max_pool2d(padded, kernel, stride, 0, 1, ceilMode != 0);
  for (const int64_t i : {0, 1}) {
    const int64_t size = self.size(i - 2) + before[static_cast<size_t>(i)], step = stride[static_cast<size_t>(i)];
    pooled = pooled.narrow(i - 2, 0, std::min(pooled.size(i - 2), (size + step - 1) / step));
  }
  put(out, pooled);
}
OP(aclnnMaxPool3dWithArgmax) {
  const auto [value, index] =
      at::max_pool3d_with_indices(self, kernelSize, or_kernel(stride, kernelSize), padding, dilation, ceilMode);
  put(out, value);
  put(indices, index);
}
OP(aclnnMaxPool3dWithArgmaxBackward) {
  require_images(gradOutput, self, 3);
  require_places(indices, gradOutput, self, 3);
  into(gradInput, [&] {
    return at::max_pool3d_with_indices_backward(widened(gradOutput), widened(self), kernelSize, or_kernel(stride, kernelSize),
                                                padding, dilation, ceilMode, indices.to(at::kLong));
  });
}

namespace {

// Note [Pooling mask]
// aclnnMaxPool2dWithMask hands its gradient a mask whose content is its own affair: [N, C, kh*kw, (ceil(HoWo/16)+1)*32]
// bytes. What stands in it here: for each image and channel, at the front of its part, one uint16 an output pixel, the
// number of the window's element that won.
struct MaskShape {
  int64_t planes, part_bytes, outputs;
};
MaskShape mask_shape(const at::Tensor& mask, const at::Tensor& out) {
  const int64_t outputs = out.size(-1) * out.size(-2), planes = out.numel() / std::max<int64_t>(outputs, 1);
  const MaskShape shape{planes, planes ? mask.numel() / planes : 0, outputs};
  TORCH_CHECK(mask.itemsize() == 1 && mask.is_contiguous() && shape.part_bytes >= 2 * outputs,
              "aclnnMaxPool2dWithMask: the mask of ", mask.sizes(), " is too small for an output of ", out.sizes());
  return shape;
}

struct Window {
  int64_t kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, input_w, output_w;
  int64_t number_of(int64_t output, int64_t input) const {
    const int64_t row = input / input_w - (output / output_w * stride_h - pad_h);
    const int64_t column = input % input_w - (output % output_w * stride_w - pad_w);
    return row / dilation_h * kernel_w + column / dilation_w;
  }
  int64_t input_of(int64_t output, int64_t number) const {
    const int64_t row = output / output_w * stride_h - pad_h + number / kernel_w * dilation_h;
    const int64_t column = output % output_w * stride_w - pad_w + number % kernel_w * dilation_w;
    return row * input_w + column;
  }
};
Window window_of(at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                 const at::Tensor& input, const at::Tensor& output) {
  const auto k = spread(kernel, 2), s = spread(or_kernel(stride, kernel), 2), p = spread(padding, 2), d = spread(dilation, 2);
  return {k[1], s[0], s[1], p[0], p[1], d[0], d[1], input.size(-1), output.size(-1)};
}

}  // namespace

OP(aclnnMaxPool2dWithMask) {
  at::Tensor index = at::empty(out.sizes(), out.options().dtype(at::kLong));
  at::cpu::max_pool2d_with_indices_outf(self, kernelSize, or_kernel(stride, kernelSize), padding, dilation, ceilMode, out, index);
  const MaskShape shape = mask_shape(indices, out);
  const Window window = window_of(kernelSize, stride, padding, dilation, self, out);
  const at::Tensor dense = index.contiguous();
  const int64_t* winners = dense.const_data_ptr<int64_t>();
  char* mask = static_cast<char*>(indices.mutable_data_ptr());
  at::parallel_for(0, shape.planes, 1, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      auto* numbers = reinterpret_cast<uint16_t*>(mask + plane * shape.part_bytes);
      for (int64_t i = 0; i < shape.outputs; ++i) {
        numbers[i] = static_cast<uint16_t>(window.number_of(i, winners[plane * shape.outputs + i]));
      }
    }
  });
}
OP(aclnnMaxPool2dWithMaskBackward) {
  at::Tensor index = at::empty(gradOutput.sizes(), gradOutput.options().dtype(at::kLong));
  TORCH_CHECK(pool_window(kernelSize, stride, padding, dilation), "aclnnMaxPool2dWithMaskBackward: windows of ", kernelSize,
              " at ", stride, ", padded by ", padding, ", dilated by ", dilation);
  const MaskShape shape = mask_shape(indices, gradOutput);
  const Window window = window_of(kernelSize, stride, padding, dilation, self, gradOutput);
  int64_t* winners = index.mutable_data_ptr<int64_t>();
  const char* mask = static_cast<const char*>(indices.const_data_ptr());
  at::parallel_for(0, shape.planes, 1, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const auto* numbers = reinterpret_cast<const uint16_t*>(mask + plane * shape.part_bytes);
      for (int64_t i = 0; i < shape.outputs; ++i) {
        winners[plane * shape.outputs + i] = window.input_of(i, numbers[i]);
      }
    }
  });
  max_pool2d_gradient(gradOutput, self, kernelSize, stride, padding, dilation, ceilMode, index, gradInput);
}

namespace {

// Whole numbers in a floating type that holds them all, or their bits: ATen puts back only such. What is left out is 0 in both.
at::Tensor as_put_back(const at::Tensor& self) {
  switch (self.scalar_type()) {
    case at::kByte:
    case at::kChar:
    case at::kShort:
      return self.to(at::kFloat);
    case at::kInt:
      return self.to(at::kDouble);
    case at::kLong:
      return self.view(at::kDouble);
    default:
      return self;
  }
}
void put_back(const at::Tensor& out, const at::Tensor& self, const at::Tensor& result) {
  put(out, self.scalar_type() == at::kLong ? result.view(at::kLong) : result);
}

}  // namespace

OP(aclnnMaxUnpool2d) {
  const Placement placement(out);
  put_back(out, self, at::max_unpool2d(as_put_back(self), indices.to(at::kLong), outputSize));
}
OP(aclnnMaxUnpool3d) {
  const Placement placement(outRef);
  put_back(outRef, self, at::max_unpool3d(as_put_back(self), indices.to(at::kLong), outputSize, stride, padding));
}
OP(aclnnMaxUnpool2dBackward) { put(out, gradOutput.flatten(-2).gather(-1, indices.to(at::kLong).flatten(-2)).view(out.sizes())); }
OP(aclnnMaxUnpool3dBackward) { put(out, gradOutput.flatten(-3).gather(-1, indices.to(at::kLong).flatten(-3)).view(out.sizes())); }
