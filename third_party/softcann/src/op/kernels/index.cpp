// Reading and writing by index tensors.
#include <ATen/WrapDimUtils.h>

#include <ATen/Parallel.h>
#include <ATen/core/List.h>

#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/fitting.h"
#include "op/kernels/signed_bits.h"
#include "rt/base/error.h"

using namespace softcann::op;

namespace {

// Note [Absent indices]
// Clients put an empty one-dimensional tensor where an index is absent (x[:, i]), as a list cannot hold null for all of
// them. One that is really empty selects nothing; then every defined index is empty.
bool placeholder(const at::Tensor& index) { return !index.defined() || (index.dim() == 1 && index.size(0) == 0); }
bool selects_nothing(at::TensorList indices) { return std::all_of(indices.begin(), indices.end(), placeholder); }
c10::List<std::optional<at::Tensor>> optional_list(at::TensorList indices) {
  c10::List<std::optional<at::Tensor>> list;
  list.reserve(indices.size());
  for (const at::Tensor& index : indices) {
    list.push_back(placeholder(index) ? std::nullopt : std::optional<at::Tensor>(index));
  }
  return list;
}

// While it lives, ATen's kernels take the elements of an accumulation one after the other. With several threads they add float32
// as threads come by, and sums round differently from run to run.
class InOrder {
 public:
  explicit InOrder(const at::Tensor& values, bool accumulate) {
    if (accumulate && values.scalar_type() == at::kFloat && threads_ > 1) at::set_num_threads(1);
  }
  ~InOrder() {
    if (at::get_num_threads() != threads_) at::set_num_threads(threads_);
  }
  InOrder(const InOrder&) = delete;
  InOrder& operator=(const InOrder&) = delete;

 private:
  const int threads_ = at::get_num_threads();
};

// What elements are added to: the tensor itself, or a copy in float32 of one that would round after every addition.
at::Tensor summed_in(const at::Tensor& tensor) { return low_precision(tensor) ? tensor.to(at::kFloat) : tensor; }

}  // namespace

OP(aclnnIndex) {
  if (out.numel() == 0) return;
  at::cpu::index_outf(self, optional_list(indices), out);
}
OP(aclnnIndexPutImpl) {
  if (selects_nothing(indices) || selfRef.numel() == 0) return;
  // Sums over repeated places deserve float32.
  at::Tensor target = accumulate ? summed_in(selfRef) : selfRef;
  const at::Tensor same = values.to(target.scalar_type());
  // The CPU kernel checks every index as it goes, so the parameter `unsafe` changes nothing.
  const InOrder in_order(same, accumulate);
  at::_index_put_impl_(target, optional_list(indices), same, accumulate, false);
  if (!target.is_same(selfRef)) selfRef.copy_(target);
}
OP(aclnnIndexSelect) { at::cpu::index_select_outf(self, dim, index, out); }

namespace {

void index_add_into(at::Tensor& out, const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source,
                    const at::Scalar& alpha) {
  put(out, self);
  const at::Tensor given = source.to(out.scalar_type());
  const int64_t axis = at::maybe_wrap_dim(dim, out.dim());
  // An index of several dimensions takes the place of one dimension of the source.
  const bool flat = index.dim() <= 1;
  out.index_add_(axis, flat ? index : index.flatten(), flat ? given : given.flatten(axis, axis + index.dim() - 1), alpha);
}

}  // namespace

OP(aclnnIndexAdd) { index_add_into(out, self, dim, index, source, alpha); }
OP(aclnnIndexAddV2) { index_add_into(out, self, dim, index, source, alpha); }
OP(aclnnIndexCopy) {
  put(outRef, selfRef);
  outRef.index_copy_(dim, index.to(at::kLong), source);
}
OP(aclnnInplaceIndexCopy) { selfRef.index_copy_(dim, index.to(at::kLong), source); }
OP(aclnnIndexFill) {
  put(out, self);
  out.index_fill_(dim, index.to(at::kLong), value);
}
OP(aclnnInplaceIndexFill) { selfRef.index_fill_(dim, index.to(at::kLong), value); }
OP(aclnnIndexFillTensor) {
  put(out, self);
  for (const int64_t i : index) out.select(dim, i).fill_(value);
}
OP(aclnnInplaceIndexFillTensor) {
  for (const int64_t i : index) selfRef.select(dim, i).fill_(value);
}

