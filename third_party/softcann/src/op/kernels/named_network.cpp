// Operators that clients name: the layers of networks. Inputs, outputs and attributes are those of CANN's operators of these
// names; pictures are NCHW, pads are top, bottom, left, right.
#include <ATen/ATen.h>
#include <limits>

#include "op/kernels/common.h"
#include "op/named.h"

using namespace softcann::op;

namespace {

using Integers = std::vector<int64_t>;

at::Tensor turned(const at::Tensor& matrix, bool turn) { return turn ? matrix.transpose(-2, -1) : matrix; }

// Height and width of a list that has a number for each of N, C, H and W, or for H and W alone.
std::array<int64_t, 2> spatial(const Named& call, const char* name, const Integers& otherwise) {
  const auto given = call.attribute<Integers>(name, otherwise);
  TORCH_CHECK(given.size() == 2 || (given.size() == 4 && given[0] == 1 && given[1] == 1), name, " has ", given.size(),
              " numbers, not those of NCHW with 1 for N and C");
  return {given[given.size() - 2], given[given.size() - 1]};
}

void check_pictures(const Named& call, size_t inputs) {
  for (size_t i = 0; i < inputs; ++i) {
    TORCH_CHECK(call.in(i).dim() == 4, "input ", i, " has ", call.in(i).dim(), " dimensions, not 4");
    TORCH_CHECK(call.is_channels_first(i), "input ", i, " has a format with the channels last");
  }
}

// The windows of a pool on a picture that has been padded so that they fill it.
struct Windows {
  explicit Windows(const Named& call) : Windows(call, (check_pictures(call, 1), call.in(0).sizes().vec())) {}
  Windows(const Named& call, const Integers& shape) {
    TORCH_CHECK(shape.size() == 4, "x has ", shape.size(), " dimensions, not 4");
    length = {shape[2], shape[3]};
    const auto format = call.attribute<std::string>("data_format", "NCHW"),
               mode = call.attribute<std::string>("padding_mode", "CALCULATED");
    TORCH_CHECK(format == "NCHW", "data_format ", format, " is not supported");
    TORCH_CHECK(mode == "CALCULATED" || mode == "SAME" || mode == "VALID", "padding_mode ", mode, " is not known");
    size = spatial(call, "ksize", {});
    stride = spatial(call, "strides", {});
    pads = call.attribute<Integers>("pads", {0, 0, 0, 0});
    TORCH_CHECK(pads.size() == 4, "pads has ", pads.size(), " numbers, not 4");
    if (call.attribute("global_pooling", false)) {
      size = length;
      stride = {1, 1};
    }
    const bool ceil = call.attribute("ceil_mode", false);
    for (size_t d = 0; d < 2; ++d) {
      TORCH_CHECK(size[d] > 0 && stride[d] > 0, "ksize and strides are positive");
      if (mode != "CALCULATED" || call.attribute("global_pooling", false)) pads[2 * d] = pads[2 * d + 1] = 0;
      if (mode == "SAME") {
        const int64_t missing =
            std::max<int64_t>(0, ((length[d] + stride[d] - 1) / stride[d] - 1) * stride[d] + size[d] - length[d]);
        pads[2 * d] = missing / 2;
        pads[2 * d + 1] = missing - missing / 2;
      }
      const int64_t room = length[d] + pads[2 * d] + pads[2 * d + 1] - size[d];
      TORCH_CHECK(room >= 0, "a window of ", size[d], " does not fit into ", length[d], " with its pads");
      // A window that begins behind the picture is left out.
      int64_t last = ceil ? (room + stride[d] - 1) / stride[d] : room / stride[d];
      if (last * stride[d] >= length[d] + pads[2 * d]) --last;
      beyond[d] = std::max<int64_t>(0, last * stride[d] - room);
    }
  }
  at::Tensor padded(const at::Tensor& x, double value) const {
    return at::constant_pad_nd(x, {pads[2], pads[3], pads[0], pads[1]}, value);
  }
  at::Tensor extended(const at::Tensor& x, double value) const {
    return at::constant_pad_nd(x, {0, beyond[1], 0, beyond[0]}, value);
  }

