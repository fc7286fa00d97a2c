// Factorizations and solvers that CANN has operators for, and what follows from them; products whose results lie anyhow.
#include <algorithm>
#include <cmath>

#include <ATen/ExpandUtils.h>
#include <ATen/Functions.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/matmul_compositeimplicitautograd_dispatch.h>

#include "aten/compose.h"
#include "aten/factory.h"
#include "aten/mixed_dtypes.h"
#include "generated/torch_npu_native_functions.h"
#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnInverse);
NPU_OPERATOR(aclnnLinalgCholesky);
NPU_OPERATOR(aclnnSvd);
NPU_OPERATOR(aclnnTriangularSolve);

namespace {

void check_square(const at::Tensor& tensor, const char* op) {
  TORCH_CHECK(tensor.dim() >= 2, op, ": The input tensor must have at least 2 dimensions.");
  TORCH_CHECK(tensor.size(-1) == tensor.size(-2), op, ": A must be batches of square matrices, but they are ", tensor.size(-2),
              " by ", tensor.size(-1), " matrices");
}

// Both with the batch dimensions they broadcast to.
std::pair<at::Tensor, at::Tensor> same_batch(const at::Tensor& a, const at::Tensor& b) {
  const auto batch = at::infer_size_dimvector(a.sizes().slice(0, a.dim() - 2), b.sizes().slice(0, b.dim() - 2));
  const auto expanded = [&](const at::Tensor& tensor) {
    auto sizes = batch;
    sizes.push_back(tensor.size(-2));
    sizes.push_back(tensor.size(-1));
    return tensor.expand(sizes);
  };
  return {expanded(a), expanded(b)};
}

// Laid out as LAPACK's results, which count by columns.
at::Tensor by_columns(const at::Tensor& tensor) { return tensor.mT().contiguous().mT(); }

// The LU factors of A. torch's gradient expects those of the transpose where A is contiguous, for LAPACK counts by columns.
void factor(const at::Tensor& A, const at::Tensor& LU, const at::Tensor& pivots) {
  const auto [factors, rows, info] = at::linalg_lu_factor_ex(A.is_contiguous() && !A.is_complex() ? A.mT() : A);
  result(LU).copy_(factors);
  result(pivots).copy_(rows);
}

// -1 for an odd number of rows that changed places.
at::Tensor sign_of(const at::Tensor& pivots) {
  return at::arange(1, pivots.size(-1) + 1, pivots.options()).ne(pivots).sum(-1, false, at::kLong).fmod_(2).mul_(-2).add_(1);
}

}  // namespace

// torch multiplies a batch by one matrix or vector as the rows of one, and gives up where `out` is no view of rows.
at::Tensor& matmul_out(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
  const auto [fewer, more] = std::minmax({self.dim(), other.dim()});
  if (fewer > 2 || more < 3 || out.is_contiguous()) return at::compositeimplicitautograd::matmul_out(out, self, other);
  auto product = at::empty(out.sizes(), out.options());
  at::compositeimplicitautograd::matmul_out(product, self, other);
  at::native::resize_output(out, product.sizes());
  return out.copy_(product);
}

void linalg_det_kernel(const at::Tensor& A, const at::Tensor& det, const at::Tensor& LU, const at::Tensor& pivots) {
  factor(A, LU, pivots);
  result(det).copy_(LU.diagonal(0, -2, -1).prod(-1).mul_(sign_of(pivots)));
}

void linalg_slogdet_kernel(const at::Tensor& A, const at::Tensor& sign, const at::Tensor& logabsdet, const at::Tensor& LU,
                           const at::Tensor& pivots) {
  factor(A, LU, pivots);
  const auto diagonal = LU.diagonal(0, -2, -1);
  result(sign).copy_(diagonal.sgn().prod(-1).mul_(sign_of(pivots)));
  result(logabsdet).copy_(diagonal.abs().log_().sum(-1));
}

