// Special functions without an operator in CANN, composed of elementary ones in double or float.
//
// Note [Chebyshev fits]
// Bessel functions and the scaled complementary error function are sums of Chebyshev polynomials whose coefficients are
// computed once, on the host in double, from the C++ library's own functions; the device then runs Clenshaw's recurrence.
#include <cmath>
#include <limits>
#include <numbers>

#include <ATen/Functions.h>

#include "aten/compose.h"
#include "generated/torch_npu_native_functions.h"

namespace torch_npu::native {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
using Coefficients = std::vector<double>;

// Of f on [-1, 1], until they drop below the resolution of double.
template <class Function>
Coefficients chebyshev(const Function& f) {
  constexpr int kNodes = 96;
  std::vector<double> values(kNodes);
  for (int j = 0; j < kNodes; ++j) values[j] = f(std::cos(std::numbers::pi * (j + 0.5) / kNodes));
  Coefficients coefficients;
  double largest = 0;
  for (int k = 0; k < kNodes / 2; ++k) {
    double sum = 0;
    for (int j = 0; j < kNodes; ++j) sum += values[j] * std::cos(std::numbers::pi * k * (j + 0.5) / kNodes);
    coefficients.push_back((k == 0 ? 1.0 : 2.0) / kNodes * sum);
    largest = std::max(largest, std::abs(coefficients.back()));
  }
  while (coefficients.size() > 1 && std::abs(coefficients.back()) < 1e-16 * largest) coefficients.pop_back();
  return coefficients;
}

// Clenshaw; float needs fewer terms.
at::Tensor evaluate(const Coefficients& coefficients, const at::Tensor& t) {
  const double noise = t.scalar_type() == at::kDouble ? 0 : 1e-9;
  size_t last = coefficients.size() - 1;
  while (last > 1 && std::abs(coefficients[last]) < noise * std::abs(coefficients[0])) --last;
  auto next = at::zeros_like(t), after = at::zeros_like(t);
  const auto twice = t.mul(2);
  for (size_t k = last; k > 0; --k) {
    auto current = twice.mul(next).sub_(after).add_(coefficients[k]);
    after = std::move(next);
    next = std::move(current);
  }
  return t.mul(next).sub_(after).add_(coefficients[0]);
}

// exp(-x) I_order(x) / x^order up to 8, and sqrt(x) exp(-x) I_order(x) beyond it as a function of 1/x.
template <int order>
double near_bessel_i(double t) {
  const double x = 4 * (t + 1);
  const double value = x == 0 ? (order == 0 ? 1.0 : 0.5) : std::cyl_bessel_i(double(order), x) / (order == 0 ? 1.0 : x);
  return std::exp(-x) * value;
}
template <int order>
double far_bessel_i(double t) {
  const double x = 16 / (t + 1);
  if (x < 600) return std::sqrt(x) * std::exp(-x) * std::cyl_bessel_i(double(order), x);
  double term = 1, sum = 1;  // its asymptotic series: the library's function would overflow
  for (int k = 1; k < 20; ++k) {
    term *= -(4.0 * order * order - (2 * k - 1) * (2 * k - 1)) / (8 * k * x);
    sum += term;
  }
  return sum / std::sqrt(2 * std::numbers::pi);
}

// exp(-|x|) I_order(x)
template <int order>
at::Tensor scaled_bessel_i(const at::Tensor& x) {
  TORCH_CHECK_NOT_IMPLEMENTED(!x.is_complex(), "\"i", order, "\" not implemented for '", x.scalar_type(), "'");
  static const Coefficients near = chebyshev(near_bessel_i<order>), far = chebyshev(far_bessel_i<order>);
  const auto magnitude = x.abs();
  auto small = evaluate(near, magnitude.clamp_max(8).div_(4).sub_(1));
  const auto beyond = magnitude.clamp_min(8);
  auto large = evaluate(far, beyond.reciprocal().mul_(16).sub_(1)).div_(beyond.sqrt());
  if (order == 1) {
    small.mul_(x);
    large.mul_(x.sign());
  }
  return at::where(magnitude.le(8), small, at::where(x.isnan(), x, large));
}

template <int order>
void bessel_i(const at::Tensor& self, const at::Tensor& out) {
  const auto x = widened(self);
  const auto magnitude = x.abs();
  // In two steps, so that the exponential does not overflow before the product does.
  const auto half = magnitude.div(2).exp_();
  result(out).copy_(scaled_bessel_i<order>(x).mul_(half).mul_(half));
}

// exp(z^2) erfc(z) for z >= 0.
double host_erfcx(double z) {
  const long double x = z;
  if (z < 4) return static_cast<double>(std::exp(x * x) * std::erfc(x));
  long double fraction = x;
  for (int k = 120; k > 0; --k) fraction = x + (k / 2.0L) / fraction;
  return static_cast<double>(1 / (fraction * std::sqrt(std::numbers::pi_v<long double>)));
}

at::Tensor erfcx(const at::Tensor& x) {
  constexpr double kScale = 3.75;
  static const Coefficients fit = chebyshev([](double t) {
    const double z = kScale * (1 + t) / (1 - t);
    return (1 + 2 * z) * host_erfcx(z);
  });
  const auto z = x.abs();
  auto positive =
      evaluate(fit, at::where(z.isinf(), at::full_like(z, 1), z.sub(kScale).div_(z.add(kScale)))).div_(z.mul(2).add_(1));
  const auto negative = z.square().exp_().mul_(2).sub_(positive);
  return at::where(x.lt(0), negative, positive);
}

// Hurwitz zeta by the Euler-Maclaurin formula, in float64: its rising factorials leave float32 soon.
at::Tensor zeta(const at::Tensor& x, const at::Tensor& q) {
  constexpr double kBernoulli[] = {1.0 / 6, -1.0 / 30,     1.0 / 42,      -1.0 / 30,       5.0 / 66,       -691.0 / 2730,
                                   7.0 / 6, -3617.0 / 510, 43867.0 / 798, -174611.0 / 330, 854513.0 / 138, -236364091.0 / 2730};
  const auto exponent = x.neg();
  auto a = q.clone();
  auto power = q.pow(exponent);
  auto sum = power.clone();
  const double lowest = q.numel() == 0 ? 0 : q.nan_to_num().min().item<double>();
  // A very negative q would take that many steps: it gets NaN instead.
  constexpr double kMostSteps = 4096;
  const int64_t steps = lowest < 0 ? static_cast<int64_t>(std::min(10 - std::floor(lowest), kMostSteps)) : 9;
  for (int64_t i = 0; i < steps; ++i) {
    const auto following = a.add(1);
    const auto added = following.pow(exponent);
    if (i < 9) {
      a = following;
      power = added;
      sum = sum.add(added);
    } else {
      const auto short_of_nine = a.le(9);
      a = at::where(short_of_nine, following, a);
      power = at::where(short_of_nine, added, power);
      sum = at::where(short_of_nine, sum.add(added), sum);
    }
  }
  sum = sum.add(power.mul(a).div_(x.sub(1))).sub_(power, 0.5);
  auto rising = x.clone();
  double factorial = 2;
  auto tail = power.div(a);
  const auto inverse_square = a.square().reciprocal_();
  for (int k = 0; k < 12; ++k) {
    // Where the tail is 0, rising may be infinite.
    sum.add_(at::where(tail.eq(0), 0.0, rising.mul(tail)), kBernoulli[k] / factorial);
    rising = rising.mul(x.add(2 * k + 1)).mul_(x.add(2 * k + 2));
    factorial *= (2.0 * k + 3) * (2.0 * k + 4);
    tail = tail.mul(inverse_square);
  }
  // Where, since CANN fills under a mask in float32 at most.
  const auto set = [&sum](const at::Tensor& places, double value) { sum = at::where(places, value, sum); };
  const auto not_positive = q.le(0), whole = q.eq(q.floor());
  set(not_positive.logical_and(whole.logical_not()).logical_and_(x.ne(x.floor())), kNan);
  set(not_positive.logical_and(whole), kInfinity);
  set(q.lt(10 - kMostSteps).logical_and_(whole.logical_not()), kNan);
  set(x.eq(1), kInfinity);
  set(x.lt(1), kNan);
  return sum;
}

at::Tensor trigamma(const at::Tensor& self) {
  constexpr double kPi = std::numbers::pi;
  const auto reflected = self.lt(0.5);
  auto x = at::where(reflected, self.neg().add_(1), self);
  auto sum = at::zeros_like(x);
  for (int i = 0; i < 6; ++i) {
    sum.add_(x.square().reciprocal_());
    x = x.add(1);
  }
  const auto ixx = x.square().reciprocal_();
  const auto series = ixx.div(-42).add_(1.0 / 30).mul_(ixx).neg_().add_(1.0 / 6).mul_(ixx).add_(x.mul(2).reciprocal_()).add_(1);
  sum.add_(series.div(x));
  const auto mirror = self.mul(kPi).sin_().reciprocal_().mul_(kPi).square_();
  return at::where(reflected, mirror.sub(sum), sum);
}

}  // namespace

