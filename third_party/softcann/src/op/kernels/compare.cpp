// Comparisons and tests of single elements.
#include <limits>

#include "op/simd/clones.h"
#include "op/elementwise.h"
#include "op/fast_path.h"
#include "op/scalar.h"
#include "op/simd/strips.h"

using namespace softcann::op;
namespace fast = softcann::op::fast;

namespace {

// Note [Comparing]
// ATen compares into vectors of the operands' width, stores them, and makes truth values of them one by one. Here four loops
// do for the six comparisons: greater is less with the operands changed over.
#define LOOP(NAME, T, SIGN)                                                           \
  SOFTCANN_CLONES void NAME(uint8_t* out, const T* a, const T* b, int64_t count) {    \
    _Pragma("GCC ivdep") for (int64_t i = 0; i < count; ++i) out[i] = a[i] SIGN b[i]; \
  }
#define LOOPS(T) LOOP(equal, T, ==) LOOP(differs, T, !=) LOOP(less, T, <) LOOP(at_most, T, <=)
LOOPS(float)
LOOPS(double)
LOOPS(int64_t)
LOOPS(int32_t)
LOOPS(int16_t)
LOOPS(int8_t)
LOOPS(uint8_t)
LOOPS(uint64_t)
LOOPS(uint32_t)
LOOPS(uint16_t)
#undef LOOPS
#undef LOOP

// out = loop(a, b), where a loop takes plain arrays. False: not for these dtypes. ATen orders no unsigned numbers but bytes, so
// they are compared here whatever the result's dtype.
template <class Loop>
bool compare(const at::Tensor& a, const at::Tensor& b, const at::Tensor& out, Loop&& loop) {
  if (a.scalar_type() != b.scalar_type()) return false;
  if (out.scalar_type() != at::kBool) {
    if (!c10::isBarebonesUnsignedType(a.scalar_type())) return false;
    const at::Tensor truth = at::empty(out.sizes(), out.options().dtype(at::kBool));
    compare(a, b, truth, loop);
    out.copy_(truth);
    return true;
  }
  const at::ScalarType type = a.scalar_type() == at::kBool ? at::kByte : a.scalar_type();  // bool is a byte of 0 or 1
  return for_types<float, double, int64_t, int32_t, int16_t, int8_t, uint8_t, uint64_t, uint32_t, uint16_t>(type, [&](auto tag) {
    using T = decltype(tag);
    at::TensorIterator iterator = strips_of(out, a, b);
    by_strips<uint8_t, T, T>(iterator, [&](uint8_t* to, const T* x, const T* y, int64_t count) { loop(to, x, y, count); });
  });
}
// The number as a tensor of the dtype that it is compared in; undefined where ATen has to choose this dtype.
at::Tensor as_compared(const at::Tensor& self, const at::Scalar& number) {
  const auto type = self.scalar_type();
  if (number.isComplex() || number.isBoolean()) return {};
  if (type == at::kFloat || type == at::kDouble) return wrapped(number).to(type);  // what is too large becomes infinite
  if (!number.isIntegral(false) || number.type() == c10::ScalarType::UInt64) return {};
  const int64_t whole = number.toLong();
  const bool fits = type == at::kLong || (type == at::kInt && whole == static_cast<int32_t>(whole)) ||
                    (type == at::kUInt64 && whole >= 0) || (type == at::kUInt32 && whole == static_cast<uint32_t>(whole)) ||
                    (type == at::kUInt16 && whole == static_cast<uint16_t>(whole));
  return fits ? at::scalar_tensor(whole, type) : at::Tensor();
}

}  // namespace

