// Results whose size depends on the data: the operator fills the largest possible one and tells how much it used.
#include <algorithm>

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/Utils.h>
#include <ATen/Functions.h>

#include "aten/compose.h"
#include "aten/factory.h"
#include "core/sync_debug.h"
#include "generated/torch_npu_native_functions.h"
#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnNonzeroV2);
NPU_OPERATOR(aclnnMaskedSelect);
NPU_OPERATOR(aclnnUnique2);
NPU_OPERATOR(aclnnUniqueConsecutive);
NPU_OPERATOR(aclnnUniqueDim);
NPU_OPERATOR(aclnnTake);

namespace {

// As op::run_for_shapes: the host waits, which the user may want to know.
template <class... Arguments>
std::vector<at::DimVector> shapes_after(const Arguments&... arguments) {
  core::warn_or_error_on_sync();
  return op::run_for_shapes(arguments...);
}

// The used part; a copy when most of the memory would lie idle under it.
at::Tensor shrink(const at::Tensor& largest, const at::DimVector& used) {
  if (largest.sizes() == at::IntArrayRef(used)) return largest;
  const auto numel = c10::multiply_integers(used);
  if (numel * 2 < largest.numel()) return largest.as_strided(used, at::detail::defaultStrides(used)).clone();
  auto* impl = largest.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(used);
  // Who asks the storage for its size must not find more than the result: nested tensors take all of it for their values.
  impl->unsafe_storage().unsafeGetStorageImpl()->set_nbytes(numel * largest.element_size());
  return largest;
}

}  // namespace

// As torch lays it out: the indices of one dimension lie side by side, for they are what is used.
at::Tensor nonzero(const at::Tensor& self) {
  const auto rank = self.dim();
  auto largest = empty_like_with(self, {rank, self.numel()}, at::kLong);
  if (self.numel() == 0) return largest.t();
  if (rank == 0) return empty_like_with(self, {self.to(at::kBool).item<bool>() ? 1 : 0, 0}, at::kLong);
  return shrink(largest, shapes_after(aclnnNonzeroV2, self, largest).at(0)).t();
}

at::Tensor& nonzero_out(const at::Tensor& self, at::Tensor& out) {
  TORCH_CHECK(out.scalar_type() == at::kLong, "nonzero: Expected out tensor to have scalar type Long but got scalar type ",
              out.scalar_type());
  const auto found = native::nonzero(self);
  out.resize_(found.sizes());
  return out.copy_(found);
}

// A mask of numbers, which PyTorch refuses, takes what is not zero, as the published torch_npu's does.
at::Tensor masked_select(const at::Tensor& self, const at::Tensor& given) {
  const auto mask = cast(given, at::kBool);
  const auto sizes = at::infer_size_dimvector(self.sizes(), mask.sizes());
  const auto numel = c10::multiply_integers(sizes);
  auto largest = empty_like_with(self, {numel});
  if (numel == 0) return largest;
  return shrink(largest, shapes_after(aclnnMaskedSelect, self.expand(sizes), mask.expand(sizes), largest).at(0));
}

