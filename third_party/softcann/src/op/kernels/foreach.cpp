// One operator over lists of tensors. One task for the list; each tensor takes the fast path of the single operator.
#include <ATen/ops/copy_compositeexplicitautograd_dispatch.h>

#include <algorithm>
#include <limits>

#include "op/fast_path.h"
#include "op/simd/float_loops.h"
#include "op/kernel.h"
#include "op/scalar.h"
#include "op/simd/thresholds.h"
#include "op/small_unary.h"

using namespace softcann::op;
namespace fast = softcann::op::fast;

namespace {

constexpr auto plus = [](auto a, auto b) { return a + b; };
constexpr auto minus = [](auto a, auto b) { return a - b; };
constexpr auto times = [](auto a, auto b) { return a * b; };
constexpr auto over = [](auto a, auto b) { return a / b; };
constexpr auto negated = [](auto x) { return -x; };
constexpr auto inverse = [](auto x) { return decltype(x)(1) / x; };

// The list's i-th tensor, after a check that it has as many as the others, and all of them.
void check_lengths(at::TensorList list, size_t length) {
  TORCH_CHECK(list.size() == length, "the lists have ", length, " and ", list.size(), " tensors");
  for (const at::Tensor& tensor : list) TORCH_CHECK(tensor.defined(), "a tensor of a list is null");
}
at::Tensor& place(at::TensorList list, size_t i) { return const_cast<at::Tensor&>(list[i]); }
at::Scalar number(const at::Tensor& one) {
  TORCH_CHECK(one.numel() == 1, "one number is expected, not ", one.sizes());
  return at::cpu::_local_scalar_dense(one);
}

// loop(out, in..., count) over few float32 without gaps; false for other tensors. Setting up an iterator for each of a model's
// many small tensors takes longer than the arithmetic; of large ones, ATen's loops are the faster (docs/vectorization.md).
template <class Loop, class... In>
bool floats(const at::Tensor& out, Loop&& loop, const In&... in) {
  if (!fast::plain_floats_to(threshold::foreach_elements, out, in...)) return false;
  loop(fast::floats(out), fast::floats(in)..., out.numel());
  return true;
}
using Of1 = void(float*, const float*, float, int64_t);
using Of2 = void(float*, const float*, const float*, float, int64_t);
using Of3 = void(float*, const float*, const float*, const float*, float, int64_t);
bool floats(Of1& loop, const at::Tensor& a, const at::Scalar& value, const at::Tensor& out) {
  float number = 0;
  return fast::as_float(value, &number) && floats(out, [&](float* to, const float* x, int64_t n) { loop(to, x, number, n); }, a);
}
bool floats(Of2& loop, const at::Tensor& a, const at::Tensor& b, const at::Scalar& value, const at::Tensor& out, float sign = 1) {
  float number = 0;
  return fast::as_float(value, &number) &&
         floats(out, [&](float* to, const float* x, const float* y, int64_t n) { loop(to, x, y, sign * number, n); }, a, b);
}
bool floats(Of3& loop, const at::Tensor& a, const at::Tensor& b, const at::Tensor& c, const at::Scalar& value,
            const at::Tensor& out) {
  float number = 0;
  return fast::as_float(value, &number) &&
         floats(
             out, [&](float* to, const float* x, const float* y, const float* z, int64_t n) { loop(to, x, y, z, number, n); }, a,
             b, c);
}

void add(const at::Tensor& a, const at::Tensor& b, const at::Scalar& alpha, at::Tensor& out) {
  if (floats(loops::sums, a, b, alpha, out)) return;
  if (!(fast::is_one(alpha) && fast::binary<true>(a, b, out, plus))) at::cpu::add_outf(a, b, alpha, out);
}
void sub(const at::Tensor& a, const at::Tensor& b, const at::Scalar& alpha, at::Tensor& out) {
  if (floats(loops::sums, a, b, alpha, out, -1)) return;
  if (!(fast::is_one(alpha) && fast::binary<true>(a, b, out, minus))) at::cpu::sub_outf(a, b, alpha, out);
}
void mul(const at::Tensor& a, const at::Tensor& b, at::Tensor& out) {
  if (!floats(out, loops::products, a, b) && !fast::binary<true>(a, b, out, times)) at::cpu::mul_outf(a, b, out);
}
void div(const at::Tensor& a, const at::Tensor& b, at::Tensor& out) {
  if (!floats(out, loops::quotients, a, b) && !fast::binary<false>(a, b, out, over)) at::cpu::div_outf(a, b, out);
}
void add(const at::Tensor& a, const at::Scalar& b, at::Tensor& out) {
  if (!floats(loops::plus, a, b, out) && !fast::added(a, b, out, plus)) at::cpu::add_outf(a, wrapped(b, a, out), 1, out);
}
void sub(const at::Tensor& a, const at::Scalar& b, at::Tensor& out) {
  if (!fast::added(a, b, out, minus)) at::cpu::sub_outf(a, wrapped(b, a, out), 1, out);
}
void mul(const at::Tensor& a, const at::Scalar& b, at::Tensor& out) {
  if (!floats(loops::times, a, b, out) && !fast::with_scalar<true>(a, b, out, times))
    at::cpu::mul_outf(a, wrapped(b, a, out), out);
}
void div(const at::Tensor& a, const at::Scalar& b, at::Tensor& out) {
  if (!floats(loops::over, a, b, out) && !fast::with_scalar<false>(a, b, out, over))
    at::cpu::div_outf(a, wrapped(b, a, out), out);
}
void addcmul(const at::Tensor& self, const at::Tensor& a, const at::Tensor& b, const at::Scalar& value, at::Tensor& out) {
  if (!floats(loops::add_products, self, a, b, value, out)) at::cpu::addcmul_outf(self, a, b, value, out);
}
void addcdiv(const at::Tensor& self, const at::Tensor& a, const at::Tensor& b, const at::Scalar& value, at::Tensor& out) {
  if (!floats(loops::add_quotients, self, a, b, value, out)) at::cpu::addcdiv_outf(self, a, b, value, out);
}
void lerp(const at::Tensor& from, const at::Tensor& to, const at::Scalar& weight, at::Tensor& out) {
  if (!floats(loops::mix, from, to, weight, out)) at::cpu::lerp_outf(from, to, weight, out);
}
void sqrt(const at::Tensor& a, at::Tensor& out) {
  if (!small_unary(at::native::sqrt_stub, a, out)) at::cpu::sqrt_outf(a, out);
}
// Nanoseconds for lists of which each has as many tensors of the same sizes as `out`. What fits the caches is not waited for.
template <class... Lists>
double loops_cost(at::TensorList out, const Lists&...) {
  constexpr double ns_per_byte = 0.1, ns_per_cached_byte = 0.016, cached = 1 << 20;
  const double ns_per_tensor =
      out.empty() || out[0].scalar_type() == at::kFloat ? 50 : 500;  // other types take an iterator, if not few
  double bytes = 0;
  for (const at::Tensor& tensor : out) {
    if (tensor.defined())
      bytes += static_cast<double>(tensor.unsafeGetTensorImpl()->numel() * static_cast<int64_t>(tensor.itemsize()));
  }
  bytes *= 1 + sizeof...(Lists);
  return ns_per_tensor * static_cast<double>(out.size()) + ns_per_cached_byte * std::min(bytes, cached) +
         ns_per_byte * std::max(bytes - cached, 0.0);
}

void maximum(const at::Tensor& a, const at::Tensor& b, at::Tensor& out) { at::cpu::maximum_outf(a, b, out); }
void minimum(const at::Tensor& a, const at::Tensor& b, at::Tensor& out) { at::cpu::minimum_outf(a, b, out); }
void maximum(const at::Tensor& a, const at::Scalar& b, at::Tensor& out) { at::cpu::clamp_min_outf(a, b, out); }
void minimum(const at::Tensor& a, const at::Scalar& b, at::Tensor& out) { at::cpu::clamp_max_outf(a, b, out); }
void pow(const at::Tensor& a, const at::Tensor& b, at::Tensor& out) { at::cpu::pow_outf(a, b, out); }
void pow(const at::Tensor& a, const at::Scalar& b, at::Tensor& out) { at::cpu::pow_outf(a, b, out); }
void neg(const at::Tensor& a, at::Tensor& out) {
  if (!fast::unary<true>(a, out, negated)) at::cpu::neg_outf(a, out);
}
void reciprocal(const at::Tensor& a, at::Tensor& out) {
  if (!fast::unary<false>(a, out, inverse)) at::cpu::reciprocal_outf(a, out);
}
void copy(const at::Tensor& from, at::Tensor& to) {
  if (!fast::copy(to, from)) at::compositeexplicitautograd::copy_(to, from);
}

template <class F>
void each(at::TensorList x, at::TensorList out, F&& f) {
  check_lengths(x, x.size());
  check_lengths(out, x.size());
  for (size_t i = 0; i < x.size(); ++i) f(x[i], place(out, i));
}
template <class F>
void each(at::TensorList x1, at::TensorList x2, at::TensorList out, F&& f) {
  check_lengths(x1, x2.size());
  check_lengths(x2, x1.size());
  check_lengths(out, x1.size());
  for (size_t i = 0; i < x1.size(); ++i) f(x1[i], x2[i], place(out, i));
}
template <class F>
void each(at::TensorList x, c10::ArrayRef<at::Scalar> scalars, at::TensorList out, F&& f) {
  check_lengths(x, scalars.size());
  check_lengths(out, x.size());
  for (size_t i = 0; i < x.size(); ++i) f(x[i], scalars[i], place(out, i));
}

}  // namespace

