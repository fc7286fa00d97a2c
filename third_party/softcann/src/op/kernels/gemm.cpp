#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include "op/kernels/gemm.h"

#include <algorithm>
#include <cstring>

#include "op/kernels/common.h"
#include "op/kernels/gemm_choice.h"
#include "op/simd/thresholds.h"
#include "op/threads.h"

namespace softcann::op {
namespace {

void onednn_into(at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  into(out, [&] { return onednn_linear(a, b, std::nullopt); });
}

bool large(const at::Tensor& out, const at::Tensor& a) { return out.numel() * a.size(-1) >= threshold::gemm_products; }

bool is_one(const at::Scalar& scalar) { return !scalar.isComplex() && scalar.toDouble() == 1.0; }

// What both factors must be converted to: the machine's better type, or the common one.
at::ScalarType compute_type(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  const at::ScalarType common = c10::promoteTypes(a.scalar_type(), b.scalar_type());
  if (!low_precision(common)) return common;
  const bool few = out.dim() == 2 && a.numel() + b.numel() + out.numel() <= threshold::widened_product;
  return few || out.scalar_type() == at::kFloat || better_in_float32(common) ? at::kFloat : common;
}

// Puts one row into all of out's, where they are few: ATen's iterator over the expanded row takes longer than a small product.
bool repeat_row(at::Tensor& out, const at::Tensor& row) {
  const int64_t rows = out.size(0);
  const size_t bytes = row.nbytes();
  if (row.scalar_type() != out.scalar_type() || row.numel() != out.size(1) || row.size(-1) != row.numel() || row.dim() > 2 ||
      bytes == 0 || out.nbytes() > static_cast<size_t>(threshold::repeated_row_bytes) || !row.is_contiguous() ||
      !out.is_contiguous())
    return false;
  auto* to = static_cast<char*>(out.mutable_data_ptr());
  const auto* from = static_cast<const char*>(row.const_data_ptr());
  if (from < to + out.nbytes() && to < from + bytes) return false;
  for (int64_t i = 0; i < rows; ++i, to += bytes) std::memcpy(to, from, bytes);
  return true;
}

// Note [Consistent products]
// The libraries block a product by where an element stands and by how many rows there are, so equal rows need not give equal
// results. With ACL_OPT_STRONG_CONSISTENCY each element is the sum over k in order, whatever its place: this loop goes over
// columns within, so that it is vectors which are added, each lane on its own.
template <class T>
void product_in_order(const T* a, const T* b, T* out, int64_t rows, int64_t columns, int64_t depth) {
  at::parallel_for(0, rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T* to = out + i * columns;
      std::fill_n(to, columns, T(0));
      for (int64_t k = 0; k < depth; ++k) {
        const T factor = a[i * depth + k];
        const T* row = b + k * columns;
        for (int64_t j = 0; j < columns; ++j) to[j] += factor * row[j];
      }
    }
  });
}

// a @ b of matrices or batches of them, in float32 where the types have fewer bits; undefined where no order is asked for or
// none matters.
at::Tensor consistent_product(const at::Tensor& a, const at::Tensor& b) {
  if (__builtin_expect(!wants_consistency(), 1)) return {};
  at::ScalarType type = c10::promoteTypes(a.scalar_type(), b.scalar_type());
  if (c10::isIntegralType(type, true)) return {};
  if (low_precision(type)) type = at::kFloat;
  const at::Tensor left = a.to(type).contiguous(), right = b.to(type).contiguous();
  const int64_t batches = a.dim() == 3 ? a.size(0) : 1, rows = a.size(-2), columns = b.size(-1), depth = a.size(-1);
  std::vector<int64_t> sizes = a.sizes().vec();
  sizes.back() = columns;
  const at::Tensor out = at::empty(sizes, left.options());
  AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES(type, "consistent_product", [&] {
    const auto* from = left.const_data_ptr<scalar_t>();
    const auto* by = right.const_data_ptr<scalar_t>();
    auto* to = out.mutable_data_ptr<scalar_t>();
    for (int64_t i = 0; i < batches; ++i)
      product_in_order(from + i * rows * depth, by + i * depth * columns, to + i * rows * columns, rows, columns, depth);
  });
  return out;
}

// The same with beta * self + alpha times it, one rounding after the other; false where consistent_product() does nothing.
bool add_consistent_product(const at::Tensor& out, const at::Tensor& self, const at::Tensor& a, const at::Tensor& b,
                            const at::Scalar& beta, const at::Scalar& alpha) {
  at::Tensor product = consistent_product(a, b);
  if (!product.defined()) return false;
  product.mul_(alpha);
  // As BLAS has it: what is multiplied by 0 is not looked at, not even if it is NaN.
  if (beta.isComplex() || beta.toDouble() != 0) product.add_(self.to(product.scalar_type()) * beta);
  put(out, product);
  return true;
}

at::Tensor as(const at::Tensor& tensor, at::ScalarType type) { return tensor.scalar_type() == type ? tensor : tensor.to(type); }

}  // namespace

bool better_in_float32(at::ScalarType type) { return low_precision(type) && gemm_for(type) == Gemm::widen; }

void mm_into(at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  if (const at::Tensor product = consistent_product(a, b); product.defined()) return put(out, product);
  const at::ScalarType type = compute_type(out, a, b);
  if (type != out.scalar_type()) {
    put(out, at::cpu::mm(as(a, type), as(b, type)));
  } else if (type == at::kFloat && large(out, a) && gemm_for(type) == Gemm::onednn) {
    onednn_into(out, as(a, type), as(b, type));
  } else {
    at::cpu::mm_outf(as(a, type), as(b, type), out);
  }
}