void i0_kernel(const at::Tensor& self, const at::Tensor& out) { bessel_i<0>(self, out); }
void i1_kernel(const at::Tensor& self, const at::Tensor& out) { bessel_i<1>(self, out); }
void i0e_kernel(const at::Tensor& self, const at::Tensor& out) { result(out).copy_(scaled_bessel_i<0>(widened(self))); }
void i1e_kernel(const at::Tensor& self, const at::Tensor& out) { result(out).copy_(scaled_bessel_i<1>(widened(self))); }

void erfcx_kernel(const at::Tensor& self, const at::Tensor& out) { result(out).copy_(erfcx(widened(self))); }

// log of the normal distribution function: by the tail below -1, where 1 - erfc would lose its digits.
void log_ndtr_kernel(const at::Tensor& self, const at::Tensor& out) {
  const auto x = widened(self);
  TORCH_CHECK_NOT_IMPLEMENTED(!x.is_complex(), "\"log_ndtr\" not implemented for '", x.scalar_type(), "'");
  const auto t = x.mul(1 / std::numbers::sqrt2);
  const auto tail = erfcx(t.neg()).div_(2).log_().sub_(t.square());
  result(out).copy_(at::where(x.lt(-1), tail, t.erfc().mul_(-0.5).log1p_()));
}

