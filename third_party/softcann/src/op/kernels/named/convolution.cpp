// Operators that clients name: convolutions and their gradients.
#include "op/kernels/common.h"
#include "op/named.h"

using namespace softcann::op;

namespace {

// A convolution of pictures [N, C, H, W] or volumes [N, C, D, H, W] with filters [O, C / groups, ...]: pads are before and after
// each of the last dimensions, and may differ; so the padded tensor is what is convolved.
struct Convolution {
  Convolution(const Named& call, size_t dims, std::initializer_list<size_t> tensors) : dims(dims) {
    for (const size_t i : tensors) call.check_channels_first(i, static_cast<int64_t>(dims) + 2);
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

namespace {

// Filters of which each belongs to one channel: [1, channels, ...] as CANN has them, or [channels, 1, ...].
bool by_channel(const Integers& filter, int64_t channels) { return filter[0] == 1 && filter[1] == channels && channels != 1; }

}  // namespace

// The sizes of x, filter, the gradient.
NAMED(DepthwiseConv2DBackpropInput) {
  const Integers sizes = call.integers(0);
  at::Tensor filter = widened(call.in(1));
  if (by_channel(filter.sizes().vec(), sizes[1])) filter = filter.transpose(0, 1);
  put(call.out(0), Convolution(call, 2, {1, 2}).for_input(sizes, filter, widened(call.in(2))));
}
// x, the sizes of the filter, the gradient.
NAMED(DepthwiseConv2DBackpropFilter) {
  Integers sizes = call.integers(1);
  const bool swapped = by_channel(sizes, call.in(0).size(1));
  if (swapped) std::swap(sizes[0], sizes[1]);
  const at::Tensor made = Convolution(call, 2, {0, 2}).for_filter(widened(call.in(0)), sizes, widened(call.in(2)));
  put_reshaped(call.out(0), swapped ? made.transpose(0, 1) : made);
}
