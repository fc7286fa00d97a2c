// Linear algebra and Fourier transforms.
#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

#include "op/kernel.h"
#include "op/kernels/common.h"

using namespace softcann::op;

// A device does not stop for a matrix without inverse: the result has numbers that are not finite.
OP(aclnnInverse) { put(out, std::get<0>(at::linalg_inv_ex(in_single(self)))); }
// Nor for one that is not positive definite: from the minor that failed on, the diagonal is NaN.
OP(aclnnLinalgCholesky) {
  const auto [factor, info] = at::linalg_cholesky_ex(in_single(self), upper);
  put(out, factor);
  const at::Tensor failed = info.reshape({-1}), diagonals = out.diagonal(0, -2, -1);
  for (int64_t i = 0; i < failed.numel(); ++i) {
    const int64_t minor = failed[i].item<int64_t>();
    if (minor == 0) continue;
    // A view for each matrix: `out` may have any strides.
    at::Tensor diagonal = diagonals;
    for (int64_t d = 0, rest = i, inner = failed.numel(); d < info.dim(); ++d) {
      inner /= info.size(d);
      diagonal = diagonal.select(0, rest / inner);
      rest %= inner;
    }
    diagonal.narrow(0, minor - 1, diagonal.size(0) - minor + 1).fill_(std::numeric_limits<double>::quiet_NaN());
  }
}
OP(aclnnLinalgCross) { at::cpu::linalg_cross_outf(self, other, dim, out); }
OP(aclnnLinalgQr) {
  constexpr std::string_view modes[] = {"reduced", "complete", "r"};
  TORCH_CHECK(mode >= 0 && mode < 3, "aclnnLinalgQr: mode ", mode, " is not 0, 1 or 2");
  const auto [q, r] = at::linalg_qr(in_single(self), modes[mode]);
  put(Q, q, mode != 2);
  put(R, r);
}
OP(aclnnQr) {
  const auto [q, r] = at::linalg_qr(self, some ? "reduced" : "complete");
  put(Q, q);
  put(R, r);
}
namespace {

// Nor for a matrix without decomposition: its numbers are NaN, those of the batch's others are what they are.
std::tuple<at::Tensor, at::Tensor, at::Tensor> decompose(const at::Tensor& matrix, bool full, bool vectors) {
  try {
    if (vectors) return at::linalg_svd(matrix, full);
    return {at::Tensor(), at::linalg_svdvals(matrix), at::Tensor()};
  } catch (const c10::LinAlgError&) {
    std::vector<at::Tensor> left, values, right;
    if (matrix.dim() > 2) {
      for (const auto& part : matrix.unbind()) {
        auto [u, s, vh] = decompose(part, full, vectors);
        left.push_back(u);
        values.push_back(s);
        right.push_back(vh);
      }
      if (!vectors) return {at::Tensor(), at::stack(values), at::Tensor()};
      return {at::stack(left), at::stack(values), at::stack(right)};
    }
    const int64_t rows = matrix.size(0), columns = matrix.size(1), count = std::min(rows, columns);
    const auto nan = std::numeric_limits<double>::quiet_NaN();
    return {at::full({rows, full ? rows : count}, nan, matrix.options()),
            at::full({count}, nan, matrix.options().dtype(c10::toRealValueType(matrix.scalar_type()))),
            at::full({full ? columns : count, columns}, nan, matrix.options())};
  }
}

}  // namespace

OP(aclnnSvd) {
  const auto [left, values, right] = decompose(input, fullMatrices, computeUV);
  put(sigma, values);
  if (!computeUV) return;
  put(u, left);
  put(v, right.mH());
}
OP(aclnnSlogdet) {
  const auto [sign, log_of] = at::slogdet(self);
  put(signOut, sign);
  put(logOut, log_of);
}
OP(aclnnLogdet) { put(out, at::logdet(self)); }
OP(aclnnTriangularSolve) {
  const at::Tensor matrix = transpose ? A.mT() : at::Tensor(A);
  put(xOut, at::linalg_solve_triangular(matrix, self, upper != transpose, /*left=*/true, unitriangular));
  put(mOut, A);
}
OP(aclnnCdist) { put(out, at::cdist(widened(x1), widened(x2), p)); }
OP(aclnnCdistBackward) {
  TORCH_CHECK(x1.dim() > 1 && x2.dim() > 1 && x1.size(-1) == x2.size(-1), "aclnnCdistBackward: rows ", x1.sizes(), " and ",
              x2.sizes());
  at::DimVector sizes(at::infer_size(x1.sizes().slice(0, static_cast<size_t>(x1.dim() - 2)),
                                     x2.sizes().slice(0, static_cast<size_t>(x2.dim() - 2))));
  sizes.append({x1.size(-2), x2.size(-2)});
  const at::IntArrayRef wanted(sizes);
  TORCH_CHECK(grad.sizes() == wanted && cdist.sizes() == wanted, "aclnnCdistBackward: a gradient ", grad.sizes(),
              " and distances ", cdist.sizes(), " where ", wanted, " are expected");
  put(out, at::_cdist_backward(plain(grad), plain(x1), plain(x2), p, plain(cdist)));
}
OP(aclnnPdist) { put(out, at::pdist(plain(self), p)); }

namespace {

const char* norm_of(int64_t norm) {
  constexpr const char* names[] = {"", "backward", "forward", "ortho"};
  TORCH_CHECK(norm >= 1 && norm < 4, "aclRfft1D: norm ", norm, " is not 1, 2 or 3");
  return names[norm];
}

}  // namespace

OP(aclRfft1D) {
  put(out,
      out.is_complex() ? at::fft_rfft(self, n, dim, norm_of(norm)) : at::view_as_real(at::fft_rfft(self, n, dim, norm_of(norm))));
}
OP(aclStft) {
  const at::Tensor result = at::stft(self, nFft, hopLength, winLength, maybe(windowOptional), normalized, onesided, true);
  put(out, returnComplex && out.is_complex() ? result : at::view_as_real(result));
}

namespace {

double distances_cost(const at::Tensor& self, const at::Scalar& p) {
  if (given(self) && self.dim() != 2) invalid("aclnnPdistForward: self has %ld dimensions; 2 are expected", long(self.dim()));
  if (!(p.toDouble() >= 0)) invalid("aclnnPdistForward: p is %g; it is not negative", p.toDouble());
  return bytes(self);
}

}  // namespace

OP_COST(aclnnPdistForward, distances_cost(self, pScalar)) { put(out, at::pdist(plain(self), pScalar.toDouble())); }