at::Tensor linalg_solve_triangular(const at::Tensor& self, const at::Tensor& B, bool upper, bool left, bool unitriangular) {
  check_square(self, "linalg.solve_triangular");
  if (const auto type = type_for(B, self); B.scalar_type() != type) {
    return native::linalg_solve_triangular(self, B.to(type), upper, left, unitriangular);
  }
  TORCH_CHECK(B.dim() >= 2, "linalg.solve_triangular: The input tensor B must have at least 2 dimensions.");
  TORCH_CHECK(self.scalar_type() == B.scalar_type(),
              "linalg.solve_triangular: Expected A and B to have the same dtype, but found A of type ", self.scalar_type(),
              " and B of type ", B.scalar_type(), " instead");
  TORCH_CHECK(left ? self.size(-2) == B.size(-2) : self.size(-1) == B.size(-1),
              "linalg.solve_triangular: Incompatible shapes of A and B for the equation ", left ? "AX = B" : "XA = B", " (",
              self.size(-2), "x", self.size(-1), " and ", B.size(-2), "x", B.size(-1), ")");
  const auto [a, b] = same_batch(self, B);
  auto columns = empty_like_with(b, b.mT().sizes());  // the result counts by columns, as LAPACK's do
  auto copy = empty_like_with(a, a.sizes());
  if (columns.numel() == 0) return columns.mT();
  if (left) {
    op::run(aclnnTriangularSolve, b, a, upper, false, unitriangular, columns.mT(), copy);
  } else {
    op::run(aclnnTriangularSolve, b.mT(), a.mT(), !upper, false, unitriangular, columns, copy);
  }
  return columns.mT();
}

at::Tensor& linalg_solve_triangular_out(const at::Tensor& self, const at::Tensor& B, bool upper, bool left, bool unitriangular,
                                        at::Tensor& out) {
  return give(out, native::linalg_solve_triangular(self, B, upper, left, unitriangular));
}

void linalg_svd_kernel(const at::Tensor& A, bool full_matrices, bool compute_uv, std::optional<std::string_view>,
                       const at::Tensor& U, const at::Tensor& S, const at::Tensor& Vh) {
  if (A.numel() == 0) {
    for (const auto* vectors : {&U, &Vh}) {
      if (vectors->defined() && vectors->numel() != 0) result(*vectors).zero_().diagonal(0, -2, -1).fill_(1);
    }
    return;
  }
  auto v = compute_uv ? empty_like_with(Vh, Vh.mT().sizes()) : Vh;
  op::run(aclnnSvd, A, full_matrices, compute_uv, S, U, v);
  // An operator that fails leaves no number. LAPACK, which calls a matrix that is not finite its argument 4, gives singular
  // values of infinities as NaN without vectors.
  const auto any_nan = [](const at::Tensor& matrix) { return matrix.isnan().flatten(-2).any(-1); };
  const auto whole = A.isfinite().flatten(-2).all(-1);
  auto failed = S.isnan().any(-1);
  if (!compute_uv) failed.logical_and_(any_nan(A).logical_or_(whole));
  at::_linalg_check_errors(at::where(whole, 1, -4).mul_(failed).to(at::kInt), "linalg.svd", A.dim() == 2);
  if (compute_uv) result(Vh).copy_(v.mH());
}

// An operator that fails leaves no number: what is not finite, of a finite matrix, has no inverse.
void linalg_inv_ex_kernel(const at::Tensor& A, bool check_errors, const at::Tensor& inverse, const at::Tensor& info) {
  op::run(aclnnInverse, A, inverse);
  if (A.numel() == 0) {
    result(info).zero_();
    return;
  }
  const auto whole = [](const at::Tensor& matrix) { return matrix.isfinite().flatten(-2).all(-1); };
  result(info).copy_(whole(inverse).logical_not_().logical_and_(whole(A)).to(at::kInt).mul_(A.size(-1)));
  if (check_errors) at::_linalg_check_errors(info, "linalg.inv_ex", A.dim() == 2);
}

