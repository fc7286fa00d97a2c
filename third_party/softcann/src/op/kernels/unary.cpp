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

// A negative eps means none.
std::optional<double> clamp_of(double eps) { return eps < 0 ? std::nullopt : std::optional<double>(eps); }

}  // namespace

#define UNARY(NAME, FUNCTION, IN, OUT) \
  OP_FULL(NAME, elementwise(OUT, IN), small_unary(at::native::FUNCTION##_stub, IN, OUT)) { at::cpu::FUNCTION##_outf(IN, OUT); }
#define INPLACE(NAME, FUNCTION, REF)                                                    \
  OP_FULL(NAME, elementwise(REF), small_unary(at::native::FUNCTION##_stub, REF, REF)) { \
    at::cpu::FUNCTION##_outf(REF, writable(REF));                                       \
  }

OP_FULL(aclnnNeg, elementwise(out, self), fast::unary<true>(self, out, negated)) { at::cpu::neg_outf(self, out); }
OP_FULL(aclnnAbs, elementwise(out, self), fast::unary<true>(self, out, magnitude)) { at::cpu::abs_outf(self, out); }
// Not a loop of ours: ATen takes MKL's square root, which is not always the nearest number.
UNARY(aclnnSqrt, sqrt, self, out)
UNARY(aclnnRsqrt, rsqrt, self, out)
UNARY(aclnnReciprocal, reciprocal, self, out)
OP_FULL(aclnnInplaceNeg, elementwise(selfRef), fast::unary<true>(selfRef, selfRef, negated)) {
  at::cpu::neg_outf(selfRef, selfRef);
}
INPLACE(aclnnInplaceSqrt, sqrt, self)
INPLACE(aclnnInplaceRsqrt, rsqrt, selfRef)
INPLACE(aclnnInplaceReciprocal, reciprocal, selfRef)

UNARY(aclnnAcos, acos, input, out)
UNARY(aclnnAcosh, acosh, self, out)
UNARY(aclnnAsin, asin, self, out)
UNARY(aclnnAsinh, asinh, input, out)
UNARY(aclnnAtan, atan, input, out)
UNARY(aclnnAtanh, atanh, input, out)
UNARY(aclnnCeil, ceil, self, out)
UNARY(aclnnCos, cos, input, out)
UNARY(aclnnCosh, cosh, self, out)
UNARY(aclnnDigamma, digamma, self, out)
UNARY(aclnnErf, erf, self, out)
UNARY(aclnnErfc, erfc, self, out)
UNARY(aclnnErfinv, erfinv, self, out)
OP_COST(aclnnNdtri, elementwise(yOut, x)) { at::cpu::special_ndtri_outf(x, writable(yOut)); }
UNARY(aclnnExp, exp, self, out)
UNARY(aclnnExp2, exp2, self, out)
UNARY(aclnnExpm1, expm1, self, out)
UNARY(aclnnFloor, floor, self, out)
UNARY(aclnnFrac, frac, input, out)
UNARY(aclnnLgamma, lgamma, self, out)
UNARY(aclnnLog, log, self, out)
UNARY(aclnnLog10, log10, self, out)
UNARY(aclnnLog1p, log1p, self, out)
UNARY(aclnnLog2, log2, self, out)
UNARY(aclnnRound, round, self, out)
OP_COST(aclnnSign, elementwise(result, self)) {
  at::cpu::sgn_outf(self, result);
}  // ATen's loop of this name is for complex numbers
UNARY(aclnnSignbit, signbit, self, out)
UNARY(aclnnSin, sin, self, out)
UNARY(aclnnSinc, sinc, self, out)
UNARY(aclnnSinh, sinh, self, out)
UNARY(aclnnTan, tan, self, out)
UNARY(aclnnTanh, tanh, self, out)
UNARY(aclnnTrunc, trunc, self, out)
UNARY(aclnnAngleV2, angle, x, out)

INPLACE(aclnnInplaceAcos, acos, inputRef)
INPLACE(aclnnInplaceAcosh, acosh, selfRef)
INPLACE(aclnnInplaceAsin, asin, selfRef)
INPLACE(aclnnInplaceAsinh, asinh, inputRef)
INPLACE(aclnnInplaceAtan, atan, inputRef)
INPLACE(aclnnInplaceAtanh, atanh, inputRef)
INPLACE(aclnnInplaceCeil, ceil, selfRef)
INPLACE(aclnnInplaceCos, cos, inputRef)
INPLACE(aclnnInplaceCosh, cosh, selfRef)
INPLACE(aclnnInplaceErf, erf, selfRef)
INPLACE(aclnnInplaceErfc, erfc, selfRef)
INPLACE(aclnnInplaceErfinv, erfinv, selfRef)
INPLACE(aclnnInplaceExp, exp, selfRef)
INPLACE(aclnnInplaceExp2, exp2, selfRef)
INPLACE(aclnnInplaceExpm1, expm1, selfRef)
INPLACE(aclnnInplaceFloor, floor, selfRef)
INPLACE(aclnnInplaceFrac, frac, inputRef)
INPLACE(aclnnInplaceLog, log, selfRef)
INPLACE(aclnnInplaceLog10, log10, selfRef)
INPLACE(aclnnInplaceLog1p, log1p, selfRef)
INPLACE(aclnnInplaceLog2, log2, selfRef)
INPLACE(aclnnInplaceRound, round, selfRef)
INPLACE(aclnnInplaceSin, sin, selfRef)
INPLACE(aclnnInplaceSinc, sinc, selfRef)
INPLACE(aclnnInplaceSinh, sinh, selfRef)
INPLACE(aclnnInplaceTan, tan, selfRef)
INPLACE(aclnnInplaceTanh, tanh, selfRef)
INPLACE(aclnnInplaceTrunc, trunc, selfRef)

OP_COST(aclnnSquare, elementwise(out, self)) { at::cpu::mul_outf(self, self, out); }
OP_COST(aclnnRoundDecimals, elementwise(out, self)) { at::cpu::round_outf(self, decimals, out); }
OP_COST(aclnnInplaceRoundDecimals, elementwise(selfRef)) { at::cpu::round_outf(selfRef, decimals, selfRef); }
OP_COST(aclnnNanToNum, elementwise(out, self)) {
  at::cpu::nan_to_num_outf(self, nan, limit_of(posinf, self), limit_of(neginf, self), out);
}
OP_COST(aclnnInplaceNanToNum, elementwise(selfRef)) {
  at::cpu::nan_to_num_outf(selfRef, nan, limit_of(posinf, selfRef), limit_of(neginf, selfRef), selfRef);
}
OP_COST(aclnnLogit, 4 * elementwise(out, input)) { at::cpu::logit_outf(input, clamp_of(eps), out); }
OP_COST(aclnnLogitGrad, 2 * elementwise(out, x, dy)) { at::cpu::logit_backward_outf(dy, x, clamp_of(eps), out); }