OP_COST(aclnnGather, (require_index_within(self, dim, index), streamed_cost(self, index, out))) {
  TORCH_CHECK(self.scalar_type() == out.scalar_type(), "aclnnGather: ", self.scalar_type(), " into ", out.scalar_type());
  write_signed_bits(out,
                    [&](at::Tensor& bits) { at::cpu::gather_outf(signed_bits(self), dim, index.to(at::kLong), false, bits); });
}
// Negative indices count from the end; those of V3 must not be negative.
OP(aclnnGatherV2) {
  const at::Tensor flat = index.reshape({-1});
  const int64_t size = self.dim() == 0 ? 1 : self.size(dim);
  put_reshaped(out, self.index_select(dim, at::where(flat < 0, flat + size, flat)));
}
OP(aclnnGatherV3) {
  TORCH_CHECK(batchDims == 0, "aclnnGatherV3: batchDims ", batchDims, " is not supported");
  put_reshaped(out, self.index_select(dim, index.reshape({-1})));
}

namespace {

// Rows of an index matrix address the leading dimensions of `data`.
at::Tensor flat_rows(const at::Tensor& data, const at::Tensor& indices) {
  const int64_t depth = indices.size(-1);
  at::Tensor flat = at::zeros(indices.sizes().slice(0, indices.dim() - 1), indices.options().dtype(at::kLong));
  for (int64_t i = 0; i < depth; ++i) {
    const at::Tensor column = indices.select(-1, i).to(at::kLong);
    const int64_t size = data.size(i);
    if (column.numel() != 0 && (column.min().item<int64_t>() < -size || column.max().item<int64_t>() >= size)) {
      throw softcann::Error(softcann::ErrorKind::index_out_of_range,
                            c10::str("index out of range in dimension ", i, " of size ", size));
    }
    flat = flat * size + at::where(column < 0, column + size, column);
  }
  return flat.reshape({-1});
}
std::vector<int64_t> sizes_as_rows(const at::Tensor& data, int64_t depth) {
  std::vector<int64_t> sizes{-1};
  for (int64_t i = depth; i < data.dim(); ++i) sizes.push_back(data.size(i));
  return sizes;
}

void scatter_nd_into(const at::Tensor& target, const at::Tensor& indices, const at::Tensor& updates) {
  const auto sizes = sizes_as_rows(target, indices.size(-1));
  write_in_sizes(target, sizes, [&](at::Tensor& rows) {
    rows.index_copy_(0, flat_rows(target, indices), updates.reshape(sizes).to(target.scalar_type()));
  });
}

}  // namespace

OP(aclnnGatherNd) { put(out, self.reshape(sizes_as_rows(self, indices.size(-1))).index_select(0, flat_rows(self, indices))); }
// Indices of slices, or rows of indices of elements: which of them, the sizes of the updates say.
OP(aclnnTfScatterAdd) {
  const auto joined = [](at::IntArrayRef a, at::IntArrayRef b) {
    std::vector<int64_t> sizes = a.vec();
    sizes.insert(sizes.end(), b.begin(), b.end());
    return sizes;
  };
  const at::IntArrayRef sizes = varRef.sizes();
  const bool slices = updates.sizes() == at::IntArrayRef(joined(indices.sizes(), sizes.slice(1)));
  const at::Tensor rows = slices ? indices.unsqueeze(-1) : indices;
  const auto depth = rows.size(-1);
  TORCH_CHECK(
      slices || (depth <= varRef.dim() &&
                 updates.sizes() == at::IntArrayRef(joined(indices.sizes().slice(0, static_cast<size_t>(indices.dim() - 1)),
                                                           sizes.slice(static_cast<size_t>(depth))))),
      "aclnnTfScatterAdd: updates ", updates.sizes(), " for indices ", indices.sizes(), " of ", sizes);
  if (updates.numel() == 0) return;
  const auto each = sizes_as_rows(varRef, depth);
  write_in_sizes(varRef, each, [&](at::Tensor& target) { target.index_add_(0, flat_rows(varRef, rows), updates.reshape(each)); });
}
OP(aclnnScatterNdUpdate) { scatter_nd_into(varRef, indices, updates); }
OP(aclnnScatterNd) {
  put(out, data);
  scatter_nd_into(out, indices, updates);
}

