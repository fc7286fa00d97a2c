// Padding.
#include <algorithm>

#include "op/kernel.h"
#include "op/kernels/common.h"

using namespace softcann::op;

namespace {

// What ATen's kernels do not look at: pads that do not go with the result may ask for more than the machine has, and gradients
// of other images lie elsewhere.
void require_padded(const at::Tensor& self, at::IntArrayRef padding, const at::Tensor& padded) {
  bool fits = self.dim() == padded.dim() && padding.size() <= 2 * static_cast<size_t>(self.dim());
  for (int64_t dim = 0; fits && dim < self.dim(); ++dim) {
    int64_t size = self.size(dim);
    const auto first = 2 * static_cast<size_t>(self.dim() - 1 - dim);
    for (size_t i = first; fits && i < std::min(padding.size(), first + 2); ++i) {
      fits = !__builtin_add_overflow(size, padding[i], &size);
    }
    fits = fits && size == padded.size(dim);
  }
  TORCH_CHECK(fits, self.sizes(), " padded by ", padding, " is not ", padded.sizes());
}

}  // namespace

OP(aclnnConstantPadNd) {
  require_padded(self, pad, out);
  into(out, [&] { return at::constant_pad_nd(self, pad, value); });
}

namespace {

// Truth values as the bytes that they are, which ATen's reflections know.
at::Tensor as_bytes(const at::Tensor& self) { return self.scalar_type() == at::kBool ? self.view(at::kByte) : self; }
const at::Tensor& as_given(const at::Tensor& self) { return self; }

}  // namespace

// See Note [Outputs that ATen lays out]. A gradient of many elements to one deserves float32.
#define PAD(NAME, FUNCTION, INPUT)                                                          \
  OP(aclnn##NAME) {                                                                         \
    require_padded(self, padding, out);                                                     \
    into(out, [&] { return at::FUNCTION(INPUT(self), padding); });                          \
  }                                                                                         \
  OP(aclnn##NAME##Backward) {                                                               \
    require_padded(self, padding, gradOutput);                                              \
    if (low_precision(gradOutput)) {                                                        \
      put(gradInput, at::FUNCTION##_backward(widened(gradOutput), widened(self), padding)); \
    } else {                                                                                \
      into(gradInput, [&] { return at::FUNCTION##_backward(gradOutput, self, padding); });  \
    }                                                                                       \
  }
PAD(ReflectionPad1d, reflection_pad1d, as_bytes)
PAD(ReflectionPad2d, reflection_pad2d, as_bytes)
PAD(ReflectionPad3d, reflection_pad3d, as_bytes)
PAD(ReplicationPad1d, replication_pad1d, as_given)
PAD(ReplicationPad2d, replication_pad2d, as_given)
PAD(ReplicationPad3d, replication_pad3d, as_given)

OP(aclnnCircularPad2d) {
  require_padded(self, padding, out);
  put(out, at::_pad_circular(self, padding));
}
OP(aclnnCircularPad3d) {
  require_padded(self, padding, out);
  put(out, at::_pad_circular(self, padding));
}

namespace {

// The pads go around: every element of the gradient belongs to the element that was copied there.
double circular_cost(const at::Tensor& self, at::IntArrayRef padding, size_t dims) {
  if (padding.size() != 2 * dims) invalid("padding has %zu numbers; %zu are expected", padding.size(), 2 * dims);
  const size_t rank = given(self) ? static_cast<size_t>(self.dim()) : dims + 1;
  if (rank != dims + 1 && rank != dims + 2) invalid("self has %zu dimensions; %zu or %zu are expected", rank, dims + 1, dims + 2);
  return bytes(self);
}
at::Tensor circular_gradient(const at::Tensor& gradient, at::IntArrayRef sizes, at::IntArrayRef padding) {
  at::Tensor result = widened(gradient);
  for (size_t i = 0; i < padding.size() / 2; ++i) {
    const auto dim = static_cast<int64_t>(sizes.size() - 1 - i);
    const int64_t length = sizes[static_cast<size_t>(dim)], before = padding[2 * i], after = padding[2 * i + 1];
    TORCH_CHECK(result.size(dim) == length + before + after, "circular padding: a gradient of ", result.size(dim), " and not ",
                length + before + after, " in dimension ", dim);
    TORCH_CHECK(before <= length && after <= length, "circular padding: pads ", before, " and ", after, " of ", length);
    std::vector<int64_t> folded = result.sizes().vec();
    folded[static_cast<size_t>(dim)] = length;
    const at::Tensor place = at::arange(-before, length + after, at::kLong).remainder(length);
    result = at::zeros(folded, result.options()).index_add_(dim, place, result);
  }
  return result;
}

}  // namespace

OP_COST(aclnnCircularPad2dBackward, circular_cost(self, padding, 2)) {
  put(gradInput, circular_gradient(gradOutput, self.sizes(), padding));
}
OP_COST(aclnnCircularPad3dBackward, circular_cost(self, padding, 3)) {
  put(gradInput, circular_gradient(gradOutput, self.sizes(), padding));
}