void spherical_bessel_j0_kernel(const at::Tensor& self, const at::Tensor& out) {
  const auto x = widened(self);
  const auto square = x.square();
  auto series = at::full_like(x, 1);
  for (const double factor : {-210.0, -156.0, -110.0, -72.0, -42.0, -20.0, -6.0})
    series = series.mul(square).div_(factor).add_(1);
  auto value = at::where(x.abs().lt(0.5), series, x.sin().div_(x));
  result(out).copy_(value.masked_fill_(x.isinf(), 0));
}

void zeta_kernel(const at::Tensor& self, const at::Tensor& other, const at::Tensor& out) {
  const auto [x, q] = widened(self, other, out);
  TORCH_CHECK_NOT_IMPLEMENTED(!x.is_complex(), "\"zeta\" not implemented for '", x.scalar_type(), "'");
  result(out).copy_(zeta(x.to(at::kDouble).expand(out.sizes()), q.to(at::kDouble).expand(out.sizes())));
}

void xlog1py_kernel(const at::Tensor& self, const at::Tensor& other, const at::Tensor& out) {
  const auto [x, y] = widened(self, other, out);
  result(out).copy_(at::where(x.eq(0).logical_and(y.isnan().logical_not()), 0, x.mul(y.log1p())));
}

void polygamma_kernel(int64_t n, const at::Tensor& self, const at::Tensor& out) {
  const auto x = widened(self);
  if (n == 0) {
    result(out).copy_(x.digamma());
  } else if (n == 1) {
    result(out).copy_(trigamma(x));
  } else {
    const double scale = (n % 2 ? 1 : -1) * std::exp(std::lgamma(static_cast<double>(n) + 1));
    const auto wide = x.to(at::kDouble);
    result(out).copy_(zeta(at::full_like(wide, static_cast<double>(n + 1)), wide).mul_(scale));
  }
}

at::Tensor& mvlgamma_out(const at::Tensor& self, int64_t p, at::Tensor& out) {
  const auto value = self.mvlgamma(p);
  TORCH_CHECK(c10::canCast(value.scalar_type(), out.scalar_type()), "mvlgamma: result type ", value.scalar_type(),
              " can't be cast to the desired output type ", out.scalar_type());
  return give(out, value);
}

}  // namespace torch_npu::native