OP(aclnnTake) {
  TORCH_CHECK(self.scalar_type() == out.scalar_type(), "aclnnTake: ", self.scalar_type(), " into ", out.scalar_type());
  write_signed_bits(out, [&](at::Tensor& bits) { at::cpu::take_outf(signed_bits(self), index.to(at::kLong), bits); });
}
OP(aclnnInplacePut) {
  at::Tensor target = accumulate ? summed_in(selfRef) : selfRef;
  const at::Tensor same = source.to(target.scalar_type());
  const InOrder in_order(same, accumulate);
  at::cpu::put_(target, index.to(at::kLong), same, accumulate);
  if (!target.is_same(selfRef)) selfRef.copy_(target);
}

namespace {

// Fills the front of an output that has room for the largest result, and tells the client how much it is.
void put_front(const at::Tensor& out, const at::Tensor& value) {
  TORCH_CHECK(value.numel() <= out.numel(), "the output holds ", out.numel(), " elements, the result has ", value.numel());
  if (value.numel()) {
    at::Tensor front = at::as_strided(out, {value.numel()}, {1});
    front.copy_(value.reshape({-1}));
  }
  set_view_shape(out, value.sizes());
}

}  // namespace

OP(aclnnMaskedSelect) { put_front(out, at::masked_select(self, mask.to(at::kBool))); }
OP(aclnnNonzero) { put_front(out, at::nonzero(signed_bits(self))); }
OP(aclnnNonzeroV2) { put_front(out, at::nonzero(signed_bits(self)).t()); }
OP(aclnnInplaceMaskedScatter) { selfRef.masked_scatter_(mask.to(at::kBool), source); }

OP(aclnnUnique) {
  const auto [value, inverse, counts] = at::_unique2(self, sorted, returnInverse, false);
  put_front(valueOut, value);
  put(inverseOut, inverse, returnInverse);
}
OP(aclnnUnique2) {
  const auto [value, inverse, counts] = at::_unique2(self, sorted, returnInverse || returnCounts, returnCounts);
  put_front(valueOut, value);
  put(inverseOut, inverse, returnInverse);
  if (returnCounts) put_front(countsOut, counts);
}
namespace {

// ATen compares whole slices of complex numbers by their parts, but knows no single complex numbers.
std::tuple<at::Tensor, at::Tensor, at::Tensor> unique_neighbours(const at::Tensor& self, std::optional<int64_t> dim, bool inverse,
                                                                 bool counts) {
  if (!self.is_complex()) return at::unique_consecutive(self, inverse, counts, dim);
  const at::Tensor parts = at::view_as_real(dim ? self : self.flatten());
  const int64_t along = dim ? at::maybe_wrap_dim(*dim, self.dim()) : 0;
  auto [value, places, lengths] = at::unique_dim_consecutive(parts, along, inverse, counts);
  if (!dim && inverse) places = places.view(self.sizes());
  return {at::view_as_complex(value.contiguous()), places, lengths};
}

}  // namespace

OP(aclnnUniqueConsecutive) {
  constexpr int64_t no_dim = 1000;  // the published client's way to say "flattened"
  const auto [value, inverse, counts] =
      unique_neighbours(self, dim == no_dim ? std::nullopt : std::optional<int64_t>(dim), returnInverse, returnCounts);
  put_front(valueOut, value);
  put(inverseOut, inverse, returnInverse);
  if (returnCounts) put_front(countsOut, counts);
}
OP(aclnnUniqueDim) {
  const auto [value, inverse, counts] = at::unique_dim(self, dim, sorted, returnInverse, true);
  put_front(valueOut, value);
  put(inverseOut, inverse, returnInverse);
  if (countsOut.defined() && countsOut.numel() >= counts.numel()) put_front(countsOut, counts);
}
