// Softmax, its logarithm, its masked and scaled forms.
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "op/simd/clones.h"
#include "op/fast_path.h"
#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/fitting.h"
#include "op/kernels/softmax.h"
#include "op/simd/lanes.h"
#include "op/simd/thresholds.h"

using namespace softcann::op;
namespace fast = softcann::op::fast;

namespace {

// A conversion while computing (half in, float out) is what CANN allows and the CPU kernels do not.
at::Tensor as_result(const at::Tensor& self, const at::Tensor& out) {
  return self.scalar_type() == out.scalar_type() ? self : self.to(out.scalar_type());
}

// Note [Softmax of rows]
// float32 along the last dimension, which is what classes and attention's scores are. A row is read for its maximum, then for
// the sum of the powers, then written. What fills up the lanes of a row's end changes neither; a NaN makes the sum one.
enum class Form { plain, logarithm };
constexpr float nothing_yet = -std::numeric_limits<float>::infinity();

[[gnu::always_inline]] inline float greatest_of(const float* row, int64_t columns) {
  Lanes greatest = Lanes{} + nothing_yet, other = greatest, next;
  int64_t c = 0;
  for (; c + 2 * lane_count <= columns; c += 2 * lane_count) {
    load(row + c, next);
    greatest = next > greatest ? next : greatest;
    load(row + c + lane_count, next);
    other = next > other ? next : other;
  }
  for (; c < columns; c += lane_count) {
    load(row + c, std::min(columns - c, lane_count), nothing_yet, next);
    greatest = next > greatest ? next : greatest;
  }
  greatest = other > greatest ? other : greatest;
  return largest_of(greatest);
}
// The sum of e^(x - greatest), which are stored as `powers` where the form asks for them.
template <Form form>
[[gnu::always_inline]] inline float sum_of_powers(const float* row, int64_t columns, float greatest, float* powers) {
  Lanes sums{}, other{}, low, high;
  int64_t c = 0;
  for (; c + 2 * lane_count <= columns; c += 2 * lane_count) {
    load(row + c, low);
    load(row + c + lane_count, high);
    low -= greatest;
    high -= greatest;
    exponentiate(low);
    exponentiate(high);
    sums += low;
    other += high;
    if constexpr (form == Form::plain) {
      store(low, powers + c);
      store(high, powers + c + lane_count);
    }
  }
  for (; c < columns; c += lane_count) {
    const int64_t count = std::min(columns - c, lane_count);
    load(row + c, count, nothing_yet, low);
    low -= greatest;
    exponentiate(low);
    sums += low;
    if constexpr (form == Form::plain) store(low, count, powers + c);
  }
  return sum_of(sums + other);
}
template <Form form>
[[gnu::always_inline]] inline void row_by_row(const float* from, float* to, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r, from += columns, to += columns) {
    const float greatest = greatest_of(from, columns), sum = sum_of_powers<form>(from, columns, greatest, to);
    if constexpr (form == Form::plain) {
      const float share = 1 / sum;
#pragma GCC ivdep
      for (int64_t c = 0; c < columns; ++c) to[c] *= share;
    } else {
      const float logarithm = std::log(sum);
#pragma GCC ivdep
      for (int64_t c = 0; c < columns; ++c) to[c] = (from[c] - greatest) - logarithm;
    }
  }
}
}  // namespace

SOFTCANN_CLONES void softcann::op::softmax_rows(const float* from, float* to, int64_t rows, int64_t columns) {
  row_by_row<Form::plain>(from, to, rows, columns);
}

namespace {

SOFTCANN_CLONES void log_softmax_rows(const float* from, float* to, int64_t rows, int64_t columns) {
  row_by_row<Form::logarithm>(from, to, rows, columns);
}

// Touches nothing and returns false for other tensors than the note's. Those of `most` elements or fewer only.
bool of_rows(Form form, const at::Tensor& self, int64_t dim, const at::Tensor& out, int64_t most) {
  const auto *in = self.unsafeGetTensorImpl(), *result = out.unsafeGetTensorImpl();
  const auto type = caffe2::TypeMeta::Make<float>();
  if (in->dtype() != type || result->dtype() != type || !in->is_contiguous() || !result->is_contiguous()) return false;
  const auto sizes = in->sizes(), out_sizes = result->sizes();
  const int64_t dims = static_cast<int64_t>(sizes.size()), elements = in->numel();
  if (dims == 0 || (dim != -1 && dim != dims - 1) || elements == 0 || elements > most || !sizes.equals(out_sizes)) return false;
  const int64_t columns = sizes.back();
  if (columns < threshold::lane_columns) return false;
  const float* from = fast::floats(self);
  float* to = fast::floats(out);
  if (!fast::no_partial_overlap(fast::data(in), fast::data(result), elements * static_cast<int64_t>(sizeof(float)))) return false;
  const auto compute = [&](int64_t begin, int64_t end) {
    (form == Form::plain ? softmax_rows : log_softmax_rows)(from + begin * columns, to + begin * columns, end - begin, columns);
  };
  if (elements <= threshold::grain) {
    compute(0, elements / columns);
  } else {
    at::parallel_for(0, elements / columns, std::max<int64_t>(1, threshold::grain / columns), compute);
  }
  return true;
}
constexpr int64_t any_number = std::numeric_limits<int64_t>::max();

double softmax_cost(const at::Tensor& self) {
  constexpr double call_ns = 1000, ns_per_element = 0.6;
  return call_ns + (self.defined() ? ns_per_element * static_cast<double>(self.unsafeGetTensorImpl()->numel()) : 0);
}

// Whether ATen's kernels can write to `out` itself: they take no strides of it.
bool written_directly(const at::Tensor& out, at::ScalarType type) { return out.is_contiguous() && out.scalar_type() == type; }

}  // namespace

