// Matrix products.

#include "op/formats.h"
#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/fitting.h"
#include "op/kernels/gemm.h"
#include "op/kernels/storage_format.h"
#include "op/tensor.h"

namespace softcann::op {
namespace {

double product_cost(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined() || !a.dim() || !b.dim()) return 1000;
  const double inner = static_cast<double>(std::max<int64_t>(a.size(-1), 1));
  const double columns = b.dim() > 1 ? static_cast<double>(b.size(-1)) : 1;
  const double batches = b.dim() > 2 && b.numel() > a.numel() ? static_cast<double>(b.numel()) / inner / columns : 1;
  return gemm_cost(static_cast<double>(a.numel()) / inner, columns * batches, inner);
}
// Of factors that are multiplied as they are.
double fitting_cost(const at::Tensor& a, const at::Tensor& b) {
  if (a.defined() && b.defined() && a.dim() && b.dim()) require_factors(a, b);
  return product_cost(a, b);
}

}  // namespace
}  // namespace softcann::op

using namespace softcann::op;

namespace {

// A product of matrices that aclnnTransMatmulWeight may have brought into blocks.
template <class Product>
void of_any_format(at::Tensor& out, const at::Tensor& self, const at::Tensor& mat2, Product&& product) {
  const auto in_base = [](const at::Tensor& argument) { return is_base_format(descriptor_of(argument)->format); };
  if (in_base(self) && in_base(mat2)) return product(out, self, mat2);
  TORCH_CHECK(in_base(out), "the result of a product is in the storage format ", static_cast<int>(descriptor_of(out)->format),
              "; only base formats are supported");
  product(out, in_base_format(self), in_base_format(mat2));
}

// A batch of one matrix stands for as many as the result has.
void batches_into(at::Tensor& out, const at::Tensor& self, const at::Tensor& mat2) {
  if (out.dim() != 3 || self.dim() != 3 || mat2.dim() != 3 || (self.size(0) == out.size(0) && mat2.size(0) == out.size(0))) {
    return bmm_into(out, self, mat2);
  }
  const auto as_many = [&](const at::Tensor& matrices) {
    return matrices.size(0) == 1 ? matrices.expand({out.size(0), -1, -1}) : matrices;
  };
  bmm_into(out, as_many(self), as_many(mat2));
}

}  // namespace

OP_COST(aclnnMm, fitting_cost(self, mat2)) { of_any_format(out, self, mat2, mm_into); }
OP_COST(aclnnMatmul, fitting_cost(self, mat2)) { of_any_format(out, self, mat2, matmul_into); }
OP_COST(aclnnBatchMatMul, fitting_cost(self, mat2)) { of_any_format(out, self, mat2, batches_into); }
OP_COST(aclnnMv, fitting_cost(self, vec)) { mv_into(out, self, vec); }
OP_COST(aclnnDot, (require_factors(self, tensor), streamed_cost(self, tensor))) { put(out, at::dot(self, tensor)); }

OP_COST(aclnnAddmm, fitting_cost(mat1, mat2)) { addmm_into(out, self, mat1, mat2, beta, alpha); }
OP_COST(aclnnInplaceAddmm, fitting_cost(mat1, mat2)) { addmm_into(writable(selfRef), selfRef, mat1, mat2, beta, alpha); }
OP_COST(aclnnAddmv, fitting_cost(mat, vec)) {
  at::Tensor column = out.unsqueeze(1);
  addmm_into(column, self.dim() ? self.unsqueeze(1) : self, mat, vec.unsqueeze(1), beta, alpha);
}
OP_COST(aclnnBaddbmm, fitting_cost(batch1, batch2)) { baddbmm_into(out, self, batch1, batch2, beta, alpha); }
OP_COST(aclnnInplaceBaddbmm, fitting_cost(batch1, batch2)) { baddbmm_into(selfRef, selfRef, batch1, batch2, beta, alpha); }
namespace {

// The sum over a batch of products is one product of the matrices side by side.
void addbmm_into(at::Tensor& out, const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2,
                 const at::Scalar& beta, const at::Scalar& alpha) {
  TORCH_CHECK(batch1.size(0) == batch2.size(0) && batch1.size(2) == batch2.size(1), "addbmm: batches of ", batch1.sizes(),
              " and ", batch2.sizes());
  const int64_t depth = batch1.size(0) * batch1.size(2);
  addmm_into(out, self, batch1.transpose(0, 1).reshape({batch1.size(1), depth}), batch2.reshape({depth, batch2.size(2)}), beta,
             alpha);
}

}  // namespace

