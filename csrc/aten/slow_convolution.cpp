// Convolutions that torch names by how the CPU or CUDA does them. Here they are the one convolution. torch chooses them for
// CPU images too, and comes here for a weight on the NPU: at::convolution would choose the same again.
#include <ATen/Functions.h>

#include "aten/compose.h"
#include "aten/kernel.h"
#include "generated/torch_npu_native_functions.h"

namespace torch_npu::native {
namespace {

using Optional = std::optional<at::Tensor>;
constexpr int64_t kNone[] = {0, 0, 0}, kOnes[] = {1, 1, 1};

void check_devices(const at::Tensor& self, const at::Tensor& weight, const Optional& bias) {
  check_same_device("convolution", {"input", "weight", "bias"}, self, weight, bias);
}

at::Tensor convolve(const at::Tensor& self, const at::Tensor& weight, const Optional& bias, at::IntArrayRef stride,
                    at::IntArrayRef padding, at::IntArrayRef dilation, int64_t groups = 1) {
  check_devices(self, weight, bias);
  return at::convolution(self, weight, bias, stride, padding, dilation, false, at::IntArrayRef(kNone, weight.dim() - 2), groups);
}

}  // namespace

at::Tensor _conv_depthwise2d(const at::Tensor& self, const at::Tensor& weight, at::IntArrayRef, const Optional& bias,
                             at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation) {
  return convolve(self, weight, bias, stride, padding, dilation, self.size(1));
}
at::Tensor& _conv_depthwise2d_out(const at::Tensor& self, const at::Tensor& weight, at::IntArrayRef kernel, const Optional& bias,
                                  at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, at::Tensor& out) {
  return give(out, native::_conv_depthwise2d(self, weight, kernel, bias, stride, padding, dilation));
}

at::Tensor _slow_conv2d_forward(const at::Tensor& self, const at::Tensor& weight, at::IntArrayRef, const Optional& bias,
                                at::IntArrayRef stride, at::IntArrayRef padding) {
  return convolve(self, weight, bias, stride, padding, at::IntArrayRef(kOnes, 2));
}
at::Tensor& _slow_conv2d_forward_out(const at::Tensor& self, const at::Tensor& weight, at::IntArrayRef kernel,
                                     const Optional& bias, at::IntArrayRef stride, at::IntArrayRef padding, at::Tensor& output) {
  return give(output, native::_slow_conv2d_forward(self, weight, kernel, bias, stride, padding));
}
std::tuple<at::Tensor, at::Tensor, at::Tensor> _slow_conv2d_backward_output_mask(const at::Tensor& grad_output,
                                                                                 const at::Tensor& self, const at::Tensor& weight,
                                                                                 at::IntArrayRef, at::IntArrayRef stride,
                                                                                 at::IntArrayRef padding,
                                                                                 std::array<bool, 3> output_mask) {
  const auto channels = weight.size(0);
  check_same_device("convolution_backward", {"input", "weight", "grad_output"}, self, weight, grad_output);
  return at::convolution_backward(grad_output, self, weight, at::OptionalIntArrayRef(channels), stride, padding,
                                  at::IntArrayRef(kOnes, 2), false, at::IntArrayRef(kNone, 2), 1, output_mask);
}
std::tuple<at::Tensor&, at::Tensor&, at::Tensor&> _slow_conv2d_backward_out(const at::Tensor& grad_output, const at::Tensor& self,
                                                                            const at::Tensor& weight, at::IntArrayRef kernel,
                                                                            at::IntArrayRef stride, at::IntArrayRef padding,
                                                                            at::Tensor& grad_input, at::Tensor& grad_weight,
                                                                            at::Tensor& grad_bias) {
  const auto [by_input, by_weight, by_bias] =
      native::_slow_conv2d_backward_output_mask(grad_output, self, weight, kernel, stride, padding, {true, true, true});
  give(grad_input, by_input);
  give(grad_weight, by_weight);
  give(grad_bias, by_bias);
  return {grad_input, grad_weight, grad_bias};
}

at::Tensor slow_conv3d_forward(const at::Tensor& self, const at::Tensor& weight, at::IntArrayRef, const Optional& bias,
                               at::IntArrayRef stride, at::IntArrayRef padding) {
  return convolve(self, weight, bias, stride, padding, at::IntArrayRef(kOnes, 3));
}
at::Tensor& slow_conv3d_forward_out(const at::Tensor& self, const at::Tensor& weight, at::IntArrayRef kernel,
                                    const Optional& bias, at::IntArrayRef stride, at::IntArrayRef padding, at::Tensor& output) {
  return give(output, native::slow_conv3d_forward(self, weight, kernel, bias, stride, padding));
}

// Two and three dimensions.
at::Tensor slow_conv_dilated(const at::Tensor& self, const at::Tensor& weight, at::IntArrayRef, const Optional& bias,
                             at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation) {
  return convolve(self, weight, bias, stride, padding, dilation);
}
at::Tensor slow_conv_transpose(const at::Tensor& self, const at::Tensor& weight, at::IntArrayRef, const Optional& bias,
                               at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef output_padding,
                               at::IntArrayRef dilation) {
  check_devices(self, weight, bias);
  return at::convolution(self, weight, bias, stride, padding, dilation, true, output_padding, 1);
}
at::Tensor& slow_conv_transpose_out(const at::Tensor& self, const at::Tensor& weight, at::IntArrayRef kernel,
                                    const Optional& bias, at::IntArrayRef stride, at::IntArrayRef padding,
                                    at::IntArrayRef output_padding, at::IntArrayRef dilation, at::Tensor& out) {
  return give(out, native::slow_conv_transpose(self, weight, kernel, bias, stride, padding, output_padding, dilation));
}

}  // namespace torch_npu::native
