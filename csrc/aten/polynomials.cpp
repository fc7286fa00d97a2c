// Orthogonal polynomials by their three-term recurrences. The degree is a tensor: the host asks for the largest one.
#include <cmath>

#include <ATen/Functions.h>

#include "aten/compose.h"
#include "generated/torch_npu_native_functions.h"

namespace torch_npu::native {
namespace {

using at::Tensor;

// P_0 = 1, P_1 = first(x), P_k = next(k, P_{k-1}, P_{k-2}); 0 for a degree that is negative or NaN.
template <class First, class Next>
void recur(const Tensor& self, const Tensor& degree, const Tensor& out, const First& first, const Next& next) {
  const auto [narrow_x, wide_n] = widened(self, degree, out);
  const auto x = narrow_x.expand(out.sizes()), n = wide_n.expand(out.sizes()).trunc();
  auto value = at::where(n.ge(0), at::full_like(x, 1), at::zeros_like(x));
  if (out.numel() != 0) {
    const double largest = n.nan_to_num().max().template item<double>();
    TORCH_CHECK(largest < 65536, "a polynomial of degree ", largest, " is not supported on the NPU; the largest degree is 65535");
    auto before = at::full_like(x, 1), current = first(x);
    value = at::where(n.eq(1), current, value);
    for (int64_t k = 2; k <= static_cast<int64_t>(largest); ++k) {
      auto following = next(x, static_cast<double>(k), current, before);
      before = std::move(current);
      current = std::move(following);
      value = at::where(n.eq(k), current, value);
    }
  }
  result(out).copy_(value);
}

// Chebyshev polynomials of the four kinds differ in the first one only.
template <class First>
void chebyshev(const Tensor& x, const Tensor& n, const Tensor& out, const First& first) {
  recur(x, n, out, first, [](const Tensor& x, double, const Tensor& p, const Tensor& q) { return x.mul(2).mul_(p).sub_(q); });
}
Tensor shifted(const Tensor& x) { return x.mul(2).sub_(1); }
template <class First>
void shifted_chebyshev(const Tensor& x, const Tensor& n, const Tensor& out, const First& first) {
  recur(
      x, n, out, [&](const Tensor& x) { return first(shifted(x)); },
      [](const Tensor& x, double, const Tensor& p, const Tensor& q) { return shifted(x).mul_(2).mul_(p).sub_(q); });
}

constexpr auto t_first = [](const Tensor& x) { return x.clone(); };
constexpr auto u_first = [](const Tensor& x) { return x.mul(2); };
constexpr auto v_first = [](const Tensor& x) { return x.mul(2).sub_(1); };
constexpr auto w_first = [](const Tensor& x) { return x.mul(2).add_(1); };

}  // namespace

void chebyshev_polynomial_t_kernel(const Tensor& x, const Tensor& n, const Tensor& out) { chebyshev(x, n, out, t_first); }
void chebyshev_polynomial_u_kernel(const Tensor& x, const Tensor& n, const Tensor& out) { chebyshev(x, n, out, u_first); }
void chebyshev_polynomial_v_kernel(const Tensor& x, const Tensor& n, const Tensor& out) { chebyshev(x, n, out, v_first); }
void chebyshev_polynomial_w_kernel(const Tensor& x, const Tensor& n, const Tensor& out) { chebyshev(x, n, out, w_first); }
void shifted_chebyshev_polynomial_t_kernel(const Tensor& x, const Tensor& n, const Tensor& out) {
  shifted_chebyshev(x, n, out, t_first);
}
void shifted_chebyshev_polynomial_u_kernel(const Tensor& x, const Tensor& n, const Tensor& out) {
  shifted_chebyshev(x, n, out, u_first);
}
void shifted_chebyshev_polynomial_v_kernel(const Tensor& x, const Tensor& n, const Tensor& out) {
  shifted_chebyshev(x, n, out, v_first);
}
void shifted_chebyshev_polynomial_w_kernel(const Tensor& x, const Tensor& n, const Tensor& out) {
  shifted_chebyshev(x, n, out, w_first);
}

void hermite_polynomial_h_kernel(const Tensor& x, const Tensor& n, const Tensor& out) {
  recur(x, n, out, u_first,
        [](const Tensor& x, double k, const Tensor& p, const Tensor& q) { return x.mul(2).mul_(p).sub_(q, 2 * (k - 1)); });
}
void hermite_polynomial_he_kernel(const Tensor& x, const Tensor& n, const Tensor& out) {
  recur(x, n, out, t_first, [](const Tensor& x, double k, const Tensor& p, const Tensor& q) { return x.mul(p).sub_(q, k - 1); });
}
void laguerre_polynomial_l_kernel(const Tensor& x, const Tensor& n, const Tensor& out) {
  recur(
      x, n, out, [](const Tensor& x) { return x.neg().add_(1); },
      [](const Tensor& x, double k, const Tensor& p, const Tensor& q) {
        return x.neg().add_(2 * k - 1).mul_(p).sub_(q, k - 1).div_(k);
      });
}
void legendre_polynomial_p_kernel(const Tensor& x, const Tensor& n, const Tensor& out) {
  recur(x, n, out, t_first, [](const Tensor& x, double k, const Tensor& p, const Tensor& q) {
    return x.mul(2 * k - 1).mul_(p).sub_(q, k - 1).div_(k);
  });
}

}  // namespace torch_npu::native
