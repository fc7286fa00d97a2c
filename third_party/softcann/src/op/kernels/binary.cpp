// Arithmetic of two operands, or of an operand and a number.
#include "op/elementwise.h"
#include "op/fast_path.h"
#include "op/for_types.h"
#include "op/kernels/common.h"
#include "op/simd/float_loops.h"
#include "op/simd/strips.h"
#include "op/scalar.h"

using namespace softcann::op;
namespace fast = softcann::op::fast;

namespace {

constexpr auto plus = [](auto a, auto b) { return a + b; };
constexpr auto minus = [](auto a, auto b) { return a - b; };
constexpr auto times = [](auto a, auto b) { return a * b; };
constexpr auto over = [](auto a, auto b) { return a / b; };
constexpr auto greater_or_nan = [](auto a, auto b) {
  return (b > a) | (b != b) ? b : a;
};  // a NaN in a stays: nothing compares to it
constexpr auto less_or_nan = [](auto a, auto b) { return (b < a) | (b != b) ? b : a; };

bool small_sum(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, const at::Tensor& out, float sign) {
  float factor = 0;
  if (!fast::as_float(alpha, &factor) || !fast::plain_floats(out, self, other)) return false;
  loops::sums(fast::floats(out), fast::floats(self), fast::floats(other), sign * factor, out.numel());
  return true;
}

// ATen's _add_relu has no halves.
void add_relu(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, at::Tensor& out) {
  at::cpu::add_outf(self, other, alpha, out);
  at::relu_(out);
}

// Division of integers is torch's business: it yields a fraction.
enum DivisionMode { true_division = 0, truncated = 1, floored = 2 };
std::optional<c10::string_view> rounding(int mode) {
  switch (mode) {
    case true_division:
      return std::nullopt;
    case truncated:
      return "trunc";
    case floored:
      return "floor";
    default:
      TORCH_CHECK(false, "mode must be 0 (true division), 1 (truncate) or 2 (floor), not ", mode);
  }
}

bool both_bool(const at::Tensor& self, const at::Tensor& other) {
  return self.scalar_type() == at::kBool && other.scalar_type() == at::kBool;
}

// True division yields a fraction, which a result of whole numbers cuts: CANN takes one where the operands are whole.
void quotient(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
  const auto whole = [](at::ScalarType type) { return c10::isIntegralType(type, true); };
  const at::ScalarType type = at::result_type(self, other);
  if (whole(out.scalar_type()) && whole(type) && c10::canCast(type, out.scalar_type())) {
    out.copy_(at::cpu::div(self.to(at::kDouble), other.to(at::kDouble)));  // a float has no room for an int32
  } else {
    at::cpu::div_outf(self, other, out);
  }
}

// A square of 16 bits is a product: ATen has no vectors for their powers.
void power(const at::Tensor& self, const at::Scalar& exponent, at::Tensor& out) {
  const bool square =
      low_precision(self) && out.scalar_type() == self.scalar_type() && !exponent.isComplex() && exponent.toDouble() == 2;
  square ? at::cpu::mul_outf(self, self, out) : at::cpu::pow_outf(self, exponent, out);
}

// One quotient of whole numbers has no place in its type: that of the least one and -1. The CPU's instruction ends the process
// there; negation wraps around, as an NPU does.
void divide(const at::Tensor& self, const at::Tensor& other, int mode, at::Tensor& out) {
  const auto result = out.scalar_type();
  const auto type = result == at::kInt || result == at::kLong ? result : at::result_type(self, other);
  if (mode == truncated && (type == at::kInt || type == at::kLong)) {
    const at::Tensor divisor = other.to(type), negates = divisor.eq(-1);
    if (negates.any().item<bool>()) {
      out.copy_(at::where(negates, self.to(type).neg(), at::div(self, divisor.masked_fill(negates, 1), "trunc")));
      return;
    }
  }
  if (mode != true_division && both_bool(self, other)) {  // as bytes, which ATen divides
    out.copy_(at::div(self.to(at::kByte), other.to(at::kByte), rounding(mode)));
    return;
  }
  if (mode == true_division) return quotient(self, other, out);
  at::cpu::div_outf(self, other, rounding(mode), out);
}

void floor_divide(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
  if (both_bool(self, other)) {
    out.copy_(at::floor_divide(self.to(at::kByte), other.to(at::kByte)));
  } else {
    at::cpu::floor_divide_outf(self, other, out);
  }
}

// The difference of two truth values is true where they differ; ATen has none.
bool subtract_bool(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, const at::Tensor& out) {
  if (!both_bool(self, other)) return false;
  TORCH_CHECK(alpha.isBoolean() || alpha.isIntegral(false), "alpha must be a whole number or a truth value for bool operands");
  out.copy_(alpha.toLong() != 0 ? at::logical_xor(self, other) : self.expand(out.sizes()));
  return true;
}

// ATen shifts no unsigned numbers but bytes. Bits that are shifted out leave 0.
template <class Shift>
bool shift_unsigned(const at::Tensor& self, const at::Tensor& bits, const at::Tensor& out, Shift shift) {
  if (self.scalar_type() != bits.scalar_type() || self.scalar_type() != out.scalar_type()) return false;
  return for_types<uint16_t, uint32_t, uint64_t>(self.scalar_type(), [&](auto tag) {
    using T = decltype(tag);
    constexpr T width = 8 * sizeof(T);
    at::TensorIterator iterator = strips_of(out, self, bits);
    by_strips<T, T, T>(iterator, [&](T* to, const T* x, const T* by, int64_t count) {
      for (int64_t i = 0; i < count; ++i) to[i] = by[i] < width ? static_cast<T>(shift(uint64_t{x[i]}, by[i])) : T{0};
    });
  });
}

// Whole numbers and truth values in the result's type, where no operand has a fraction.
at::Tensor as_fraction(const at::Tensor& self, const at::Tensor& other, const at::Tensor& out) {
  return fractional(out) && !fractional(self) && !fractional(other) ? self.to(low_precision(out) ? at::kFloat : out.scalar_type())
                                                                    : self;
}

}  // namespace