  std::array<int64_t, 2> length, size, stride, beyond;  // beyond: what the last window lacks when their number is rounded up
  Integers pads;
};

}  // namespace

namespace {

// a, b, bias.
void multiply(const Named& call) {
  const at::Tensor product = at::matmul(turned(widened(call.in(0)), call.attribute("transpose_x1", false)),
                                        turned(widened(call.in(1)), call.attribute("transpose_x2", false)));
  put(call.out(0), call.in(2).defined() ? product + widened(call.in(2)) : product);
}

}  // namespace

NAMED(MatMul) { multiply(call); }
NAMED(MatMulV2) { multiply(call); }
NAMED(BatchMatMul) {
  put(call.out(0), at::matmul(turned(widened(call.in(0)), call.attribute("adj_x1", false)),
                              turned(widened(call.in(1)), call.attribute("adj_x2", false))));
}
// alpha a b + beta c
NAMED(GEMM) {
  TORCH_CHECK(call.in(4).defined() && call.in(3).numel() == 1 && call.in(4).numel() == 1, "alpha and beta are one number each");
  put(call.out(0), at::addmm(widened(call.in(2)), turned(widened(call.in(0)), call.attribute("transpose_a", false)),
                             turned(widened(call.in(1)), call.attribute("transpose_b", false)), widened(call.in(4)).item(),
                             widened(call.in(3)).item()));
}

namespace {

// A convolution of pictures [N, C, H, W] or volumes [N, C, D, H, W] with filters [O, C / groups, ...]: pads are before and after
// each of the last dimensions, and may differ; so the padded tensor is what is convolved.
struct Convolution {
  Convolution(const Named& call, size_t dims, std::initializer_list<size_t> tensors) : dims(dims) {
    for (const size_t i : tensors) {
      TORCH_CHECK(call.in(i).dim() == static_cast<int64_t>(dims) + 2, "input ", i, " has ", call.in(i).dim(), " dimensions, not ",
                  dims + 2);
      TORCH_CHECK(call.is_channels_first(i), "input ", i, " has a format with the channels last");
    }
    const auto automatic = call.attribute<std::string>("auto_pad", "NOTSET");
    TORCH_CHECK(automatic == "NOTSET", "auto_pad ", automatic, " is not supported: give pads");
    stride = last(call, "strides", {});
    dilation = last(call, "dilations", Integers(dims, 1));
    pads = call.attribute<Integers>("pads", {});
    TORCH_CHECK(pads.size() == 2 * dims, "pads has ", pads.size(), " numbers, not ", 2 * dims);
    told = call.attribute<int64_t>("groups", 1);
  }
  Integers last(const Named& call, const char* name, const Integers& otherwise) const {
    const auto given = call.attribute<Integers>(name, otherwise);
    TORCH_CHECK(given.size() == dims || given.size() == dims + 2, name, " has ", given.size(), " numbers, not ", dims + 2);
    return {given.end() - static_cast<int64_t>(dims), given.end()};
  }
  // The number of groups is that of the shapes; who says one may mean it.
  int64_t groups(int64_t channels, const at::Tensor& filter) const {
    TORCH_CHECK(filter.size(1) > 0 && channels % filter.size(1) == 0, "a filter of ", filter.size(1), " channels for ", channels);
    const int64_t found = channels / filter.size(1);
    TORCH_CHECK(told == 1 || told == found, "groups ", told, " with a filter for ", found);
    return found;
  }
  at::Tensor padded(const at::Tensor& x) const {
    Integers reversed;
    for (size_t d = dims; d-- > 0;) reversed.insert(reversed.end(), {pads[2 * d], pads[2 * d + 1]});
    return at::constant_pad_nd(x, reversed, 0);
  }
  Integers none() const { return Integers(dims, 0); }
  at::Tensor forward(const at::Tensor& x, const at::Tensor& filter, const at::Tensor& bias) const {
    return at::convolution(padded(x), filter, bias, stride, none(), dilation, false, none(), groups(x.size(1), filter));
  }
  // Gradients for x of `sizes`, or for a filter of `sizes`.
  at::Tensor for_input(const Integers& sizes, const at::Tensor& filter, const at::Tensor& by) const {
    Integers wide = sizes;
    for (size_t d = 0; d < dims; ++d) wide[d + 2] += pads[2 * d] + pads[2 * d + 1];
    at::Tensor made = std::get<0>(at::convolution_backward(by, at::zeros({1}, by.options()).expand(wide), filter,
                                                           at::OptionalIntArrayRef(), stride, none(), dilation, false, none(),
                                                           groups(sizes[1], filter), {true, false, false}));
    for (size_t d = 0; d < dims; ++d) made = made.narrow(static_cast<int64_t>(d) + 2, pads[2 * d], sizes[d + 2]);
    return made;
  }
  at::Tensor for_filter(const at::Tensor& x, const Integers& sizes, const at::Tensor& by) const {
    const at::Tensor filter = at::zeros({1}, by.options()).expand(sizes);
    return std::get<1>(at::convolution_backward(by, padded(x), filter, at::OptionalIntArrayRef(), stride, none(), dilation, false,
                                                none(), groups(x.size(1), filter), {false, true, false}));
  }

