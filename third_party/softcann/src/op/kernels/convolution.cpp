// Convolutions.
#include <array>
#include <limits>

#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/direct_conv.h"
#include "op/kernels/gemm.h"
#include "op/kernels/storage_format.h"
#include "op/kernels/unfolded_conv.h"

namespace softcann::op {
namespace {

double convolution_cost(const at::Tensor& weight, const at::Tensor& output) {
  if (!weight.defined() || !output.defined() || weight.dim() < 2) return 1000;
  return gemm_cost(static_cast<double>(output.numel()), 1,
                   static_cast<double>(weight.numel()) / static_cast<double>(std::max<int64_t>(weight.size(0), 1)));
}

// What the kernels below and those of ATen trust: lists of as many numbers as there are dimensions, positive steps, and tensors
// of sizes that belong together.
struct Convolution {
  at::IntArrayRef stride, padding, dilation, output_padding;
  bool transposed;
  int64_t groups;

  void check(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& output) const {
    TORCH_CHECK(weight.dim() >= 3 && weight.dim() <= 5 && input.dim() == weight.dim() && output.dim() == weight.dim(),
                "convolution: dimensions of input ", input.sizes(), ", weight ", weight.sizes(), " and output ", output.sizes());
    TORCH_CHECK(groups > 0 && weight.size(0) % groups == 0, "convolution: groups ", groups, " for ", weight.size(0), " channels");
    const int64_t given = transposed ? weight.size(0) : weight.size(1) * groups;
    const int64_t made = transposed ? weight.size(1) * groups : weight.size(0);
    TORCH_CHECK(input.size(1) == given, "convolution: input has ", input.size(1), " channels, weight is for ", given);
    TORCH_CHECK(!bias.defined() || bias.numel() == made, "convolution: bias has ", bias.numel(), " elements for ", made,
                " channels");
    std::vector<int64_t> sizes{input.size(0), made};
    for (int64_t i = 0; i < weight.dim() - 2; ++i)
      sizes.push_back(size(i, input.size(i + 2), weight.size(i + 2), weight.dim() - 2));
    TORCH_CHECK(output.sizes() == sizes, "convolution: output is ", output.sizes(), ", not ", sizes);
  }