#define COST elementwise(out, self, other)
OP_FULL(aclnnAdd, COST,
        fast::is_one(alpha) ? fast::binary<true>(self, other, out, plus) : small_sum(self, other, alpha, out, 1)) {
  at::cpu::add_outf(self, other, alpha, out);
}
OP_FULL(aclnnSub, COST,
        fast::is_one(alpha) ? fast::binary<true>(self, other, out, minus) : small_sum(self, other, alpha, out, -1)) {
  if (!subtract_bool(self, other, alpha, out)) at::cpu::sub_outf(self, other, alpha, out);
}
OP_FULL(aclnnMul, COST, fast::binary<true>(self, other, out, times)) { at::cpu::mul_outf(self, other, out); }
OP_FULL(aclnnDiv, COST, fast::binary<false>(self, other, out, over)) { quotient(self, other, out); }
OP_COST(aclnnDivMod, COST) { divide(self, other, mode, out); }
// TensorFlow's: quotients cut toward 0 or down, remainders with the dividend's sign, products in which a 0 on the right wins.
OP_COST(aclnnTruncateDiv, elementwise(yOut, x1, x2)) { divide(x1, x2, truncated, writable(yOut)); }
OP_COST(aclnnTruncateMod, elementwise(yOut, x1, x2)) { at::cpu::fmod_outf(x1, x2, writable(yOut)); }
OP_COST(aclnnFloorDiv, elementwise(yOut, x1, x2)) { at::cpu::floor_divide_outf(x1, x2, writable(yOut)); }
OP_COST(aclnnMulNoNan, elementwise(yOut, x1, x2)) { writable(yOut).copy_(at::where(x2 == 0, 0, x1 * x2)); }
OP_COST(aclnnFloorDivide, COST) { floor_divide(self, other, out); }
OP_COST(aclnnRsub, COST) {
  require(out.scalar_type() != at::kBool, out, "sub");
  at::cpu::sub_outf(other, self, alpha, out);
}
OP_COST(aclnnAddRelu, COST) { add_relu(self, other, alpha, out); }
OP_FULL(aclnnMaximum, COST, fast::binary<true>(self, other, out, greater_or_nan)) { at::cpu::maximum_outf(self, other, out); }
OP_FULL(aclnnMinimum, COST, fast::binary<true>(self, other, out, less_or_nan)) { at::cpu::minimum_outf(self, other, out); }
OP_COST(aclnnFmodTensor, COST) { at::cpu::fmod_outf(self, other, out); }
OP_COST(aclnnRemainderTensorTensor, COST) { at::cpu::remainder_outf(self, other, out); }
OP_COST(aclnnAtan2, COST) { at::cpu::atan2_outf(self, other, out); }
OP_COST(aclnnLogAddExp, COST) { at::cpu::logaddexp_outf(as_fraction(self, other, out), other, out); }
OP_COST(aclnnLogAddExp2, COST) { at::cpu::logaddexp2_outf(as_fraction(self, other, out), other, out); }
OP_COST(aclnnGcd, COST) { at::cpu::gcd_outf(self, other, out); }
OP_COST(aclnnXLogYTensor, COST) { at::cpu::xlogy_outf(self, other, out); }
OP(aclnnXlog1py) { at::cpu::special_xlog1py_outf(x, y, z); }
#undef COST

