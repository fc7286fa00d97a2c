// Operators that clients name: products of matrices, their factors, distances.
#include <algorithm>
#include <limits>

#include "op/kernels/common.h"
#include "op/named.h"

using namespace softcann::op;

namespace {

at::Tensor transposed_if(const at::Tensor& matrix, bool transpose) { return transpose ? matrix.transpose(-2, -1) : matrix; }

// a, b, bias.
void multiply(const Named& call) {
  const at::Tensor product = at::matmul(transposed_if(widened(call.in(0)), call.attribute("transpose_x1", false)),
                                        transposed_if(widened(call.in(1)), call.attribute("transpose_x2", false)));
  put(call.out(0), call.in(2).defined() ? product + widened(call.in(2)) : product);
}

}  // namespace

NAMED(MatMul) { multiply(call); }
NAMED(MatMulV2) { multiply(call); }
NAMED(BatchMatMul) {
  put(call.out(0), at::matmul(transposed_if(widened(call.in(0)), call.attribute("adj_x1", false)),
                              transposed_if(widened(call.in(1)), call.attribute("adj_x2", false))));
}
// alpha a b + beta c
NAMED(GEMM) {
  TORCH_CHECK(call.in(4).defined() && call.in(3).numel() == 1 && call.in(4).numel() == 1, "alpha and beta are one number each");
  put(call.out(0), at::addmm(widened(call.in(2)), transposed_if(widened(call.in(0)), call.attribute("transpose_a", false)),
                             transposed_if(widened(call.in(1)), call.attribute("transpose_b", false)), widened(call.in(4)).item(),
                             widened(call.in(3)).item()));
}
NAMED(Dot) { put(call.out(0), (widened(call.in(0)) * widened(call.in(1))).sum()); }
NAMED(Trace) { put(call.out(0), call.in(0).trace()); }

// Gradient, x1, x2 and distances, all expanded to [..., P, R, M]: the gradient of x1 is summed over R. A p below 0
// stands for infinity.
NAMED(CdistGrad) {
  const double p = call.attribute("p", 2.0F);
  const at::Tensor by = widened(call.in(0)), difference = widened(call.in(1)) - widened(call.in(2)),
                   distance = widened(call.in(3));
  at::Tensor slope;
  if (p == 0) {
    slope = at::zeros_like(difference);
  } else if (p < 0) {
    slope = difference.sign() * (difference.abs() == distance);
  } else {
    slope = difference.sign() * difference.abs().pow(p - 1) * at::where(distance > 0, distance.pow(1 - p), 0.0);
    if (p < 1) slope = at::where(difference == 0, 0.0, slope);
  }
  put(call.out(0), (by * slope).sum({-2}));
}

// Both expanded to [..., P, R, M].
NAMED(Cdist) {
  const double p = call.attribute("p", 2.0F);
  const at::Tensor difference = widened(call.in(0)) - widened(call.in(1));
  put(call.out(0), at::linalg_vector_norm(difference, p < 0 ? std::numeric_limits<double>::infinity() : p, {-1}));
}
NAMED(Pdist) { put(call.out(0), at::pdist(widened(call.in(0)), call.attribute("p", 2.0F))); }
NAMED(Cross) {
  auto dim = call.attribute<int64_t>("dim", -65530);
  if (dim == -65530) {  // the first of three elements
    const auto sizes = call.in(0).sizes();
    dim = std::find(sizes.begin(), sizes.end(), 3) - sizes.begin();
  }
  put(call.out(0), at::linalg_cross(widened(call.in(0)), widened(call.in(1)), dim));
}

NAMED(Qr) {
  const auto [q, r] = at::linalg_qr(widened(call.in(0)), call.attribute("full_matrices", false) ? "complete" : "reduced");
  put(call.out(0), q);
  put(call.out(1), r);
}
// Values, u and v, which is not transposed.
NAMED(Svd) {
  const auto [u, values, transposed] = at::linalg_svd(widened(call.in(0)), call.attribute("full_matrices", false));
  put(call.out(0), values);
  if (!call.attribute("compute_uv", true)) return;
  put(call.out(1), u);
  put(call.out(2), transposed.mT());
}
NAMED(MatrixInverse) {
  const at::Tensor x = widened(call.in(0));
  put(call.out(0), at::linalg_inv(call.attribute("adjoint", false) ? x.mH() : x));
}
NAMED(MatrixTriangularSolve) {
  const bool lower = call.attribute("lower", true), adjoint = call.attribute("adjoint", false);
  const at::Tensor a = widened(call.in(0));
  put(call.out(0), at::linalg_solve_triangular(adjoint ? a.mH() : a, widened(call.in(1)), lower == adjoint));
}
// The sign and the logarithm of what it is of.
NAMED(LogMatrixDeterminant) {
  const auto [sign, logarithm] = at::linalg_slogdet(widened(call.in(0)));
  put(call.out(0), sign);
  put(call.out(1), logarithm);
}