void mv_into(at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  if (const at::Tensor product = consistent_product(a, b.unsqueeze(1)); product.defined()) return put(out, product.squeeze(1));
  const at::ScalarType type = compute_type(out, a, b);
  if (type == out.scalar_type() && !low_precision(type)) {
    at::cpu::addmv_outf(out, as(a, type), as(b, type), 0, 1, out);
  } else {
    at::Tensor column = out.unsqueeze(1);
    mm_into(column, a, b.unsqueeze(1));
  }
}

void addmm_into(at::Tensor& out, const at::Tensor& self, const at::Tensor& a, const at::Tensor& b, const at::Scalar& beta,
                const at::Scalar& alpha) {
  if (add_consistent_product(out, self, a, b, beta, alpha)) return;
  const at::ScalarType type = compute_type(out, a, b);
  if (type != out.scalar_type()) {
    put(out, at::cpu::addmm(as(self, type), as(a, type), as(b, type), beta, alpha));
    return;
  }
  if (type == at::kFloat && large(out, a) && gemm_for(type) == Gemm::onednn && is_one(alpha)) {
    const at::Tensor addend = is_one(beta) ? self : self * beta;
    if (addend.dim() == 1) {
      into(out, [&] { return onednn_linear(as(a, type), as(b, type), addend); });
    } else {
      put(out, onednn_linear(as(a, type), as(b, type), std::nullopt).add_(addend));
    }
    return;
  }
  const bool set_out = self.dim() != 0 && is_one(beta) && repeat_row(out, self);
  at::cpu::addmm_outf(set_out ? out : as(self, type), as(a, type), as(b, type), beta, alpha, out);
}

void bmm_into(at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  if (const at::Tensor product = consistent_product(a, b); product.defined()) return put(out, product);
  const at::ScalarType type = compute_type(out, a, b);
  if (type != out.scalar_type()) {
    put(out, at::cpu::bmm(as(a, type), as(b, type)));
  } else if (type == at::kFloat && out.numel() * a.size(-1) >= threshold::gemm_products * out.size(0) &&
             gemm_for(type) == Gemm::onednn) {
    for (int64_t i = 0; i < out.size(0); ++i) {
      at::Tensor part = out[i];
      onednn_into(part, as(a[i], type), as(b[i], type));
    }
  } else {
    at::cpu::bmm_outf(as(a, type), as(b, type), out);
  }
}

void baddbmm_into(at::Tensor& out, const at::Tensor& self, const at::Tensor& a, const at::Tensor& b, const at::Scalar& beta,
                  const at::Scalar& alpha) {
  if (add_consistent_product(out, self, a, b, beta, alpha)) return;
  const at::ScalarType type = compute_type(out, a, b);
  if (type != out.scalar_type()) {
    put(out, at::cpu::baddbmm(as(self, type), as(a, type), as(b, type), beta, alpha));
  } else {
    at::cpu::baddbmm_outf(as(self, type), as(a, type), as(b, type), beta, alpha, out);
  }
}

namespace {

// A stack of row vectors against one matrix is one product, if the rows lie evenly in memory.
bool folds(const at::Tensor& a, const at::Tensor& b, const at::Tensor& out) {
  return b.dim() <= 2 && a.dim() >= 3 && a.numel() > 0 && a.is_contiguous() && out.is_contiguous();
}

void batched_matmul_into(at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  const at::IntArrayRef batch = out.sizes().slice(0, out.dim() - 2);
  const auto batched = [&](const at::Tensor& tensor) {
    std::vector<int64_t> sizes = batch.vec();
    sizes.insert(sizes.end(), {tensor.size(-2), tensor.size(-1)});
    return tensor.expand(sizes).reshape({-1, tensor.size(-2), tensor.size(-1)});
  };
  if (out.numel() == 0) return;
  if (a.size(-1) == 0) {
    out.zero_();
    return;
  }
  if (out.is_contiguous()) {
    at::Tensor flat = out.view({-1, out.size(-2), out.size(-1)});
    bmm_into(flat, batched(a), batched(b));
  } else {
    at::Tensor flat = at::empty({c10::multiply_integers(batch), out.size(-2), out.size(-1)}, out.options());
    bmm_into(flat, batched(a), batched(b));
    put(out, flat);
  }
}

}  // namespace

void matmul_into(at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  if (a.dim() == 2 && b.dim() == 2) return mm_into(out, a, b);
  if (a.dim() == 3 && b.dim() == 3 && a.size(0) == b.size(0)) return bmm_into(out, a, b);
  if (a.dim() == 1) {
    at::Tensor matrix = b.dim() == 1 ? out.view({1, 1}) : out.unsqueeze(-2);
    return matmul_into(matrix, a.unsqueeze(0), b.dim() == 1 ? b.unsqueeze(1) : b);
  }
  if (b.dim() == 1) {
    at::Tensor matrix = out.unsqueeze(-1);
    return matmul_into(matrix, a, b.unsqueeze(1));
  }
  if (folds(a, b, out)) {
    at::Tensor flat = out.view({-1, out.size(-1)});
    return mm_into(flat, a.view({-1, a.size(-1)}), b);
  }
  batched_matmul_into(out, a, b);
}

}  // namespace softcann::op