OP_COST(aclnnPowTensorTensor, 4 * elementwise(out, self, exponent)) { at::cpu::pow_outf(self, exponent, out); }
OP_COST(aclnnPow2, 4 * elementwise(out, x1, x2)) { at::cpu::pow_outf(x1, x2, out); }
OP_COST(aclnnHeaviside, elementwise(out, input, values)) { at::cpu::heaviside_outf(input, values, out); }
OP_COST(aclnnLeftShift, elementwise(out, self, shiftBits)) {
  if (!shift_unsigned(self, shiftBits, out, [](auto x, auto bits) { return x << bits; }))
    at::cpu::bitwise_left_shift_outf(self, shiftBits, out);
}
OP_COST(aclnnRightShift, elementwise(out, input, shiftBits)) {
  if (!shift_unsigned(input, shiftBits, out, [](auto x, auto bits) { return x >> bits; }))
    at::cpu::bitwise_right_shift_outf(input, shiftBits, out);
}
OP_COST(aclnnComplex, elementwise(out, real, imag)) { at::cpu::complex_outf(real, imag, out); }
OP_COST(aclnnPolar, 4 * elementwise(out, input, angle)) { at::cpu::polar_outf(input, angle, out); }

// An operand and a number.
#define COST elementwise(out, self)
OP_FULL(aclnnAdds, COST, fast::is_one(alpha) && fast::added(self, other, out, plus)) {
  at::cpu::add_outf(self, wrapped(other, self, out), alpha, out);
}
OP_FULL(aclnnSubs, COST, fast::is_one(alpha) && fast::added(self, other, out, minus)) {
  const at::Tensor& number = wrapped(other, self, out);
  if (subtract_bool(self, number, alpha, out)) return;
  const bool is_bool = self.scalar_type() == at::kBool;  // from which ATen takes no number
  at::cpu::sub_outf(is_bool ? self.to(at::result_type(self, number)) : self, number, alpha, out);
}
OP_FULL(aclnnMuls, COST, fast::with_scalar<true>(self, other, out, times)) {
  at::cpu::mul_outf(self, wrapped(other, self, out), out);
}
OP_FULL(aclnnDivs, COST, fast::with_scalar<false>(self, other, out, over)) { quotient(self, wrapped(other, self, out), out); }
OP_COST(aclnnRsubs, COST) { at::cpu::sub_outf(wrapped(other, self, out), self, alpha, out); }
OP_COST(aclnnDivMods, COST) { divide(self, wrapped(other, self, out), mode, out); }
OP_COST(aclnnFloorDivides, COST) { at::cpu::floor_divide_outf(self, wrapped(other, self, out), out); }
OP_COST(aclnnFmodScalar, COST) { at::cpu::fmod_outf(self, wrapped(other, self, out), out); }
OP_COST(aclnnRemainderTensorScalar, COST) { at::cpu::remainder_outf(self, wrapped(other, self, out), out); }
OP_COST(aclnnXLogYScalarOther, COST) { at::cpu::xlogy_outf(self, wrapped(other, self, out), out); }
OP_COST(aclnnLeftShifts, COST) { at::cpu::bitwise_left_shift_outf(self, wrapped(shiftBits), out); }
OP_COST(aclnnPowTensorScalar, 2 * COST) { power(self, exponent, out); }
#undef COST
OP_COST(aclnnAddV3, elementwise(out, other)) { at::cpu::add_outf(wrapped(self, other, out), other, alpha, out); }
OP_COST(aclnnRemainderScalarTensor, elementwise(out, other)) { at::cpu::remainder_outf(wrapped(self, other, out), other, out); }
OP_COST(aclnnXLogYScalarSelf, elementwise(out, other)) { at::cpu::xlogy_outf(wrapped(self, other, out), other, out); }
OP_COST(aclnnPowScalarTensor, 4 * elementwise(out, exponent)) { at::cpu::pow_outf(self, exponent, out); }