at::Tensor& masked_select_out(const at::Tensor& self, const at::Tensor& mask, at::Tensor& out) {
  TORCH_CHECK(self.scalar_type() == out.scalar_type(), "masked_select(): self and result must have the same scalar type");
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  at::assert_no_overlap(out, mask);
  const auto found = native::masked_select(self, mask);
  out.resize_(found.sizes());
  return out.copy_(found);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> _unique2(const at::Tensor& self, bool sorted, bool return_inverse,
                                                        bool return_counts) {
  auto values = empty_like_with(self, {self.numel()});
  auto inverse = empty_like_with(self, return_inverse || return_counts ? self.sizes() : at::IntArrayRef{0}, at::kLong);
  auto counts = empty_like_with(self, {return_counts ? self.numel() : 0}, at::kLong);
  if (self.numel() == 0) return {values, inverse, counts};
  const auto shapes = shapes_after(aclnnUnique2, self, sorted, return_inverse, return_counts, values, inverse, counts);
  return {shrink(values, shapes.at(0)), return_inverse ? inverse : empty_like_with(self, {0}, at::kLong),
          return_counts ? shrink(counts, shapes.at(2)) : counts};
}

namespace {

// Slices along `dim` of a tensor without elements can only be compared when it is `dim` alone that is empty.
void check_slices(const at::Tensor& self, int64_t dim) {
  const auto empty_dims = std::count(self.sizes().begin(), self.sizes().end(), 0);
  TORCH_CHECK(empty_dims == (self.size(dim) == 0 ? 1 : 0), "unique along dimension ", dim, " of a tensor of sizes ", self.sizes(),
              ": no other dimension may be empty");
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor> unique_dim(const at::Tensor& self, int64_t dim, bool sorted, bool return_inverse,
                                                          bool return_counts) {
  dim = c10::maybe_wrap_dim(dim, self.dim());
  const auto length = self.size(dim);
  auto values = empty_like_with(self, self.sizes());
  auto inverse = empty_like_with(self, {length}, at::kLong), counts = empty_like_with(self, {length}, at::kLong);
  check_slices(self, dim);
  if (self.numel() == 0) return {values, inverse, counts};
  const auto shapes = shapes_after(aclnnUniqueDim, self, sorted, return_inverse, dim, values, inverse, counts);
  return {shrink(values, shapes.at(0)), inverse, shrink(counts, shapes.at(2))};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> unique_consecutive(const at::Tensor& self, bool return_inverse, bool return_counts,
                                                                  std::optional<int64_t> dim) {
  constexpr int64_t kFlat = 1000;  // the operator's word for "no dimension"
  if (dim) check_slices(self, *dim);
  const int64_t length = dim ? self.size(*dim) : self.numel();
  auto values = dim ? empty_like_with(self, self.sizes()) : empty_like_with(self, {self.numel()});
  auto inverse = !return_inverse ? empty_like_with(self, {0}, at::kLong)
                 : dim           ? empty_like_with(self, {length}, at::kLong)
                                 : empty_like_with(self, self.sizes(), at::kLong);
  auto counts = empty_like_with(self, {return_counts ? length : 0}, at::kLong);
  if (self.numel() == 0) return {values, inverse, counts};
  const auto wrapped = dim ? c10::maybe_wrap_dim(*dim, self.dim()) : kFlat;
  const auto shapes = shapes_after(aclnnUniqueConsecutive, self, return_inverse, return_counts, wrapped, values, inverse, counts);
  return {shrink(values, shapes.at(0)), inverse, return_counts ? shrink(counts, shapes.at(2)) : counts};
}

at::Tensor& take_out(const at::Tensor& self, const at::Tensor& index, at::Tensor& out) {
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  at::assert_no_overlap(out, index);
  resize_output(out, shaped(self, index.sizes()));
  op::run(aclnnTake, self, index, out);
  return out;
}

at::Tensor nonzero_static(const at::Tensor& self, int64_t size, int64_t fill_value) {
  TORCH_CHECK(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
  auto indices = at::full({size, self.dim()}, fill_value, self.options().dtype(at::kLong));
  const auto found = self.nonzero();
  const auto count = std::min(size, found.size(0));
  indices.narrow(0, 0, count).copy_(found.narrow(0, 0, count));
  return indices;
}
at::Tensor& nonzero_static_out(const at::Tensor& self, int64_t size, int64_t fill_value, at::Tensor& out) {
  TORCH_CHECK(out.scalar_type() == at::kLong, "nonzero_static: Expected out tensor to have scalar type Long but got scalar type ",
              out.scalar_type());
  return give(out, native::nonzero_static(self, size, fill_value));
}

std::tuple<at::Tensor, at::Tensor> _unique(const at::Tensor& self, bool sorted, bool return_inverse) {
  const auto [values, inverse, counts] = at::_unique2(self, sorted, return_inverse, false);
  return {values, inverse};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> unique_dim_consecutive(const at::Tensor& self, int64_t dim, bool return_inverse,
                                                                      bool return_counts) {
  return at::unique_consecutive(self, return_inverse, return_counts, dim);
}

}  // namespace torch_npu::native