 private:
  int64_t size(int64_t dim, int64_t length, int64_t kernel, int64_t spatial) const {
    constexpr int64_t most = std::numeric_limits<int32_t>::max();
    const auto at = [&](at::IntArrayRef values, int64_t least, const char* what) {
      const int64_t value = spread(values, static_cast<size_t>(spatial))[static_cast<size_t>(dim)];
      TORCH_CHECK(value >= least && value <= most, "convolution: ", what, ' ', value);
      return value;
    };
    const bool both_ends = static_cast<int64_t>(padding.size()) == 2 * spatial;
    const at::IntArrayRef ends = both_ends ? padding.slice(static_cast<size_t>(2 * dim), 2) : at::IntArrayRef();
    const int64_t pads = both_ends ? ends[0] + ends[1] : 2 * at(padding, 0, "padding");
    TORCH_CHECK(pads >= 0 && pads <= 2 * most, "convolution: padding ", padding);
    const int64_t step = at(stride, 1, "stride"), reach = at(dilation, 1, "dilation") * (kernel - 1) + 1;
    if (!transposed) return length + pads < reach ? 0 : (length + pads - reach) / step + 1;
    return (length - 1) * step - pads + reach + (output_padding.empty() ? 0 : at(output_padding, 0, "outputPadding"));
  }
};

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

// Whether it is computed in float32. Of float16 oneDNN has fast kernels for few processors and shapes, and of gradients by
// weights its reference implementation is what most others get, some hundred times slower.
bool convert(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kHalf || (low_precision(tensor) && better_in_float32(tensor.scalar_type()));
}

bool plain_float(const at::Tensor& tensor) {
  return !tensor.defined() || (tensor.scalar_type() == at::kFloat && tensor.is_contiguous());
}
bool all_equal(at::IntArrayRef values, int64_t value) {
  return std::all_of(values.begin(), values.end(), [value](int64_t v) { return v == value; });
}
// The sizes for the direct kernels, if they are for such a convolution at all.
std::optional<DirectShape> direct_shape(const at::Tensor& x, const at::Tensor& w, const at::Tensor& y, at::IntArrayRef stride,
                                        at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, int64_t groups) {
  if (transposed || groups != 1 || w.dim() != 4 || x.dim() != 4 || w.size(2) != w.size(3) || padding.empty() ||
      !all_equal(stride, 1) || !all_equal(dilation, 1) || !all_equal(padding, padding[0]) || !plain_float(x) || !plain_float(w) ||
      !plain_float(y)) {
    return std::nullopt;
  }
  const DirectShape shape{x.size(0), x.size(1), x.size(2), x.size(3), w.size(0), w.size(2), padding[0], y.size(2), y.size(3)};
  if (!suits_direct_convolution(shape)) return std::nullopt;
  return shape;
}

// The sizes for one matrix product, under the same condition.
std::optional<UnfoldedShape> unfolded_shape(const at::Tensor& x, const at::Tensor& w, const at::Tensor& y, at::IntArrayRef stride,
                                            at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, int64_t groups) {
  if (transposed || groups != 1 || w.dim() != 4 || x.dim() != 4 || x.numel() == 0 || y.numel() == 0 || !plain_float(x) ||
      !plain_float(w) || !plain_float(y)) {
    return std::nullopt;
  }
  const auto s = spread(stride, 2), p = spread(padding, 2), d = spread(dilation, 2);
  return UnfoldedShape{x.size(0), x.size(1), x.size(2), x.size(3),    w.size(0),    w.size(2),
                       w.size(3), y.size(2), y.size(3), {s[0], s[1]}, {p[0], p[1]}, {d[0], d[1]}};
}

// False, and nothing done, where an output is not plain.
bool direct_gradients(const DirectShape& shape, const at::Tensor& dy, const at::Tensor& x, const at::Tensor& w,
                      c10::ArrayRef<bool> wanted, at::Tensor& dx, at::Tensor& dw, at::Tensor& db) {
  if ((wanted[0] && !plain_float(dx)) || (wanted[1] && !plain_float(dw)) || (wanted[2] && !plain_float(db)) ||
      (wanted[2] && !wanted[1])) {
    return false;
  }
  direct_gradients(shape, x.const_data_ptr<float>(), w.const_data_ptr<float>(), dy.const_data_ptr<float>(),
                   wanted[0] ? dx.mutable_data_ptr<float>() : nullptr, wanted[1] ? dw.mutable_data_ptr<float>() : nullptr,
                   wanted[2] ? db.mutable_data_ptr<float>() : nullptr);
  return true;
}

// Computes what is faster so and no longer wanted then.
void unfolded_gradients(const UnfoldedShape& shape, const at::Tensor& dy, const at::Tensor& x, const at::Tensor& w,
                        std::array<bool, 3>& wanted, at::Tensor& dx, at::Tensor& dw, at::Tensor& db) {
  const UnfoldedGain gain = gain_of_unfolding(shape);
  if (wanted[0] && gain.input_gradient && plain_float(dx)) {
    unfolded_input_gradient(shape, w, dy, dx);
    wanted[0] = false;
  }
  if (wanted[1] && gain.weight_gradient && plain_float(dw) && (!wanted[2] || plain_float(db))) {
    at::Tensor no_bias;
    unfolded_weight_gradient(shape, x, dy, dw, wanted[2] ? db : no_bias);
    wanted[1] = wanted[2] = false;
  }
}

}  // namespace
}  // namespace softcann::op

using namespace softcann::op;