// In place.
#define COST elementwise(selfRef, other)
OP_FULL(aclnnInplaceAdd, COST, fast::is_one(alpha) && fast::binary<true>(selfRef, other, selfRef, plus)) {
  at::cpu::add_outf(selfRef, other, alpha, selfRef);
}
OP_FULL(aclnnInplaceSub, COST, fast::is_one(alpha) && fast::binary<true>(selfRef, other, selfRef, minus)) {
  if (!subtract_bool(selfRef, other, alpha, selfRef)) at::cpu::sub_outf(selfRef, other, alpha, selfRef);
}
OP_FULL(aclnnInplaceMul, COST, fast::binary<true>(selfRef, other, selfRef, times)) { at::cpu::mul_outf(selfRef, other, selfRef); }
OP_FULL(aclnnInplaceDiv, COST, fast::binary<false>(selfRef, other, selfRef, over)) { quotient(selfRef, other, selfRef); }
OP_COST(aclnnInplaceDivMod, COST) { divide(selfRef, other, mode, selfRef); }
OP_COST(aclnnInplaceFloorDivide, COST) { floor_divide(selfRef, other, selfRef); }
OP_COST(aclnnInplaceAddRelu, COST) { add_relu(selfRef, other, alpha, selfRef); }
OP_COST(aclnnInplaceFmodTensor, COST) { at::cpu::fmod_outf(selfRef, other, selfRef); }
OP_COST(aclnnInplaceRemainderTensorTensor, COST) { at::cpu::remainder_outf(selfRef, other, selfRef); }
OP_COST(aclnnInplaceAtan2, COST) { at::cpu::atan2_outf(selfRef, other, selfRef); }
OP_COST(aclnnInplaceXLogYTensor, COST) { at::cpu::xlogy_outf(selfRef, other, selfRef); }
#undef COST
OP_COST(aclnnInplacePowTensorTensor, 4 * elementwise(self, exponent)) { at::cpu::pow_outf(self, exponent, self); }

#define COST elementwise(selfRef)
OP_FULL(aclnnInplaceAdds, COST, fast::is_one(alpha) && fast::added(selfRef, other, selfRef, plus)) {
  at::cpu::add_outf(selfRef, wrapped(other), alpha, selfRef);
}
OP_FULL(aclnnInplaceSubs, COST, fast::is_one(alpha) && fast::added(selfRef, other, selfRef, minus)) {
  at::cpu::sub_outf(selfRef, wrapped(other), alpha, selfRef);
}
OP_FULL(aclnnInplaceMuls, COST, fast::with_scalar<true>(selfRef, other, selfRef, times)) {
  at::cpu::mul_outf(selfRef, wrapped(other), selfRef);
}
OP_FULL(aclnnInplaceDivs, COST, fast::with_scalar<false>(selfRef, other, selfRef, over)) {
  quotient(selfRef, wrapped(other), selfRef);
}
OP_COST(aclnnInplaceDivMods, COST) { divide(selfRef, wrapped(other), mode, selfRef); }
OP_COST(aclnnInplaceFloorDivides, COST) { at::cpu::floor_divide_outf(selfRef, wrapped(other), selfRef); }
OP_COST(aclnnInplaceFmodScalar, COST) { at::cpu::fmod_outf(selfRef, wrapped(other), selfRef); }
OP_COST(aclnnInplaceRemainderTensorScalar, COST) { at::cpu::remainder_outf(selfRef, wrapped(other), selfRef); }
OP_COST(aclnnInplaceXLogYScalarOther, COST) { at::cpu::xlogy_outf(selfRef, wrapped(other), selfRef); }
#undef COST
OP_COST(aclnnInplacePowTensorScalar, 2 * elementwise(self)) { power(self, exponent, writable(self)); }
OP_COST(aclnnInplaceAddV3, elementwise(other)) { at::cpu::add_outf(wrapped(selfRef, other, other), other, alpha, other); }