// Functions of one tensor.
#define FOREACH_UNARY(NAME, FUNCTION)                                                                 \
  OP(aclnnForeach##NAME) {                                                                            \
    each(x, out, [](const at::Tensor& from, at::Tensor& to) { at::cpu::FUNCTION##_outf(from, to); }); \
  }
FOREACH_UNARY(Abs, abs)
FOREACH_UNARY(Acos, acos)
FOREACH_UNARY(Asin, asin)
FOREACH_UNARY(Atan, atan)
FOREACH_UNARY(Cos, cos)
FOREACH_UNARY(Cosh, cosh)
FOREACH_UNARY(Erf, erf)
FOREACH_UNARY(Erfc, erfc)
// Of whole numbers cut to whole ones, and to the greatest.
OP(aclnnForeachExp) {
  each(x, out, [](const at::Tensor& from, at::Tensor& to) {
    const bool cut =
        from.scalar_type() == to.scalar_type() && for_types<uint8_t, int8_t, int16_t>(to.scalar_type(), [&](auto most) {
          to.copy_(from.to(at::kFloat).exp_().clamp_max_(std::numeric_limits<decltype(most)>::max()));
        });
    if (!cut) at::cpu::exp_outf(from, to);
  });
}
FOREACH_UNARY(Expm1, expm1)
FOREACH_UNARY(Log, log)
FOREACH_UNARY(Log10, log10)
FOREACH_UNARY(Log1p, log1p)
FOREACH_UNARY(Log2, log2)
FOREACH_UNARY(Sigmoid, sigmoid)
FOREACH_UNARY(Sign, sgn)
FOREACH_UNARY(Sin, sin)
FOREACH_UNARY(Sinh, sinh)
FOREACH_UNARY(Tan, tan)
FOREACH_UNARY(Tanh, tanh)
OP_COST(aclnnForeachSqrt, loops_cost(out, x)) {
  each(x, out, [](auto& from, auto& to) { sqrt(from, to); });
}
OP(aclnnForeachNeg) {
  each(x, out, [](auto& from, auto& to) { neg(from, to); });
}
OP(aclnnForeachReciprocal) {
  each(x, out, [](auto& from, auto& to) { reciprocal(from, to); });
}
OP_COST(aclnnForeachCopy, loops_cost(out, x)) {
  each(x, out, [](auto& from, auto& to) { copy(from, to); });
}
OP_COST(aclnnForeachZeroInplace, loops_cost(x)) {
  check_lengths(x, x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    if (!fast::zero(x[i])) at::cpu::zero_(place(x, i));
  }
}

// With a list, with one number for all (in a tensor, or V2: in a scalar), with a number for each.
#define FOREACH_SCALARS(DEFINE, NAME, FUNCTION)                                                  \
  DEFINE(aclnnForeach##NAME##Scalar, loops_cost(out, x)) {                                       \
    const at::Scalar value = number(scalar);                                                     \
    each(x, out, [&](auto& from, auto& to) { FUNCTION(from, value, to); });                      \
  }                                                                                              \
  DEFINE(aclnnForeach##NAME##ScalarV2, loops_cost(out, x)) {                                     \
    each(x, out, [&](auto& from, auto& to) { FUNCTION(from, scalar, to); });                     \
  }                                                                                              \
  DEFINE(aclnnForeach##NAME##ScalarList, loops_cost(out, x)) {                                   \
    each(x, scalars, out, [](auto& from, auto& value, auto& to) { FUNCTION(from, value, to); }); \
  }
#define FOREACH_LIST(DEFINE, NAME, FUNCTION)                                   \
  DEFINE(aclnnForeach##NAME##List, loops_cost(out, x1, x2)) {                  \
    each(x1, x2, out, [](auto& a, auto& b, auto& to) { FUNCTION(a, b, to); }); \
  }
#define BY_ATEN(NAME, ...) OP(NAME)  // with an iterator for each tensor, at the default cost
FOREACH_SCALARS(OP_COST, Add, add)
FOREACH_SCALARS(OP_COST, Sub, sub)
FOREACH_SCALARS(OP_COST, Mul, mul)
FOREACH_SCALARS(OP_COST, Div, div)
FOREACH_SCALARS(BY_ATEN, Maximum, maximum)
FOREACH_SCALARS(BY_ATEN, Minimum, minimum)
FOREACH_SCALARS(BY_ATEN, Pow, pow)
FOREACH_LIST(OP_COST, Mul, mul)
FOREACH_LIST(OP_COST, Div, div)
FOREACH_LIST(BY_ATEN, Maximum, maximum)
FOREACH_LIST(BY_ATEN, Minimum, minimum)
FOREACH_LIST(BY_ATEN, Pow, pow)
OP_COST(aclnnForeachAddList, loops_cost(out, x1, x2)) {
  const at::Scalar factor = number(alpha);
  each(x1, x2, out, [&](auto& a, auto& b, auto& to) { add(a, b, factor, to); });
}
OP_COST(aclnnForeachAddListV2, loops_cost(out, x1, x2)) {
  each(x1, x2, out, [&](auto& a, auto& b, auto& to) { add(a, b, alpha, to); });
}
OP_COST(aclnnForeachSubList, loops_cost(out, x1, x2)) {
  const at::Scalar factor = number(alpha);
  each(x1, x2, out, [&](auto& a, auto& b, auto& to) { sub(a, b, factor, to); });
}
OP_COST(aclnnForeachSubListV2, loops_cost(out, x1, x2)) {
  each(x1, x2, out, [&](auto& a, auto& b, auto& to) { sub(a, b, alpha, to); });
}
OP_COST(aclnnForeachAddListInplace, loops_cost(x1, x2)) {
  const at::Scalar factor = number(alpha);
  each(x1, x2, x1, [&](auto& a, auto& b, auto& to) { add(a, b, factor, to); });
}
OP_COST(aclnnForeachSubListInplace, loops_cost(x1, x2)) {
  const at::Scalar factor = number(alpha);
  each(x1, x2, x1, [&](auto& a, auto& b, auto& to) { sub(a, b, factor, to); });
}
OP_COST(aclnnForeachMulListInplace, loops_cost(x1, x2)) {
  each(x1, x2, x1, [](auto& a, auto& b, auto& to) { mul(a, b, to); });
}
OP_COST(aclnnForeachDivListInplace, loops_cost(x1, x2)) {
  each(x1, x2, x1, [](auto& a, auto& b, auto& to) { div(a, b, to); });
}
OP_COST(aclnnForeachMulScalarInplace, loops_cost(x)) {
  const at::Scalar value = number(scalar);
  each(x, x, [&](auto& from, auto& to) { mul(from, value, to); });
}
OP_COST(aclnnForeachSubScalarInplace, loops_cost(x)) {
  const at::Scalar value = number(scalar);
  each(x, x, [&](auto& from, auto& to) { sub(from, value, to); });
}
OP(aclnnForeachLogInplace) {
  each(x, x, [](auto& from, auto& to) { at::cpu::log_outf(from, to); });
}
OP(aclnnForeachACosInplace) {
  each(x, x, [](auto& from, auto& to) { at::cpu::acos_outf(from, to); });
}
OP(aclnnForeachPowScalarAndTensor) {
  each(x, out, [&](auto& exponent, auto& to) { at::cpu::pow_outf(scalar, exponent, to); });
}

// x1 + value * x2 (times or over) x3.
#define FOREACH_ADDC(NAME, FUNCTION)                                                                                       \
  OP_COST(aclnnForeach##NAME##ScalarV2, loops_cost(out, x1, x2, x3)) {                                                     \
    check_lengths(x3, x1.size());                                                                                          \
    size_t i = 0;                                                                                                          \
    each(x1, x2, out, [&](auto& a, auto& b, auto& to) { FUNCTION(a, b, x3[i++], scalar, to); });                           \
  }                                                                                                                        \
  OP_COST(aclnnForeach##NAME##Scalar, loops_cost(out, x1, x2, x3)) {                                                       \
    check_lengths(x3, x1.size());                                                                                          \
    const at::Scalar value = number(scalar);                                                                               \
    size_t i = 0;                                                                                                          \
    each(x1, x2, out, [&](auto& a, auto& b, auto& to) { FUNCTION(a, b, x3[i++], value, to); });                            \
  }                                                                                                                        \
  OP_COST(aclnnForeach##NAME##ScalarList, loops_cost(out, x1, x2, x3)) { addc_list(x1, x2, x3, scalars, out, &FUNCTION); } \
  OP_COST(aclnnForeach##NAME##List, loops_cost(out, x1, x2, x3)) { addc_list(x1, x2, x3, scalars, out, &FUNCTION); }

namespace {
using Addc = void (*)(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Scalar&, at::Tensor&);
// The numbers come as one tensor with an element for each.
void addc_list(at::TensorList x1, at::TensorList x2, at::TensorList x3, const at::Tensor& scalars, at::TensorList out,
               Addc function) {
  check_lengths(x3, x1.size());
  check_lengths(x1, static_cast<size_t>(scalars.numel()));
  const at::Tensor values = scalars.to(at::kDouble).contiguous();
  const double* value = values.const_data_ptr<double>();
  size_t i = 0;
  each(x1, x2, out, [&](auto& a, auto& b, auto& to) {
    function(a, b, x3[i], value[i], to);
    ++i;
  });
}
}  // namespace
FOREACH_ADDC(Addcmul, addcmul)
FOREACH_ADDC(Addcdiv, addcdiv)

OP_COST(aclnnForeachLerpScalar, loops_cost(out, x1, x2)) {
  each(x1, x2, out, [&](auto& a, auto& b, auto& to) { lerp(a, b, weight, to); });
}
OP(aclnnForeachLerpList) {
  check_lengths(weight, x1.size());
  size_t i = 0;
  each(x1, x2, out, [&](auto& a, auto& b, auto& to) { at::cpu::lerp_outf(a, b, weight[i++], to); });
}
OP(aclnnForeachNorm) {
  each(x, out,
       [&](auto& from, auto& to) { at::cpu::linalg_vector_norm_outf(from, scalar, std::nullopt, false, to.scalar_type(), to); });
}

namespace {
void round_off(at::TensorList x, int64_t mode, at::TensorList out) {
  each(x, out, [&](const at::Tensor& from, at::Tensor& to) {
    switch (mode) {
      case 1:
        at::cpu::round_outf(from, to);
        return;
      case 2:
        at::cpu::floor_outf(from, to);
        return;
      case 3:
        at::cpu::ceil_outf(from, to);
        return;
      case 5:
        at::cpu::trunc_outf(from, to);
        return;
      case 7:
        at::cpu::frac_outf(from, to);
        return;
      case 4: {  // halves away from zero; of the fraction, for a sum with a half is rounded itself
        const at::Tensor whole = at::cpu::trunc(from);
        to.copy_(whole + (from - whole).abs().ge(0.5) * at::cpu::sgn(from));
        return;
      }
      default:
        TORCH_CHECK(false, "roundMode ", mode, " is not supported");
    }
  });
}
}  // namespace
OP(aclnnForeachRoundOffNumber) { round_off(x, number(roundMode).toLong(), out); }
OP(aclnnForeachRoundOffNumberV2) { round_off(x, roundMode.toLong(), out); }

OP(aclnnForeachNonFiniteCheckAndUnscale) {
  check_lengths(scaledGrads, scaledGrads.size());
  at::cpu::_amp_foreach_non_finite_check_and_unscale_(scaledGrads, foundInf, invScale);
}
