// Matrix products by the library that gemm_choice.h names for this machine.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

namespace softcann::op {

// out = a @ b, both 2-D of any strides; types may differ from out's.
void mm_into(at::Tensor& out, const at::Tensor& a, const at::Tensor& b);
// out = a @ b, a matrix and a vector.
void mv_into(at::Tensor& out, const at::Tensor& a, const at::Tensor& b);
// out = beta * self + alpha * a @ b; self broadcasts.
void addmm_into(at::Tensor& out, const at::Tensor& self, const at::Tensor& a, const at::Tensor& b, const at::Scalar& beta,
                const at::Scalar& alpha);
// The same for batches of matrices, 3-D.
void bmm_into(at::Tensor& out, const at::Tensor& a, const at::Tensor& b);
void baddbmm_into(at::Tensor& out, const at::Tensor& self, const at::Tensor& a, const at::Tensor& b, const at::Scalar& beta,
                  const at::Scalar& alpha);
// torch.matmul's rules for any ranks.
void matmul_into(at::Tensor& out, const at::Tensor& a, const at::Tensor& b);

// Half types are computed with faster in float32 on this machine; false for other types.
bool better_in_float32(at::ScalarType type);

// Nanoseconds, roughly, of m*n*k multiply-adds.
inline double gemm_cost(double m, double n, double k) { return 800 + m * n * k * 0.025; }

}  // namespace softcann::op
