// Operators that clients name: one element at a time.
#include <cmath>
#include <limits>

#include "op/kernels/common.h"
#include "op/named.h"

using namespace softcann::op;

// Of any type of numbers.
NAMED(Abs) { put(call.out(0), at::abs(call.in(0))); }
NAMED(Neg) { put(call.out(0), at::neg(call.in(0))); }
NAMED(Add) { put(call.out(0), at::add(call.in(0), call.in(1))); }
NAMED(Sub) { put(call.out(0), at::sub(call.in(0), call.in(1))); }
NAMED(Mul) { put(call.out(0), at::mul(call.in(0), call.in(1))); }
NAMED(Maximum) { put(call.out(0), at::maximum(call.in(0), call.in(1))); }
NAMED(Minimum) { put(call.out(0), at::minimum(call.in(0), call.in(1))); }
NAMED(Pow) { put(call.out(0), at::pow(call.in(0), call.in(1))); }

// Of floating point numbers, computed in float.
NAMED(Floor) { put(call.out(0), at::floor(widened(call.in(0)))); }
NAMED(Ceil) { put(call.out(0), at::ceil(widened(call.in(0)))); }
NAMED(Round) { put(call.out(0), at::round(widened(call.in(0)))); }
NAMED(Reciprocal) { put(call.out(0), at::reciprocal(widened(call.in(0)))); }
NAMED(Sqrt) { put(call.out(0), at::sqrt(widened(call.in(0)))); }
NAMED(Rsqrt) { put(call.out(0), at::rsqrt(widened(call.in(0)))); }
NAMED(Erf) { put(call.out(0), at::erf(widened(call.in(0)))); }
NAMED(Sin) { put(call.out(0), at::sin(widened(call.in(0)))); }
NAMED(Cos) { put(call.out(0), at::cos(widened(call.in(0)))); }
NAMED(Tanh) { put(call.out(0), at::tanh(widened(call.in(0)))); }
NAMED(Sigmoid) { put(call.out(0), at::sigmoid(widened(call.in(0)))); }
NAMED(Div) {
  TORCH_CHECK(call.in(0).is_floating_point(), "integers are not supported");
  put(call.out(0), at::div(widened(call.in(0)), widened(call.in(1))));
}
// base ^ (scale x + shift), and the logarithm of scale x + shift. A base of -1 stands for e.
NAMED(Exp) {
  const at::Tensor x = widened(call.in(0)) * call.attribute("scale", 1.0F) + call.attribute("shift", 0.0F);
  const float base = call.attribute("base", -1.0F);
  TORCH_CHECK(base == -1 || base > 0, "base ", base, " is neither -1 nor positive");
  put(call.out(0), base == -1 ? at::exp(x) : at::exp(x * std::log(base)));
}
NAMED(Log) {
  const at::Tensor x = widened(call.in(0)) * call.attribute("scale", 1.0F) + call.attribute("shift", 0.0F);
  const float base = call.attribute("base", -1.0F);
  TORCH_CHECK(base == -1 || base > 0, "base ", base, " is neither -1 nor positive");
  put(call.out(0), base == -1 ? at::log(x) : at::log(x) / std::log(base));
}

// Comparisons and logic.
NAMED(Equal) { put(call.out(0), at::eq(call.in(0), call.in(1))); }
NAMED(NotEqual) { put(call.out(0), at::ne(call.in(0), call.in(1))); }
NAMED(Greater) { put(call.out(0), at::gt(call.in(0), call.in(1))); }
NAMED(GreaterEqual) { put(call.out(0), at::ge(call.in(0), call.in(1))); }
NAMED(Less) { put(call.out(0), at::lt(call.in(0), call.in(1))); }
NAMED(LessEqual) { put(call.out(0), at::le(call.in(0), call.in(1))); }
NAMED(LogicalNot) { put(call.out(0), at::logical_not(call.in(0))); }
NAMED(LogicalAnd) { put(call.out(0), at::logical_and(call.in(0), call.in(1))); }
NAMED(LogicalOr) { put(call.out(0), at::logical_or(call.in(0), call.in(1))); }
NAMED(BitwiseAnd) { put(call.out(0), at::bitwise_and(call.in(0), call.in(1))); }
NAMED(BitwiseOr) { put(call.out(0), at::bitwise_or(call.in(0), call.in(1))); }
NAMED(BitwiseXor) { put(call.out(0), at::bitwise_xor(call.in(0), call.in(1))); }
NAMED(Invert) { put(call.out(0), at::bitwise_not(call.in(0))); }
NAMED(IsFinite) { put(call.out(0), at::isfinite(call.in(0))); }

