// Arithmetic of three operands, and clamping.
#include "op/elementwise.h"
#include "op/fast_path.h"
#include "op/kernels/common.h"
#include "op/simd/float_loops.h"

using namespace softcann::op;
namespace fast = softcann::op::fast;

namespace {

using Loop = void(float*, const float*, const float*, const float*, float, int64_t);
bool small(Loop& loop, const at::Tensor& self, const at::Tensor& a, const at::Tensor& b, const at::Scalar& value,
           const at::Tensor& out) {
  float factor = 0;
  if (!fast::as_float(value, &factor) || !fast::plain_floats(out, self, a, b)) return false;
  loop(fast::floats(out), fast::floats(self), fast::floats(a), fast::floats(b), factor, out.numel());
  return true;
}
bool small_lerp(const at::Tensor& self, const at::Tensor& end, const at::Scalar& weight, const at::Tensor& out) {
  float share = 0;
  if (!fast::as_float(weight, &share) || !fast::plain_floats(out, self, end)) return false;
  loops::mix(fast::floats(out), fast::floats(self), fast::floats(end), share, out.numel());
  return true;
}

}  // namespace

#define COST elementwise(out, self, tensor1, tensor2)
OP_FULL(aclnnAddcmul, COST, small(loops::add_products, self, tensor1, tensor2, value, out)) {
  at::cpu::addcmul_outf(self, tensor1, tensor2, value, out);
}
OP_FULL(aclnnAddcdiv, COST, small(loops::add_quotients, self, tensor1, tensor2, value, out)) {
  at::cpu::addcdiv_outf(self, tensor1, tensor2, value, out);
}
#undef COST
#define COST elementwise(selfRef, tensor1, tensor2)
OP_FULL(aclnnInplaceAddcmul, COST, small(loops::add_products, selfRef, tensor1, tensor2, value, selfRef)) {
  at::cpu::addcmul_outf(selfRef, tensor1, tensor2, value, selfRef);
}
OP_FULL(aclnnInplaceAddcdiv, COST, small(loops::add_quotients, selfRef, tensor1, tensor2, value, selfRef)) {
  at::cpu::addcdiv_outf(selfRef, tensor1, tensor2, value, selfRef);
}
#undef COST

OP_COST(aclnnLerp, elementwise(out, self, end, weight)) { at::cpu::lerp_outf(self, end, weight, out); }
OP_FULL(aclnnLerps, elementwise(out, self, end), small_lerp(self, end, weight, out)) {
  at::cpu::lerp_outf(self, end, weight, out);
}
OP_COST(aclnnInplaceLerp, elementwise(selfRef, end, weight)) { at::cpu::lerp_outf(selfRef, end, weight, selfRef); }
OP_FULL(aclnnInplaceLerps, elementwise(selfRef, end), small_lerp(selfRef, end, weight, selfRef)) {
  at::cpu::lerp_outf(selfRef, end, weight, selfRef);
}

OP_FULL(aclnnClamp, elementwise(out, self),
        given(clipValueMin) && given(clipValueMax) && fast::clamp(self, clipValueMin, clipValueMax, out)) {
  at::cpu::clamp_outf(self, maybe(clipValueMin), maybe(clipValueMax), out);
}
OP_COST(aclnnClampMin, elementwise(out, self)) { at::cpu::clamp_min_outf(self, clipValueMin, out); }
OP_COST(aclnnClampMax, elementwise(out, self)) { at::cpu::clamp_max_outf(self, clipValueMax, out); }
OP_COST(aclnnClampTensor, elementwise(out, self, clipValueMin, clipValueMax)) {
  at::cpu::clamp_outf(self, maybe(clipValueMin), maybe(clipValueMax), out);
}
OP_COST(aclnnClampMinTensor, elementwise(out, self, clipValueMin)) { at::cpu::clamp_min_outf(self, clipValueMin, out); }
OP_COST(aclnnClampMaxTensor, elementwise(out, self, max)) { at::cpu::clamp_max_outf(self, max, out); }
OP_COST(aclnnInplaceClampMax, elementwise(selfRef)) { at::cpu::clamp_max_outf(selfRef, clipValueMax, selfRef); }
OP_COST(aclnnInplaceClampMaxTensor, elementwise(selfRef, max)) { at::cpu::clamp_max_outf(selfRef, max, selfRef); }
OP_COST(aclnnInplaceClampMinTensor, elementwise(selfRef, clipValueMin)) {
  at::cpu::clamp_min_outf(selfRef, clipValueMin, selfRef);
}

namespace {

double scale_cost(const at::Tensor& x, const at::Tensor& scale, int64_t axis, int64_t count, bool from_blob) {
  if (!given(x) || !given(scale)) return 0;
  const int64_t rank = x.dim(), first = axis < 0 ? axis + rank : axis;
  if (first < 0 || first >= rank) invalid("aclnnScale: axis %ld of %ld dimensions", long(axis), long(rank));
  if (count < -1) invalid("aclnnScale: numAxes is %ld; -1 is the least", long(count));
  if (from_blob && count == 0) {
    if (scale.numel() != 1) invalid("aclnnScale: scale has one number where numAxes is 0");
    return bytes(x) + bytes(scale);
  }
  const int64_t covered = !from_blob ? scale.dim() : count == -1 ? rank - first : count;
  const bool one = !from_blob && scale.numel() == 1;
  if (!one && (first + covered > rank || scale.sizes() != x.sizes().slice(first, covered)))
    invalid("aclnnScale: scale %s of x %s from dimension %ld", c10::str(scale.sizes()).c_str(), c10::str(x.sizes()).c_str(),
            long(first));
  return bytes(x) + bytes(scale);
}

}  // namespace

// The numbers of scale and bias are those of x's dimensions from `axis` on.
OP_COST(aclnnScale, scale_cost(x, scale, axis, numAxes, scaleFromBlob)) {
  std::vector<int64_t> sizes(static_cast<size_t>(x.dim()), 1);
  const int64_t first = axis < 0 ? axis + x.dim() : axis;
  if (scale.numel() != 1) std::copy(scale.sizes().begin(), scale.sizes().end(), sizes.begin() + first);
  const at::Tensor product = widened(x) * widened(scale).reshape(sizes);
  put(y, given(bias) ? product + widened(bias).reshape(sizes) : product);
}

namespace {

// [batch, hidden] for all of a sequence.
at::Tensor along(const at::Tensor& t) { return t.dim() == 2 ? widened(t).unsqueeze(1) : widened(t); }
double modulation_cost(const at::Tensor& x) {
  if (given(x) && x.dim() != 3) invalid("modulated features have %ld dimensions; 3 are expected", long(x.dim()));
  return elementwise(x);
}

}  // namespace

OP_COST(aclnnModulate, modulation_cost(self)) {
  at::Tensor value = widened(self);
  if (given(scaleOptional)) value = value * (1 + along(scaleOptional));
  put(out, given(shiftOptional) ? value + along(shiftOptional) : value);
}
OP_COST(aclnnModulateBackward, modulation_cost(input)) {
  const at::Tensor grad = widened(grad_output);
  put(grad_input, given(scale) ? grad * along(scale) : grad);
  put(grad_scale, (grad * widened(input)).sum(1));
  put(grad_shift, grad.sum(1));
}
