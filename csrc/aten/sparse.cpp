// Sums with and of tensors in COO format, on the NPU: what the gradients of an embedding with sparse=True and the optimizer's
// step on its table are made of. Through the CPU they would take the whole table there and back.
#include <ATen/SparseTensorImpl.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/Functions.h>
#include <torch/library.h>

#include "aten/compose.h"

namespace torch_npu::native {
namespace {

at::Tensor scaled_values(const at::Tensor& tensor, const at::Scalar& alpha, at::ScalarType type) {
  const auto values = tensor._values().to(type);
  return alpha.equal(1) ? values : values.mul(alpha).to(type);
}

at::Tensor& add_to_dense(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, at::ScalarType type,
                         at::Tensor& out) {
  const bool in_place = out.is_same(self) && out.scalar_type() == type;
  auto sum = in_place ? out : self.to(type, /*non_blocking=*/false, /*copy=*/true);
  const auto values = scaled_values(other, alpha, type);
  if (other.sparse_dim() == 0) {
    sum.add_(values.sum(0, /*keepdim=*/false, type));  // of bool, too, which would become integers
  } else if (values.numel() != 0) {
    c10::List<std::optional<at::Tensor>> rows;
    for (const auto& row : other._indices().unbind(0)) rows.push_back(row);
    sum.index_put_(rows, values, /*accumulate=*/true);  // an index may occur several times
  }
  return in_place ? out : give(out, sum);
}

// The entries of both, one after the other: the sum is coalesced by who needs that.
at::Tensor& add_sparse(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, at::ScalarType type,
                       at::Tensor& out) {
  TORCH_CHECK(self.sparse_dim() == other.sparse_dim(), "add: sparse tensors of ", self.sparse_dim(), " and ", other.sparse_dim(),
              " sparse dimensions; give both the same number");
  const auto indices = at::cat({self._indices(), other._indices()}, 1);
  const auto values = at::cat({self._values().to(type), scaled_values(other, alpha, type)}).to(out.scalar_type());
  const bool coalesced = (self._nnz() == 0 && other.is_coalesced()) || (other._nnz() == 0 && self.is_coalesced());
  auto& to = *static_cast<at::SparseTensorImpl*>(out.unsafeGetTensorImpl());
  to.raw_resize_(self.sparse_dim(), self.dense_dim(), self.sizes());
  to.set_indices_and_values_unsafe(indices, values);
  to.set_coalesced(coalesced);
  return out;
}

at::Tensor& add_out(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, at::Tensor& out) {
  TORCH_CHECK(other.layout() == at::kSparse && (self.layout() == at::kSparse || self.layout() == at::kStrided) &&
                  self.layout() == out.layout(),
              "add: cannot add a ", other.layout(), " tensor to a ", self.layout(), " one, into a ", out.layout(),
              " one; the second operand must be the sparse one, as in dense + sparse");
  TORCH_CHECK(self.device() == other.device() && self.device() == out.device(), "add: the tensors are on ", self.device(), ", ",
              other.device(), " and ", out.device(), "; they must be on one device");
  TORCH_CHECK(self.sizes() == other.sizes(), "add: sizes ", self.sizes(), " and ", other.sizes(),
              " differ; a sparse tensor is not broadcast");
  const auto type = at::result_type(self, other);
  TORCH_CHECK(at::canCast(type, out.scalar_type()), "result type ", type, " can't be cast to the desired output type ",
              out.scalar_type());
  return self.is_sparse() ? add_sparse(self, other, alpha, type, out) : add_to_dense(self, other, alpha, type, out);
}

// The index of each entry in the flattened dense tensor, by rows: who checks that a tensor is coalesced asks whether they ascend.
at::Tensor flatten_indices(const at::Tensor& indices, at::IntArrayRef size) {
  auto flat = at::zeros({indices.size(1)}, indices.options().dtype(at::kLong));
  int64_t stride = 1;
  for (int64_t dim = indices.size(0) - 1; dim >= 0; --dim) {
    flat.add_(indices.select(0, dim), stride);
    stride *= size[dim];
  }
  return flat;
}

// The values of each index added up, the indices in ascending order.
at::Tensor coalesce(const at::Tensor& self) {
  if (self.is_coalesced()) return self;
  const auto sizes = self.sizes().slice(0, self.sparse_dim());
  const auto values = self._values();
  const auto flat = flatten_indices(self._indices(), sizes);
  const auto [distinct, place, counts] = at::_unique2(flat, /*sorted=*/true, /*return_inverse=*/true);
  std::vector<at::Tensor> rows(sizes.size());
  auto rest = distinct;
  for (size_t dim = sizes.size(); dim-- > 0;) {
    rows[dim] = rest.remainder(sizes[dim]);
    rest = rest.floor_divide(sizes[dim]);
  }
  const auto indices = rows.empty() ? self._indices().slice(1, 0, distinct.size(0)) : at::stack(rows);
  auto shape = values.sizes().vec();
  shape.front() = distinct.size(0);
  const auto type = values.scalar_type() == at::kBool ? at::kInt : values.scalar_type();  // a sum of bool is whether there is any
  const auto sums = at::zeros(shape, values.options().dtype(type)).index_add_(0, place, values.to(type)).to(values.scalar_type());
  return at::_sparse_coo_tensor_with_dims_and_tensors(self.sparse_dim(), self.dense_dim(), self.sizes(), indices, sums,
                                                      self.options(), /*is_coalesced=*/true);
}

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  m.impl("add.out", add_out);
  m.impl("_coalesce", coalesce);
}

}  // namespace
}  // namespace torch_npu::native

// The stub is not in an installed header of torch.
namespace at::native {
DECLARE_DISPATCH(Tensor (*)(const Tensor&, IntArrayRef), flatten_indices_stub)
REGISTER_PRIVATEUSE1_DISPATCH(flatten_indices_stub, &torch_npu::native::flatten_indices)
}  // namespace at::native
