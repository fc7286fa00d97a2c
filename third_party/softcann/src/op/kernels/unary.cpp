// Functions of one operand.
#include <cmath>
#include <cstdlib>

#include "op/elementwise.h"
#include "op/fast_path.h"
#include "op/small_unary.h"

using namespace softcann::op;
namespace fast = softcann::op::fast;

namespace {

constexpr auto negated = [](auto x) { return -x; };
constexpr auto magnitude = [](auto x) { return std::abs(x); };

// CANN passes limits as floats: for a float64, infinity is what a client's limit became, and means the type's own, torch's
// default.
std::optional<double> limit_of(float value, const at::Tensor& self) {
  if (std::isinf(value) && self.scalar_type() == at::kDouble) return std::nullopt;
  return value;
}

// Whole numbers have digits before the point alone; those in the middle go to the even multiple, as fractions do.
at::Tensor rounded_whole(const at::Tensor& self, int64_t digits) {
  constexpr int64_t most_digits = 18;  // of a power of ten in int64
  if (digits <= 0) return self;
  if (digits > most_digits) return at::zeros_like(self);
  int64_t step = 1;
  for (int64_t i = 0; i < digits; ++i) step *= 10;
  const at::Tensor wide = self.to(at::kLong), quotient = at::div(wide, step, "floor"), rest = wide - quotient * step;
  const at::Tensor odd = quotient.bitwise_and(1).to(at::kBool);
  return (quotient + rest.gt(step / 2).logical_or_(rest.eq(step / 2).logical_and_(odd))) * step;
}

void round_decimals(const at::Tensor& self, int64_t decimals, at::Tensor& out) {
  if (c10::isIntegralType(self.scalar_type(), false) && self.scalar_type() == out.scalar_type()) {
    out.copy_(rounded_whole(self, -decimals));
  } else {
    at::cpu::round_outf(self, decimals, out);
  }
}

// Of whole numbers 0.
void frac(const at::Tensor& self, at::Tensor& out) {
  if (fractional(self)) {
    at::cpu::frac_outf(self, out);
  } else {
    require(c10::isIntegralType(self.scalar_type(), false) && self.scalar_type() == out.scalar_type(), self, "frac");
    out.zero_();
  }
}

// A negative eps means none.
std::optional<double> clamp_of(double eps) { return eps < 0 ? std::nullopt : std::optional<double>(eps); }

}  // namespace

#define UNARY(NAME, FUNCTION, IN, OUT) \
  OP_FULL(NAME, elementwise(OUT, IN), small_unary(at::native::FUNCTION##_stub, IN, OUT)) { at::cpu::FUNCTION##_outf(IN, OUT); }
#define INPLACE(NAME, FUNCTION, REF)                                                    \
  OP_FULL(NAME, elementwise(REF), small_unary(at::native::FUNCTION##_stub, REF, REF)) { \
    at::cpu::FUNCTION##_outf(REF, writable(REF));                                       \
  }
#define BOTH(NAME, FUNCTION, IN)        \
  UNARY(aclnn##NAME, FUNCTION, IN, out) \
  INPLACE(aclnnInplace##NAME, FUNCTION, IN##Ref)

OP_FULL(aclnnNeg, elementwise(out, self), fast::unary<true>(self, out, negated)) { at::cpu::neg_outf(self, out); }
OP_FULL(aclnnAbs, elementwise(out, self), fast::unary<true>(self, out, magnitude)) {
  if (self.scalar_type() == at::kBool) {
    out.copy_(self);
  } else {
    at::cpu::abs_outf(self, out);
  }
}
// Not a loop of ours: ATen takes MKL's square root, which is not always the nearest number.
UNARY(aclnnSqrt, sqrt, self, out)
BOTH(Rsqrt, rsqrt, self)
BOTH(Reciprocal, reciprocal, self)
OP_FULL(aclnnInplaceNeg, elementwise(selfRef), fast::unary<true>(selfRef, selfRef, negated)) {
  at::cpu::neg_outf(selfRef, selfRef);
}
INPLACE(aclnnInplaceSqrt, sqrt, self)

BOTH(Acos, acos, input)
BOTH(Acosh, acosh, self)
BOTH(Asin, asin, self)
BOTH(Asinh, asinh, input)
BOTH(Atan, atan, input)
BOTH(Atanh, atanh, input)
BOTH(Ceil, ceil, self)
BOTH(Cos, cos, input)
BOTH(Cosh, cosh, self)
UNARY(aclnnDigamma, digamma, self, out)
BOTH(Erf, erf, self)
BOTH(Erfc, erfc, self)
BOTH(Erfinv, erfinv, self)
OP_COST(aclnnNdtri, elementwise(yOut, x)) { at::cpu::special_ndtri_outf(x, writable(yOut)); }
BOTH(Exp, exp, self)
BOTH(Exp2, exp2, self)
BOTH(Expm1, expm1, self)
BOTH(Floor, floor, self)
OP_FULL(aclnnFrac, elementwise(out, input), small_unary(at::native::frac_stub, input, out)) { frac(input, out); }
OP_FULL(aclnnInplaceFrac, elementwise(inputRef), small_unary(at::native::frac_stub, inputRef, inputRef)) {
  frac(inputRef, writable(inputRef));
}
UNARY(aclnnLgamma, lgamma, self, out)
BOTH(Log, log, self)
BOTH(Log10, log10, self)
BOTH(Log1p, log1p, self)
BOTH(Log2, log2, self)
BOTH(Round, round, self)
OP_COST(aclnnSign, elementwise(result, self)) {
  at::cpu::sgn_outf(self, result);
}  // ATen's loop of this name is for complex numbers
OP(aclnnSignbit) { out.copy_(at::signbit(self)); }  // of any type that bool casts to
BOTH(Sin, sin, self)
BOTH(Sinc, sinc, self)
BOTH(Sinh, sinh, self)
BOTH(Tan, tan, self)
BOTH(Tanh, tanh, self)
BOTH(Trunc, trunc, self)
UNARY(aclnnAngleV2, angle, x, out)

OP_COST(aclnnSquare, elementwise(out, self)) { at::cpu::mul_outf(self, self, out); }
OP_COST(aclnnRoundDecimals, elementwise(out, self)) { round_decimals(self, decimals, out); }
OP_COST(aclnnInplaceRoundDecimals, elementwise(selfRef)) { round_decimals(selfRef, decimals, selfRef); }
OP_COST(aclnnNanToNum, elementwise(out, self)) {
  at::cpu::nan_to_num_outf(self, nan, limit_of(posinf, self), limit_of(neginf, self), out);
}
OP_COST(aclnnInplaceNanToNum, elementwise(selfRef)) {
  at::cpu::nan_to_num_outf(selfRef, nan, limit_of(posinf, selfRef), limit_of(neginf, selfRef), selfRef);
}
OP_COST(aclnnLogit, 4 * elementwise(out, input)) { at::cpu::logit_outf(input, clamp_of(eps), out); }
OP_COST(aclnnLogitGrad, 2 * elementwise(out, x, dy)) { at::cpu::logit_backward_outf(dy, x, clamp_of(eps), out); }
