// Convolutions.
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/conv_tbc.h>
#include <ATen/ops/conv_tbc_backward.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>

#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/gemm.h"

namespace softcann::op {
namespace {

double convolution_cost(const at::Tensor& weight, const at::Tensor& output) {
  if (!weight.defined() || !output.defined() || weight.dim() < 2) return 1000;
  return gemm_cost(static_cast<double>(output.numel()), 1, static_cast<double>(weight.numel()) /
                                                               static_cast<double>(std::max<int64_t>(weight.size(0), 1)));
}

// CANN lets padding be given for both ends of each dimension; ATen only knows it symmetric.
struct Padded {
  at::Tensor input;
  std::vector<int64_t> padding;
};
Padded padded(const at::Tensor& input, at::IntArrayRef padding, size_t spatial) {
  if (padding.size() != 2 * spatial) return {input, spread(padding, spatial)};
  std::vector<int64_t> before_after, symmetric;
  bool even = true;
  for (size_t i = 0; i < spatial; ++i) {
    even = even && padding[2 * i] == padding[2 * i + 1];
    symmetric.push_back(padding[2 * i]);
    before_after.insert(before_after.begin(), {padding[2 * i], padding[2 * i + 1]});
  }
  if (even) return {input, symmetric};
  return {at::constant_pad_nd(input, before_after), std::vector<int64_t>(spatial, 0)};
}

bool convert(const at::Tensor& tensor) {
  return low_precision(tensor) && better_in_float32(tensor.scalar_type());
}

}  // namespace
}  // namespace softcann::op

using namespace softcann::op;

OP_COST(aclnnConvolution, convolution_cost(weight, output)) {
  const size_t spatial = static_cast<size_t>(weight.dim()) - 2;
  const auto [source, pad] = padded(input, padding, spatial);
  const bool wide = convert(input);
  const at::Tensor x = wide ? widened(source) : source, w = wide ? widened(weight) : weight.to(source.scalar_type());
  at::Tensor b = bias;
  if (b.defined() && b.scalar_type() != x.scalar_type()) b = b.to(x.scalar_type());
  into(output, [&, &pad = pad] {
    return at::convolution(x, w, maybe(b), spread(stride, spatial), pad, spread(dilation, spatial), transposed,
                           spread(outputPadding.empty() ? at::IntArrayRef(0) : outputPadding, spatial), groups);
  });
}
OP_COST(aclnnConvolutionBackward, 2 * convolution_cost(weight, gradOutput)) {
  const size_t spatial = static_cast<size_t>(weight.dim()) - 2;
  TORCH_CHECK(padding.size() <= spatial, "aclnnConvolutionBackward: uneven padding is not supported");
  const bool wide = convert(input);
  const auto as = [&](const at::Tensor& t) { return wide ? widened(t) : t; };
  const Placement placement(outputMask[0] ? gradInput : at::Tensor());
  const auto [dx, dw, db] = at::convolution_backward(
      as(gradOutput), as(input), as(weight),
      outputMask[2] ? at::OptionalIntArrayRef(biasSizes) : at::OptionalIntArrayRef(), spread(stride, spatial),
      spread(padding, spatial), spread(dilation, spatial), transposed,
      spread(outputPadding.empty() ? at::IntArrayRef(0) : outputPadding, spatial), groups,
      {outputMask[0], outputMask[1], outputMask[2]});
  put(gradInput, dx, outputMask[0]);
  put(gradWeight, dw, outputMask[1]);
  put(gradBias, db, outputMask[2]);
}
OP_COST(aclnnConvDepthwise2d, convolution_cost(weight, out)) {
  into(out, [&] {
    return at::convolution(self, weight, maybe(bias), stride, padding, dilation, false, {0, 0}, self.size(1));
  });
}
OP_COST(aclnnConvTbc, convolution_cost(weight, output)) {
  // ATen's conv_tbc has its weight as [kernel, in, out], as CANN's client passes it.
  put(output, at::conv_tbc(self, weight, bias, pad));
}
OP_COST(aclnnConvTbcBackward, 2 * convolution_cost(weight, self)) {
  const auto [dx, dw, db] = at::conv_tbc_backward(self, input, weight, bias, pad);
  put(gradInput, dx);
  put(gradWeight, dw);
  put(gradBias, db);
}