  size_t dims;
  Integers stride, dilation, pads;
  int64_t told;
};

// x, filter, bias.
void convolve(const Named& call, size_t dims) {
  TORCH_CHECK(!call.in(3).defined() && call.attribute<int64_t>("offset_x", 0) == 0, "offsets are not supported");
  const at::Tensor y = Convolution(call, dims, {0, 1}).forward(widened(call.in(0)), widened(call.in(1)), widened(call.in(2)));
  TORCH_CHECK(y.sizes() == call.out(0).sizes(), "the result is ", y.sizes(), ", the output ", call.out(0).sizes());
  put(call.out(0), y);
}
// The sizes of the result, x, filter, bias.
void convolve_transposed(const Named& call, size_t dims) {
  at::Tensor y = Convolution(call, dims, {1, 2}).for_input(call.integers(0), widened(call.in(2)), widened(call.in(1)));
  if (call.in(3).defined()) {
    Integers shape(dims + 2, 1);
    shape[1] = y.size(1);
    y = y + widened(call.in(3)).reshape(shape);
  }
  put(call.out(0), y);
}
// The sizes of x, filter, the gradient.
void convolution_input(const Named& call, size_t dims) {
  put(call.out(0), Convolution(call, dims, {1, 2}).for_input(call.integers(0), widened(call.in(1)), widened(call.in(2))));
}
// x, the sizes of the filter, the gradient.
void convolution_filter(const Named& call, size_t dims) {
  put(call.out(0), Convolution(call, dims, {0, 2}).for_filter(widened(call.in(0)), call.integers(1), widened(call.in(2))));
}

}  // namespace

NAMED(Conv2D) { convolve(call, 2); }
NAMED(Conv3D) { convolve(call, 3); }
NAMED(Conv2DTranspose) { convolve_transposed(call, 2); }
NAMED(Conv3DTranspose) { convolve_transposed(call, 3); }
NAMED(Conv2DBackpropInput) { convolution_input(call, 2); }
NAMED(Conv3DBackpropInput) { convolution_input(call, 3); }
NAMED(Conv2DBackpropFilter) { convolution_filter(call, 2); }
NAMED(Conv3DBackpropFilter) { convolution_filter(call, 3); }

NAMED(MaxPoolV3) {
  const Windows windows(call);
  constexpr double lowest = -std::numeric_limits<double>::infinity();
  const at::Tensor x = windows.extended(windows.padded(widened(call.in(0)), lowest), lowest);
  put(call.out(0), at::max_pool2d(x, windows.size, windows.stride));
}
// exclusive: pads do not count as elements.
NAMED(AvgPoolV2) {
  const Windows windows(call);
  const at::Tensor x = widened(call.in(0)), ones = at::ones({1, 1, x.size(2), x.size(3)}, x.options());
  const auto sums = [&](const at::Tensor& padded) {
    return at::avg_pool2d(windows.extended(padded, 0), windows.size, windows.stride, 0, false, true, 1);
  };
  const bool exclusive = call.attribute("exclusive", true);
  put(call.out(0), sums(windows.padded(x, 0)) / sums(windows.padded(ones, exclusive ? 0 : 1)));
}