#define COMPARISON(NAME, FUNCTION, SIGN, LOOP)                                                                       \
  OP_FULL(aclnn##NAME##Tensor, elementwise(out, self, other),                                                        \
          (fast::binary<true, bool>(self, other, out, [](auto a, auto b) { return a SIGN b; }))) {                   \
    if (!compare(self, other, out, LOOP)) at::cpu::FUNCTION##_outf(self, other, out);                                \
  }                                                                                                                  \
  OP_FULL(aclnn##NAME##Scalar, elementwise(out, self),                                                               \
          (fast::with_scalar<true, bool>(self, other, out, [](auto a, auto b) { return a SIGN b; }))) {              \
    const at::Tensor number = as_compared(self, other);                                                              \
    if (!number.defined() || !compare(self, number, out, LOOP)) at::cpu::FUNCTION##_outf(self, wrapped(other), out); \
  }                                                                                                                  \
  OP_COST(aclnnInplace##NAME##Tensor, elementwise(selfRef, other)) {                                                 \
    if (!compare(selfRef, other, selfRef, LOOP)) at::cpu::FUNCTION##_outf(selfRef, other, selfRef);                  \
  }                                                                                                                  \
  OP_COST(aclnnInplace##NAME##Scalar, elementwise(selfRef)) {                                                        \
    const at::Tensor number = as_compared(selfRef, other);                                                           \
    if (!number.defined() || !compare(selfRef, number, selfRef, LOOP))                                               \
      at::cpu::FUNCTION##_outf(selfRef, wrapped(other), selfRef);                                                    \
  }
#define AS_GIVEN(LOOP) [](uint8_t* to, const auto* a, const auto* b, int64_t count) { LOOP(to, a, b, count); }
#define CHANGED_OVER(LOOP) [](uint8_t* to, const auto* a, const auto* b, int64_t count) { LOOP(to, b, a, count); }

COMPARISON(Eq, eq, ==, AS_GIVEN(equal))
COMPARISON(Ne, ne, !=, AS_GIVEN(differs))
COMPARISON(Lt, lt, <, AS_GIVEN(less))
COMPARISON(Le, le, <=, AS_GIVEN(at_most))
COMPARISON(Gt, gt, >, CHANGED_OVER(less))
COMPARISON(Ge, ge, >=, CHANGED_OVER(at_most))
OP_COST(aclnnLessScalar, elementwise(out, self)) { at::cpu::lt_outf(self, wrapped(other), out); }

// One bool for the whole tensors.
OP(aclnnEqual) { out.fill_(self.sizes() == other.sizes() && at::cpu::equal(self, other)); }

OP_COST(aclnnIsClose, 6 * elementwise(out, self, other)) {
  // Not |a - b| alone: infinities of one sign are close, and their difference is not a number.
  at::cpu::eq_outf(self, other, out);
  if (equalNan && at::isFloatingType(self.scalar_type())) {
    out.logical_or_(at::cpu::ne(self, self).logical_and_(at::cpu::ne(other, other)));
  }
  if ((rtol == 0 && atol == 0) || self.scalar_type() == at::kBool) return;
  at::Tensor allowed = other.abs().mul(rtol).add(atol), difference = self.sub(other).abs();
  out.logical_or_(
      at::cpu::le(difference, allowed).logical_and_(at::cpu::ne(difference, std::numeric_limits<double>::infinity())));
}

namespace {

void is_finite(const at::Tensor& self, at::Tensor& out) {
  if (!at::isFloatingType(self.scalar_type()) && !at::isComplexType(self.scalar_type())) {
    out.fill_(true);
    return;
  }
  // x - x is zero for every finite x, else not a number.
  at::cpu::eq_outf(at::cpu::sub(self, self), wrapped(0), out);
}

void is_infinite(const at::Tensor& self, at::Tensor& out) {
  if (!at::isFloatingType(self.scalar_type())) {
    TORCH_CHECK(!at::isComplexType(self.scalar_type()), "complex numbers are not supported");
    out.fill_(false);
    return;
  }
  at::cpu::eq_outf(self.abs(), wrapped(std::numeric_limits<double>::infinity()), out);
}

}  // namespace

OP_COST(aclnnIsFinite, 2 * elementwise(out, self)) { is_finite(self, out); }
OP_COST(aclnnIsInf, 2 * elementwise(out, x)) { is_infinite(x, out); }
OP_COST(aclnnIsPosInf, elementwise(out, self)) { at::cpu::isposinf_outf(self, out); }
OP_COST(aclnnIsNegInf, elementwise(out, self)) { at::cpu::isneginf_outf(self, out); }
OP(aclnnIsInScalarTensor) { at::cpu::isin_outf(element, testElements, assumeUnique, invert, out); }
OP(aclnnIsInTensorScalar) { at::cpu::isin_outf(element, testElement, assumeUnique, invert, out); }
