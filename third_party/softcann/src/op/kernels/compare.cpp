// Comparisons and tests of single elements.
#include <ATen/CPUFunctions.h>

#include <limits>

#include "op/elementwise.h"
#include "op/fast_path.h"
#include "op/scalar.h"

using namespace softcann::op;
namespace fast = softcann::op::fast;

#define COMPARISON(NAME, FUNCTION, SIGN) \
  OP_FULL(aclnn##NAME##Tensor, elementwise(out, self, other), \
          (fast::binary<true, bool>(self, other, out, [](auto a, auto b) { return a SIGN b; }))) { \
    at::cpu::FUNCTION##_outf(self, other, out); \
  } \
  OP_FULL(aclnn##NAME##Scalar, elementwise(out, self), \
          (fast::with_scalar<true, bool>(self, other, out, [](auto a, auto b) { return a SIGN b; }))) { \
    at::cpu::FUNCTION##_outf(self, wrapped(other), out); \
  } \
  OP_COST(aclnnInplace##NAME##Tensor, elementwise(selfRef, other)) { \
    at::cpu::FUNCTION##_outf(selfRef, other, selfRef); \
  } \
  OP_COST(aclnnInplace##NAME##Scalar, elementwise(selfRef)) { at::cpu::FUNCTION##_outf(selfRef, wrapped(other), selfRef); }

COMPARISON(Eq, eq, ==)
COMPARISON(Ne, ne, !=)
COMPARISON(Lt, lt, <)
COMPARISON(Le, le, <=)
COMPARISON(Gt, gt, >)
COMPARISON(Ge, ge, >=)
OP_COST(aclnnLessScalar, elementwise(out, self)) { at::cpu::lt_outf(self, wrapped(other), out); }

// One bool for the whole tensors.
OP(aclnnEqual) { out.fill_(self.sizes() == other.sizes() && at::cpu::equal(self, other)); }

OP_COST(aclnnIsClose, 6 * elementwise(out, self, other)) {
  // Not |a - b| alone: infinities of one sign are close, and their difference is not a number.
  at::cpu::eq_outf(self, other, out);
  if (equalNan && at::isFloatingType(self.scalar_type())) {
    out.logical_or_(at::cpu::ne(self, self).logical_and_(at::cpu::ne(other, other)));
  }
  if (rtol == 0 && atol == 0) return;
  at::Tensor allowed = other.abs().mul(rtol).add(atol), difference = self.sub(other).abs();
  out.logical_or_(at::cpu::le(difference, allowed).logical_and_(at::cpu::ne(difference, std::numeric_limits<double>::infinity())));
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