// The sizes of x, and the gradient.
NAMED(AvgPoolV2Grad) {
  const Windows windows(call, call.integers(0));
  at::Tensor ones = at::ones({1, 1, windows.length[0], windows.length[1]});
  const bool exclusive = call.attribute("exclusive", true);
  const at::Tensor counts = at::avg_pool2d(windows.extended(windows.padded(ones, exclusive ? 0 : 1), 0), windows.size,
                                           windows.stride, 0, false, true, 1);
  const at::Tensor by = widened(call.in(1)) / counts;
  Integers wide = call.integers(0);
  for (size_t d = 0; d < 2; ++d) wide[d + 2] += windows.pads[2 * d] + windows.pads[2 * d + 1] + windows.beyond[d];
  const at::Tensor made =
      at::avg_pool2d_backward(by, at::zeros({1}).expand(wide).contiguous(), windows.size, windows.stride, 0, false, true, 1);
  put(call.out(0), made.narrow(2, windows.pads[0], windows.length[0]).narrow(3, windows.pads[2], windows.length[1]));
}

namespace {

// Height and width of the lists of the pools with masks, which are 1, height, width, 1.
std::array<int64_t, 2> inner(const Named& call, const char* name, const Integers& otherwise) {
  const auto given = call.attribute<Integers>(name, otherwise);
  TORCH_CHECK(given.size() == 4, name, " has ", given.size(), " numbers, not 4");
  return {given[1], given[2]};
}

std::tuple<at::Tensor, at::Tensor> pooled_with_places(const Named& call, const char* dilations) {
  return at::max_pool2d_with_indices(widened(call.in(0)), inner(call, "ksize", {}), inner(call, "strides", {}),
                                     inner(call, "pads", {1, 0, 0, 1}), inner(call, dilations, {1, 1, 1, 1}),
                                     call.attribute("ceil_mode", false));
}

}  // namespace

// The second output is a mask in a layout that is the hardware's own. What asks for it, the gradient below, finds the places
// again; so it says nothing here.
NAMED(MaxPoolWithArgmaxV1) {
  put(call.out(0), std::get<0>(pooled_with_places(call, "dilation")));
  call.out(1).zero_();
}
NAMED(MaxPoolGradWithArgmaxV1) {
  const at::Tensor places = std::get<1>(pooled_with_places(call, "dilations"));
  put(call.out(0),
      at::max_pool2d_with_indices_backward(widened(call.in(1)), widened(call.in(0)), inner(call, "ksize", {}),
                                           inner(call, "strides", {}), inner(call, "pads", {1, 0, 0, 1}),
                                           inner(call, "dilations", {1, 1, 1, 1}), call.attribute("ceil_mode", false), places));
}

// x, scale, offset, mean, variance; y, mean, variance, and the same two once more. By the statistics that are given.
NAMED(BatchNorm) {
  check_pictures(call, 1);
  TORCH_CHECK(!call.attribute("is_training", true), "is_training is not supported: call aclnnBatchNorm");
  const at::Tensor mean = widened(call.in(3)), variance = widened(call.in(4));
  put(call.out(0), at::batch_norm(widened(call.in(0)), widened(call.in(1)), widened(call.in(2)), mean, variance, false, 0,
                                  call.attribute("epsilon", 1e-4F), false));
  for (size_t i = 1; i < call.outputs(); ++i) put(call.out(i), i % 2 == 1 ? mean : variance);
}