OP_FULL(aclnnSoftmax, (require_fractions("out", out), softmax_cost(self)),
        of_rows(Form::plain, self, dim, out, threshold::grain)) {
  if (of_rows(Form::plain, self, dim, out, any_number)) return;
  if (!out.is_contiguous()) return put(out, at::_softmax(as_result(self, out), dim, false));
  at::cpu::_softmax_outf(as_result(self, out), dim, false, out);
}
OP_FULL(aclnnLogSoftmax, (require_fractions("out", out), softmax_cost(self)),
        of_rows(Form::logarithm, self, dim, out, threshold::grain)) {
  if (of_rows(Form::logarithm, self, dim, out, any_number)) return;
  if (!out.is_contiguous()) return put(out, at::_log_softmax(as_result(self, out), dim, false));
  at::cpu::_log_softmax_outf(as_result(self, out), dim, false, out);
}
OP(aclnnSoftmaxBackward) {
  if (written_directly(out, output.scalar_type())) {
    at::cpu::_softmax_backward_data_outf(as_result(gradOutput, output), output, dim, output.scalar_type(), out);
  } else {
    put(out, at::_softmax_backward_data(as_result(gradOutput, output), output, dim, output.scalar_type()));
  }
}
OP(aclnnLogSoftmaxBackward) {
  if (written_directly(out, output.scalar_type())) {
    at::cpu::_log_softmax_backward_data_outf(as_result(gradOutput, output), output, dim, output.scalar_type(), out);
  } else {
    put(out, at::_log_softmax_backward_data(as_result(gradOutput, output), output, dim, output.scalar_type()));
  }
}
OP(aclnnSoftmaxGrad) {
  const int64_t last = -1;
  const at::IntArrayRef axes = axesOptional.empty() ? at::IntArrayRef(last) : axesOptional;
  const at::Tensor product = softmax * gradSoftmax;
  put(gradXOut, product - softmax * product.sum(axes, true));
}

namespace {

// x scaled, with -10000 where masked out: CANN's constant, so a row that is masked everywhere stays finite.
constexpr double masked_score = -10000.0;

at::Tensor triangular_mask(const at::Tensor& x) {
  return at::ones({x.size(-2), x.size(-1)}, x.options().dtype(at::kBool)).triu(1);
}

void scaled_masked_softmax_into(at::Tensor& y, const at::Tensor& x, const at::Tensor& mask, double scale, bool triangular) {
  at::Tensor scores = x.to(at::kFloat) * scale;
  const at::Tensor hidden = triangular ? triangular_mask(x) : mask;
  if (hidden.defined()) scores.masked_fill_(hidden.to(at::kBool), masked_score);
  put(y, at::softmax(scores, -1));
}
void scaled_masked_softmax_gradient_into(at::Tensor& out, const at::Tensor& grad, const at::Tensor& y, const at::Tensor& mask,
                                         double scale, bool triangular) {
  at::Tensor wide = at::_softmax_backward_data(grad.to(at::kFloat), y.to(at::kFloat), -1, at::kFloat) * scale;
  const at::Tensor hidden = triangular ? triangular_mask(y) : mask;
  if (hidden.defined()) wide.masked_fill_(hidden.to(at::kBool), 0);
  put(out, wide);
}

}  // namespace

OP(aclnnScaledMaskedSoftmax) { scaled_masked_softmax_into(y, x, mask, scale, fixedTriuMask); }
OP(aclnnInnerScaledMaskedSoftmaxV2) { scaled_masked_softmax_into(y, x, mask, scale, fixedTriuMask); }
OP(aclnnScaledMaskedSoftmaxBackward) { scaled_masked_softmax_gradient_into(out, gradOutput, y, mask, scale, fixTriuMask); }
OP(aclnnInnerScaledMaskedSoftmaxGradV2) { scaled_masked_softmax_gradient_into(out, gradOutput, y, mask, scale, fixTriuMask); }
OP(aclnnMaskedSoftmaxWithRelPosBias) {
  // x is [B, W, N, S1, S2] or [BW, N, S1, S2]; the mask is per window, the bias per head.
  at::Tensor scores = x.to(at::kFloat) * scaleValue;
  if (attenMaskOptional.defined()) {
    const int64_t windows = attenMaskOptional.size(attenMaskOptional.dim() > 3 ? -4 : 0);
    const at::Tensor mask = attenMaskOptional.to(at::kFloat).view({1, windows, 1, x.size(-2), x.size(-1)});
    const at::Tensor split = scores.view({-1, windows, x.size(-3), x.size(-2), x.size(-1)});
    scores = (split + mask).view(x.sizes());
  }
  scores = scores + relativePosBias.to(at::kFloat).view({x.size(-3), x.size(-2), x.size(-1)});
  put(out, at::softmax(scores, -1));
}