OP_COST(aclnnAddbmm, fitting_cost(batch1, batch2)) { addbmm_into(out, self, batch1, batch2, beta, alpha); }
OP_COST(aclnnInplaceAddbmm, fitting_cost(batch1, batch2)) {
  addbmm_into(writable(selfRef), selfRef, batch1, batch2, beta, alpha);
}

namespace {

at::Scalar or_one(const at::Scalar& scalar) { return given(scalar) ? scalar : at::Scalar(1); }

// beta * self + alpha * outer(vec1, vec2)
void addr_into(at::Tensor& out, const at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2, const at::Scalar& beta,
               const at::Scalar& alpha) {
  at::cpu::addr_outf(self.expand(out.sizes()), vec1, vec2, or_one(beta), or_one(alpha), out);
}

}  // namespace

OP(aclnnAddr) { addr_into(out, self, vec1, vec2, betaOptional, alphaOptional); }
OP(aclnnAddrV2) { addr_into(out, self, vec1, vec2, betaOptional, alphaOptional); }
OP(aclnnInplaceAddr) { addr_into(selfRef, selfRef, vec1, vec2, betaOptional, alphaOptional); }
OP(aclnnInplaceAddrV2) { addr_into(selfRef, selfRef, vec1, vec2, betaOptional, alphaOptional); }
OP(aclnnGer) { at::mul_out(out, self.unsqueeze(1), vec2.unsqueeze(0)); }

OP_COST(aclnnGemm, fitting_cost(transA ? A.t() : A, transB ? B.t() : B)) {
  const at::Tensor a = transA ? A.t() : A, b = transB ? B.t() : B;
  addmm_into(out, C, a, b, static_cast<double>(beta), static_cast<double>(alpha));
}
// The published client's fused product: y = relu/gelu(x1 @ x2 + bias), or with another tensor added or multiplied.
OP_COST(aclnnFusedMatmul, fitting_cost(x1, x2)) {
  const std::string_view kind = fusedOpType;
  at::Tensor product = at::empty(y.sizes(), y.options());
  matmul_into(product, x1, x2);
  if (bias.defined()) product.add_(bias);
  if (kind == "relu")
    at::cpu::relu_(product);
  else if (kind == "gelu_erf")
    product = at::gelu(product);
  else if (kind == "gelu_tanh")
    product = at::gelu(product, "tanh");
  else if (kind == "add")
    product.add_(x3);
  else if (kind == "mul")
    product.mul_(x3);
  else
    TORCH_CHECK(kind.empty() || kind == "16cast32", "aclnnFusedMatmul: unknown fusedOpType '", kind, "'");
  put(y, product);
}
OP_COST(aclnnTransposeBatchMatMul, product_cost(x1, x2)) {
  const at::Tensor a = x1.permute(permX1), b = x2.permute(permX2);
  at::Tensor product = at::matmul(a, b);
  if (bias.defined()) product.add_(bias);
  product = permY.empty() ? product : product.permute(permY);
  if (scale.defined()) product = product * scale.to(at::kFloat);
  TORCH_CHECK(batchSplitFactor <= 1, "aclnnTransposeBatchMatMul: batchSplitFactor ", batchSplitFactor, " is not supported");
  put(out, product);
}
OP(aclnnEinsum) { put(output, at::einsum(equation, tensors)); }
