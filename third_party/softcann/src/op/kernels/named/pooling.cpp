// Operators that clients name: pooling and its gradients.
// Pictures are NCHW, pads are top, bottom, left, right.
#include "op/kernels/common.h"
#include "op/named.h"

using namespace softcann::op;

namespace {

// Height and width of a list that has a number for each of N, C, H and W, or for H and W alone.
std::array<int64_t, 2> spatial(const Named& call, const char* name, const Integers& otherwise) {
  const auto given = call.attribute<Integers>(name, otherwise);
  TORCH_CHECK(given.size() == 2 || (given.size() == 4 && given[0] == 1 && given[1] == 1), name, " has ", given.size(),
              " numbers, not those of NCHW with 1 for N and C");
  return {given[given.size() - 2], given[given.size() - 1]};
}

// The windows of a pool on a picture that has been padded so that they fill it.
struct Windows {
  explicit Windows(const Named& call) : Windows(call, (call.check_channels_first(0, 4), call.in(0).sizes().vec())) {}
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

NAMED(AdaptiveAvgPool2d) {
  put(call.out(0), at::adaptive_avg_pool2d(widened(call.in(0)), call.attribute<Integers>("output_size", {})));
}
NAMED(AdaptiveAvgPool2dGrad) {
  const auto shape = call.attribute<Integers>("orig_input_shape", {});
  put(call.out(0), at::_adaptive_avg_pool2d_backward(widened(call.in(0)), at::zeros({1}).expand(shape)));
}