NAMED(BNInfer) {
  put(call.out(0), at::batch_norm(widened(call.in(0)), widened(call.in(1)), widened(call.in(2)), widened(call.in(3)),
                                  widened(call.in(4)), false, 0, call.attribute("epsilon", 1e-4F), false));
}
// x, gamma, beta: y, mean and variance.
NAMED(LayerNorm) {
  const at::Tensor x = widened(call.in(0));
  auto first = call.attribute<int64_t>("begin_norm_axis", 0);
  if (first < 0) first += x.dim();
  TORCH_CHECK(first >= 0 && first < x.dim(), "begin_norm_axis ", first, " of ", x.dim(), " dimensions");
  Integers dims;
  for (int64_t d = first; d < x.dim(); ++d) dims.push_back(d);
  const at::Tensor mean = x.mean(dims, true), variance = (x - mean).square().mean(dims, true);
  at::Tensor y = (x - mean) * (variance + call.attribute("epsilon", 1e-7F)).rsqrt();
  const auto shape = x.sizes().slice(first);
  if (call.in(1).defined()) y = y * widened(call.in(1)).reshape(shape);
  if (call.in(2).defined()) y = y + widened(call.in(2)).reshape(shape);
  put(call.out(0), y);
  put(call.out(1), mean);
  put(call.out(2), variance);
}
// x, gamma, beta: y, and mean and variance of each group.
NAMED(GroupNorm) {
  const at::Tensor x = widened(call.in(0));
  const auto groups = call.attribute<int64_t>("num_groups", 1);
  TORCH_CHECK(groups > 0 && x.dim() > 1 && x.size(1) % groups == 0, groups, " groups of ", x.sizes());
  const at::Tensor rows = x.reshape({x.size(0) * groups, -1}), mean = rows.mean(1, true),
                   variance = (rows - mean).square().mean(1, true);
  Integers shape(static_cast<size_t>(x.dim()), 1);
  shape[1] = x.size(1);
  const at::Tensor y = ((rows - mean) * (variance + call.attribute("eps", 1e-5F)).rsqrt()).reshape(x.sizes());
  put(call.out(0), y * widened(call.in(1)).reshape(shape) + widened(call.in(2)).reshape(shape));
  put(call.out(1), mean);
  put(call.out(2), variance);
}
NAMED(AdaptiveAvgPool2d) {
  put(call.out(0), at::adaptive_avg_pool2d(widened(call.in(0)), call.attribute<Integers>("output_size", {})));
}
// x, gamma, beta: y, mean, and one over the deviation of each group.
NAMED(GroupNormSwish) {
  const at::Tensor x = widened(call.in(0));
  const auto groups = call.attribute<int64_t>("num_groups", 1);
  TORCH_CHECK(groups > 0 && x.dim() > 1 && x.size(1) % groups == 0, groups, " groups of ", x.sizes());
  const auto [y, mean, rstd] =
      at::native_group_norm(x, widened(call.in(1)), widened(call.in(2)), x.size(0), x.size(1),
                            x.numel() / std::max<int64_t>(1, x.size(0) * x.size(1)), groups, call.attribute("eps", 1e-5F));
  put(call.out(0), call.attribute("activate_swish", true) ? y * at::sigmoid(y * call.attribute("swish_scale", 1.0F)) : y);
  put(call.out(1), mean);
  put(call.out(2), rstd);
}
// x and the size of the result.
NAMED(ResizeNearestNeighborV2) {
  TORCH_CHECK(!call.attribute("align_corners", false) && !call.attribute("half_pixel_centers", false),
              "align_corners and half_pixel_centers are not supported");
  put(call.out(0), at::upsample_nearest2d(widened(call.in(0)), call.integers(1)));
}
NAMED(ResizeBilinearV2) {
  const bool aligned = call.attribute("align_corners", false);
  TORCH_CHECK(aligned || call.attribute("half_pixel_centers", false), "one of align_corners and half_pixel_centers is expected");
  put(call.out(0), at::upsample_bilinear2d(widened(call.in(0)), call.integers(1), aligned));
}

NAMED(LogSoftmaxV2) {
  const auto axes = call.attribute<Integers>("axes", {-1});
  TORCH_CHECK(axes.size() == 1, "axes has ", axes.size(), " numbers: one is supported");
  put(call.out(0), at::log_softmax(widened(call.in(0)), axes[0]));
}
NAMED(SoftmaxV2) {
  const auto axes = call.attribute<Integers>("axes", {-1});
  TORCH_CHECK(axes.size() == 1, "axes has ", axes.size(), " numbers: one is supported");
  put(call.out(0), at::softmax(widened(call.in(0)), axes[0]));
}