namespace {

void convolution(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias, const Convolution& how,
                 at::Tensor& output) {
  const auto& [stride, padding, dilation, output_padding, transposed, groups] = how;
  const size_t spatial = static_cast<size_t>(weight.dim()) - 2;
  if (const auto shape = direct_shape(input, weight, output, stride, padding, dilation, transposed, groups);
      shape && plain_float(bias)) {
    return direct_convolution(*shape, input.const_data_ptr<float>(), weight.const_data_ptr<float>(),
                              bias.defined() ? bias.const_data_ptr<float>() : nullptr, output.mutable_data_ptr<float>());
  }
  const auto [x, pad] = padded(input, padding, spatial);
  const at::Tensor w = weight.to(x.scalar_type());
  at::Tensor b = bias;
  if (b.defined() && b.scalar_type() != x.scalar_type()) b = b.to(x.scalar_type());
  if (const auto shape = unfolded_shape(x, w, output, stride, pad, dilation, transposed, groups);
      shape && plain_float(b) && gain_of_unfolding(*shape).result) {
    return unfolded_convolution(*shape, x, w, b, output);
  }
  into(output, [&, &x = x, &pad = pad] {
    return at::convolution(x, w, maybe(b), spread(how.stride, spatial), pad, spread(how.dilation, spatial), how.transposed,
                           spread(how.output_padding.empty() ? at::IntArrayRef(0) : how.output_padding, spatial), how.groups);
  });
}

// A gradient is undefined where it is not wanted.
struct Gradients {
  at::Tensor input, weight, bias;
};

void gradients(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& w, at::OptionalIntArrayRef bias_sizes,
               const Convolution& how, Gradients& results) {
  const auto& [stride, padding, dilation, output_padding, transposed, groups] = how;
  auto& [dx, dw, db] = results;
  std::array<bool, 3> wanted{dx.defined(), dw.defined(), db.defined()};
  if (const auto shape = direct_shape(x, w, dy, stride, padding, dilation, transposed, groups);
      shape && direct_gradients(*shape, dy, x, w, wanted, dx, dw, db)) {
    return;
  }
  if (const auto shape = unfolded_shape(x, w, dy, stride, padding, dilation, transposed, groups)) {
    unfolded_gradients(*shape, dy, x, w, wanted, dx, dw, db);
    if (wanted == std::array<bool, 3>{}) return;
  }
  const size_t spatial = static_cast<size_t>(w.dim()) - 2;
  const Placement placement(wanted[0] ? dx : at::Tensor());
  const auto [by_input, by_weight, by_bias] =
      at::convolution_backward(dy, x, w, wanted[2] ? bias_sizes : at::OptionalIntArrayRef(), spread(stride, spatial),
                               spread(padding, spatial), spread(dilation, spatial), transposed,
                               spread(output_padding.empty() ? at::IntArrayRef(0) : output_padding, spatial), groups, wanted);
  put(dx, by_input, wanted[0]);
  put(dw, by_weight, wanted[1]);
  put(db, by_bias, wanted[2]);
}

}  // namespace

// `weight` may be in the blocks of aclnnTransConvolutionWeight.
OP_COST(aclnnConvolution, convolution_cost(weight, output)) {
  const Convolution how{stride, padding, dilation, outputPadding, transposed, groups};
  const at::Tensor w = in_base_format(weight);
  how.check(input, w, bias, output);
  if (!convert(input)) return convolution(input, w, bias, how, output);
  PlainResult result(output);
  convolution(widened(input), widened(w), widened(bias), how, result.value());
  result.finish();
}
OP_COST(aclnnConvolutionBackward, 2 * convolution_cost(weight, gradOutput)) {
  const Convolution how{stride, padding, dilation, outputPadding, transposed, groups};
  how.check(input, weight, {}, gradOutput);
  const auto fits = [](const at::Tensor& result, at::IntArrayRef sizes, bool wanted) {
    return !wanted || result.sizes() == sizes;
  };
  TORCH_CHECK(fits(gradInput, input.sizes(), outputMask.at(0)) && fits(gradWeight, weight.sizes(), outputMask.at(1)) &&
                  fits(gradBias, {gradOutput.size(1)}, outputMask.at(2)),
              "convolution: results of ", gradInput.sizes(), ", ", gradWeight.sizes(), " and ", gradBias.sizes());
  TORCH_CHECK(padding.size() + 2 <= static_cast<size_t>(weight.dim()),
              "aclnnConvolutionBackward: uneven padding is not supported");
  if (!convert(input)) {
    const auto wanted = [&](const at::Tensor& result, size_t which) { return outputMask.at(which) ? result : at::Tensor(); };
    Gradients results{wanted(gradInput, 0), wanted(gradWeight, 1), wanted(gradBias, 2)};
    return gradients(gradOutput, input, weight, biasSizes, how, results);
  }
  PlainResult dx(gradInput, outputMask.at(0)), dw(gradWeight, outputMask.at(1)), db(gradBias, outputMask.at(2));
  Gradients results{dx.value(), dw.value(), db.value()};
  gradients(widened(gradOutput), widened(input), widened(weight), biasSizes, how, results);
  for (const PlainResult* result : {&dx, &dw, &db}) result->finish();
}
OP_COST(aclnnConvDepthwise2d, convolution_cost(weight, out)) {
  into(out, [&] { return at::convolution(self, weight, maybe(bias), stride, padding, dilation, false, {0, 0}, self.size(1)); });
}
OP_COST(aclnnConvTbc, convolution_cost(weight, output)) {
  // ATen's conv_tbc has its weight as [kernel, in, out], as CANN's client passes it.
  put(output, at::conv_tbc(self.contiguous(), weight.contiguous(), bias, pad));
}
OP_COST(aclnnConvTbcBackward, 2 * convolution_cost(weight, self)) {
  const auto [dx, dw, db] = at::conv_tbc_backward(self.contiguous(), input.contiguous(), weight.contiguous(), bias, pad);
  put(gradInput, dx);
  put(gradWeight, dw);
  put(gradBias, db);
}