// The order of the leading minor that is not positive definite: from there on the factor's diagonal is NaN.
void linalg_cholesky_ex_kernel(const at::Tensor& self, bool upper, bool check_errors, const at::Tensor& L,
                               const at::Tensor& info) {
  if (self.numel() == 0) {
    result(info).zero_();
    return;
  }
  op::run(aclnnLinalgCholesky, self, upper, L);
  const auto failed = L.diagonal(0, -2, -1).isnan().to(at::kInt);
  result(info).copy_(failed.argmax(-1).add_(1).mul_(failed.amax(-1)));
  if (check_errors) at::_linalg_check_errors(info, "linalg.cholesky_ex", self.dim() == 2);
}

at::Tensor cholesky(const at::Tensor& self, bool upper) {
  if (self.numel() == 0) return at::empty_like(self, LEGACY_CONTIGUOUS_MEMORY_FORMAT);
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(self.scalar_type()) || self.is_complex(), "\"cholesky\" not implemented for '",
                              self.scalar_type(), "'");
  return at::linalg_cholesky(self, upper);
}
at::Tensor& cholesky_out(const at::Tensor& self, bool upper, at::Tensor& out) { return give(out, native::cholesky(self, upper)); }

at::Tensor cholesky_inverse(const at::Tensor& self, bool upper) {
  const NoAutocast as_called;
  check_square(self, "cholesky_inverse");
  const auto identity = at::eye(self.size(-1), self.options()).expand(self.sizes());
  const auto half = at::linalg_solve_triangular(self, identity, upper);
  return by_columns(upper ? half.matmul(half.mH()) : half.mH().matmul(half));
}
at::Tensor& cholesky_inverse_out(const at::Tensor& self, bool upper, at::Tensor& out) {
  return give(out, native::cholesky_inverse(self, upper));
}

at::Tensor _cholesky_solve_helper(const at::Tensor& self, const at::Tensor& A, bool upper) {
  const auto first = at::linalg_solve_triangular(upper ? A.mH() : A, self, false);
  return by_columns(at::linalg_solve_triangular(upper ? A : A.mH(), first, true));
}

// By scaling and squaring. Up to these norms the Taylor series of degree 18 is exact to the dtype's rounding (Bader, Blanes,
// Casas 2019); every squaring less halves the error of the result.
at::Tensor linalg_matrix_exp(const at::Tensor& self) {
  check_square(self, "linalg.matrix_exp");
  TORCH_CHECK(at::isFloatingType(self.scalar_type()) || self.is_complex(),
              "linalg.matrix_exp: Expected a floating point or complex tensor as input. Got ", self.scalar_type());
  constexpr int kTerms = 18;
  const NoAutocast as_called;
  const auto a = widened(self);
  const bool wide = a.scalar_type() == at::kDouble || a.scalar_type() == at::kComplexDouble;
  const double limit = wide ? 1.09 : 3.01;
  auto sum = at::eye(a.size(-1), a.options()).expand(a.sizes()).clone();
  if (a.numel() == 0) return cast(sum, self.scalar_type());
  // Each matrix of a batch is scaled by its own norm: one that is squared more often than it needs loses digits.
  const auto norm = a.abs().sum(-2).amax(-1);
  const auto halvings = norm.div(limit).log2_().ceil_().clamp_min_(0).masked_fill_(norm.isfinite().logical_not_(), 0);
  const auto per_matrix = halvings.unsqueeze(-1).unsqueeze(-1);
  const auto scaled = a.mul(per_matrix.neg().exp2_());
  const auto identity = sum.clone();
  for (int k = kTerms; k > 1; --k) sum = scaled.matmul(sum).div_(k).add_(identity);
  // What is squared is exp(A) - 1, so that the identity does not take digits from what is small beside it.
  auto rest = scaled.matmul(sum);
  const int most = halvings.max().item<int>();
  for (int i = 0; i < most; ++i) rest = at::where(per_matrix.gt(i), rest.matmul(rest).add_(rest, 2), rest);
  sum = rest.add_(identity);
  return cast(sum, self.scalar_type());
}

void addmm_activation_kernel(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                             const at::Scalar& alpha, bool use_gelu, const at::Tensor& out) {
  const auto sum = at::addmm(self, mat1, mat2, beta, alpha);
  result(out).copy_(use_gelu ? at::gelu(sum) : sum.relu());
}

}  // namespace torch_npu::native
