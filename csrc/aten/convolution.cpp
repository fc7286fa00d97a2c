// Convolution and its gradients.
#include <ATen/native/ConvUtils.h>

#include "aten/cube_math.h"
#include "aten/factory.h"
#include "generated/torch_npu_native_functions.h"
#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnConvolution);
NPU_OPERATOR(aclnnConvolutionBackward);

namespace {

at::MemoryFormat output_format(const at::Tensor& input, const at::Tensor& weight) {
  const auto format = input.suggest_memory_format();
  return format == at::MemoryFormat::Contiguous ? weight.suggest_memory_format() : format;
}

std::vector<int64_t> output_sizes(const at::Tensor& input, const at::Tensor& weight, at::IntArrayRef stride,
                                  at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                                  at::IntArrayRef output_padding, int64_t groups) {
  const auto spatial = static_cast<size_t>(std::max<int64_t>(input.dim() - 2, 0));
  TORCH_CHECK(weight.dim() == input.dim() && stride.size() == spatial && padding.size() == spatial &&
                  dilation.size() == spatial && output_padding.size() == spatial,
              "a convolution of ", input.dim(), " dimensions takes a weight of as many, and a stride, padding, dilation and ",
              "output_padding of ", spatial, " numbers each");
  if (transposed) {
    return at::native::conv_input_size(input.sizes(), weight.sizes(), padding, output_padding, stride, dilation, groups);
  }
  return at::native::conv_output_size(input.sizes(), weight.sizes(), padding, stride, dilation);
}

}  // namespace

at::Tensor convolution_overrideable(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                                    at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                                    at::IntArrayRef output_padding, int64_t groups) {
  TORCH_CHECK(input.scalar_type() == weight.scalar_type(), "Input type (", input.toString(), ") and weight type (",
              weight.toString(), ") should be the same");
  TORCH_CHECK(!bias || !bias->defined() || bias->scalar_type() == input.scalar_type(), "Input type (", input.toString(),
              ") and bias type (", bias->toString(), ") should be the same");
  const auto sizes = output_sizes(input, weight, stride, padding, dilation, transposed, output_padding, groups);
  auto output = empty_like_with(input, sizes, std::nullopt, output_format(input, weight));
  op::run(aclnnConvolution, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, output,
          convolution_math_type());
  return output;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward_overrideable(
    const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight, at::IntArrayRef stride,
    at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding, int64_t groups,
    std::array<bool, 3> output_mask) {
  const int64_t channels = transposed ? weight.size(1) * groups : weight.size(0);
  const auto format = output_format(input, weight);
  at::Tensor grad_input, grad_weight, grad_bias;
  if (output_mask[0]) grad_input = empty_like_with(input, input.sizes(), std::nullopt, format);
  if (output_mask[1]) grad_weight = empty_like_with(weight, weight.sizes(), std::nullopt, format);
  if (output_mask[2]) grad_bias = empty_like_with(grad_output, {channels});
  op::run(aclnnConvolutionBackward, grad_output, input, weight, at::IntArrayRef(channels), stride, padding, dilation, transposed,
          output_padding, groups, output_mask, convolution_math_type(), grad_input, grad_weight, grad_bias);
  return {grad_input, grad_weight, grad_bias};
}

}  // namespace torch_npu::native