// Of any type of numbers.
NAMED(Sign) { put(call.out(0), at::sgn(call.in(0))); }
NAMED(Square) { put(call.out(0), at::square(call.in(0))); }
NAMED(FloorMod) { put(call.out(0), at::remainder(call.in(0), call.in(1))); }
NAMED(Mod) { put(call.out(0), at::fmod(call.in(0), call.in(1))); }
NAMED(FloorDiv) { put(call.out(0), at::div(call.in(0), call.in(1), "floor")); }
NAMED(RealDiv) { put(call.out(0), at::div(widened(call.in(0)), widened(call.in(1)))); }
NAMED(Addcmul) { put(call.out(0), call.in(0) + call.in(3) * call.in(1) * call.in(2)); }
NAMED(AxpyV2) { put(call.out(0), call.in(0) + call.in(2) * call.in(1)); }
NAMED(Select) { put(call.out(0), at::where(call.in(0), call.in(1), call.in(2))); }
NAMED(MaskedFill) { put(call.out(0), call.in(0).masked_fill(call.in(1), call.in(2).reshape({}).to(call.in(0).scalar_type()))); }
NAMED(ClipByValue) { put(call.out(0), at::minimum(at::maximum(call.in(0), call.in(1)), call.in(2))); }
NAMED(ClipByValueV2) { put(call.out(0), at::minimum(at::maximum(call.in(0), call.in(1)), call.in(2))); }

// Of floating point numbers, computed in float.
NAMED(Acos) { put(call.out(0), at::acos(widened(call.in(0)))); }
NAMED(Acosh) { put(call.out(0), at::acosh(widened(call.in(0)))); }
NAMED(Asin) { put(call.out(0), at::asin(widened(call.in(0)))); }
NAMED(Asinh) { put(call.out(0), at::asinh(widened(call.in(0)))); }
NAMED(Atan) { put(call.out(0), at::atan(widened(call.in(0)))); }
NAMED(Atanh) { put(call.out(0), at::atanh(widened(call.in(0)))); }
NAMED(Atan2) { put(call.out(0), at::atan2(widened(call.in(0)), widened(call.in(1)))); }
NAMED(Sinh) { put(call.out(0), at::sinh(widened(call.in(0)))); }
NAMED(Cosh) { put(call.out(0), at::cosh(widened(call.in(0)))); }
NAMED(Tan) { put(call.out(0), at::tan(widened(call.in(0)))); }
NAMED(Trunc) { put(call.out(0), at::trunc(widened(call.in(0)))); }
NAMED(Expm1) { put(call.out(0), at::expm1(widened(call.in(0)))); }
NAMED(Log1p) { put(call.out(0), at::log1p(widened(call.in(0)))); }
NAMED(Erfc) { put(call.out(0), at::erfc(widened(call.in(0)))); }
NAMED(Erfinv) { put(call.out(0), at::erfinv(widened(call.in(0)))); }
NAMED(Xlogy) { put(call.out(0), at::xlogy(widened(call.in(0)), widened(call.in(1)))); }
NAMED(LogAddExp) {
  const float base = call.attribute("base", -1.0F);
  TORCH_CHECK(base == -1 || base == 2, "base ", base, " is neither -1, which stands for e, nor 2");
  TORCH_CHECK(call.attribute("scale", 1.0F) == 1 && call.attribute("shift", 0.0F) == 0, "scale and shift are not supported");
  const at::Tensor a = widened(call.in(0)), b = widened(call.in(1));
  put(call.out(0), base == 2 ? at::logaddexp2(a, b) : at::logaddexp(a, b));
}
NAMED(Addcdiv) { put(call.out(0), widened(call.in(0)) + widened(call.in(3)) * widened(call.in(1)) / widened(call.in(2))); }
NAMED(Lerp) {
  const at::Tensor from = widened(call.in(0));
  put(call.out(0), from + widened(call.in(2)) * (widened(call.in(1)) - from));
}
// Between types, and to and from internal formats and within them; formats of one layout are libascendcl's.
NAMED(Identity) { put(call.out(0), call.in(0)); }
NAMED(TransData) { put(call.out(0), call.in(0)); }
NAMED(Cast) { put(call.out(0), call.in(0)); }

NAMED(LeftShift) { put(call.out(0), at::bitwise_left_shift(call.in(0), call.in(1))); }
NAMED(RightShift) { put(call.out(0), at::bitwise_right_shift(call.in(0), call.in(1))); }
NAMED(IsClose) {
  put(call.out(0), at::isclose(call.in(0), call.in(1), call.attribute("rtol", 1e-5F), call.attribute("atol", 1e-8F),
                               call.attribute("equal_nan", false)));
}
NAMED(TensorEqual) {
  put_reshaped(call.out(0),
               at::scalar_tensor(call.in(0).sizes() == call.in(1).sizes() && at::equal(call.in(0), call.in(1)), at::kBool));
}
NAMED(NanToNum) {
  put(call.out(0),
      at::nan_to_num(call.in(0), call.attribute("nan", 0.0F), call.attribute("posinf", std::numeric_limits<float>::max()),
                     call.attribute("neginf", std::numeric_limits<float>::lowest())));
}
