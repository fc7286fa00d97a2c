// Reductions.
#include <bitset>
#include <ATen/MemoryOverlap.h>

#include "op/fast_path.h"
#include "op/simd/float_loops.h"
#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/argmax.h"
#include "op/simd/thresholds.h"

using namespace softcann::op;
namespace fast = softcann::op::fast;

namespace {

std::optional<at::ScalarType> known(at::ScalarType type) {
  return type == at::ScalarType::Undefined ? std::nullopt : std::optional<at::ScalarType>(type);
}

// Reductions read much and write little.
double reduction(const at::Tensor& self, double ns_per_element = 0.3) {
  constexpr double call_ns = 1500;
  return call_ns + (self.defined() ? ns_per_element * static_cast<double>(self.numel()) : 0);
}

void all_dims(const at::Tensor& self, c10::SmallVector<int64_t, 8>& dims) {
  for (int64_t i = 0; i < self.dim(); ++i) dims.push_back(i);
}

// The columns' sums of a small matrix, a bias's gradient: ATen's iterator takes longer than the additions.
bool small_column_sums(const at::Tensor& self, at::IntArrayRef dims, const at::Tensor& out) {
  constexpr int64_t most_rows = 1 << 10;  // of which one float after the other is added
  if (dims.size() != 1 || dims[0] != 0 || self.dim() != 2 || self.numel() > threshold::column_sum_elements ||
      self.size(0) > most_rows)
    return false;
  if (self.scalar_type() != at::kFloat || out.scalar_type() != at::kFloat || !self.is_contiguous() || !out.is_contiguous())
    return false;
  if (out.numel() != self.size(1) || at::get_overlap_status(self, out) != at::MemOverlapStatus::No) return false;
  loops::column_sums(fast::floats(out), fast::floats(self), self.size(0), self.size(1));
  return true;
}

// The mean of whole numbers into whole numbers is cut to one.
void mean(const at::Tensor& self, at::IntArrayRef dims, bool keep, at::Tensor& out) {
  const auto whole = [](const at::Tensor& tensor) { return c10::isIntegralType(tensor.scalar_type(), false); };
  if (!whole(out) || !whole(self)) {
    at::cpu::mean_outf(self, maybe(dims), keep, out.scalar_type(), out);
    return;
  }
  const at::Tensor sum = at::cpu::sum(self, maybe(dims), keep, at::kLong);
  const int64_t count = self.numel() / std::max<int64_t>(sum.numel(), 1);
  at::cpu::div_outf(sum, at::scalar_tensor(std::max<int64_t>(count, 1), at::kLong), "trunc", out);
}

}  // namespace

OP_FULL(aclnnReduceSum, reduction(self), small_column_sums(self, dims, out)) {
  at::cpu::sum_outf(self, maybe(dims), keepDims, out.scalar_type(), out);
}
OP_COST(aclnnReduceNansum, reduction(self)) {
  require(!self.is_complex(), self, "nansum");
  at::cpu::nansum_outf(self, maybe(dim), keepDim, out.scalar_type(), out);
}
OP_COST(aclnnMean, reduction(self)) { mean(self, dim, keepDim, out); }
OP_COST(aclnnMeanV2, reduction(self)) {
  if (dim.empty() && noopWithEmptyAxes) {
    out.copy_(self);
  } else {
    mean(self, dim, keepDim, out);
  }
}
OP_COST(aclnnProd, reduction(self)) {
  if (self.dim() == 1) {
    at::cpu::prod_outf(self, 0, false, out.scalar_type(), out);
  } else {
    out.copy_(at::cpu::prod(self, known(dtype)));
  }
}
OP_COST(aclnnProdDim, reduction(self)) { at::cpu::prod_outf(self, dim, keepDim, out.scalar_type(), out); }

OP_COST(aclnnAll, reduction(self)) { at::cpu::all_outf(self, maybe(dim), keepdim, out); }
OP_COST(aclnnAny, reduction(self)) { at::cpu::any_outf(self, maybe(dim), keepdim, out); }

OP_COST(aclnnMax, reduction(self)) { at::cpu::max_outf(self, out); }
OP_COST(aclnnMin, reduction(self)) { at::cpu::min_outf(self, out); }
OP_COST(aclnnAmax, reduction(self)) { at::cpu::amax_outf(self, dim, keepDim, out); }
OP_COST(aclnnAmin, reduction(self)) { at::cpu::amin_outf(self, dim, keepDim, out); }
OP_COST(aclnnMaxV2, reduction(self)) {
  if (dims.empty() && noopWithEmptyDims) {
    out.copy_(self);
  } else {
    at::cpu::amax_outf(self, dims, keepDims, out);
  }
}
OP_COST(aclnnMaxDim, reduction(self, 1)) {
  if (argmax_along(self, dim, true, out, indices)) return;
  with_long(indices, [&](at::Tensor& positions) { at::cpu::max_outf(self, dim, keepdim, out, positions); });
}
OP_COST(aclnnMinDim, reduction(self, 1)) {
  if (argmax_along(self, dim, false, out, indices)) return;
  with_long(indices, [&](at::Tensor& positions) { at::cpu::min_outf(self, dim, keepdim, out, positions); });
}
OP_COST(aclnnArgMax, reduction(self, 1)) {
  if (self.scalar_type() != at::kBool && argmax_along(self, dim, true, {}, out)) return;
  with_long(out, [&](at::Tensor& positions) { at::cpu::argmax_outf(self, dim, keepdim, positions); });
}
OP_COST(aclnnArgMin, reduction(self, 1)) {
  if (self.scalar_type() != at::kBool && argmax_along(self, dim, false, {}, out)) return;
  with_long(out, [&](at::Tensor& positions) { at::cpu::argmin_outf(self, dim, keepdim, positions); });
}
OP_COST(aclnnAminmaxAll, reduction(self)) {
  require(!self.is_complex(), self, "aminmax");
  at::cpu::aminmax_outf(self, std::nullopt, false, minOut, maxOut);
}
OP_COST(aclnnAminmaxDim, reduction(self)) {
  require(!self.is_complex(), self, "aminmax");
  at::cpu::aminmax_outf(self, dim, keepDim, minOut, maxOut);
}
OP_COST(aclnnAminmax, 2 * reduction(self)) {
  require(!self.is_complex(), self, "aminmax");
  if (dim.size() == 1) {
    at::cpu::aminmax_outf(self, dim[0], keepDim, minOut, maxOut);
  } else {
    at::cpu::amin_outf(self, dim, keepDim, minOut);
    at::cpu::amax_outf(self, dim, keepDim, maxOut);
  }
}

namespace {

// ATen names the dtype it computes in, which of a complex operand is the complex one.
at::ScalarType norm_type(const at::Tensor& self, const at::Tensor& out) {
  return self.is_complex() ? c10::toComplexType(out.scalar_type()) : out.scalar_type();
}

// Of float16 through float32, which has vectors.
void vector_norm(const at::Tensor& self, const at::Scalar& order, at::OptionalIntArrayRef dim, bool keepdim, at::Tensor& out) {
  if (self.scalar_type() != at::kHalf || out.scalar_type() != at::kHalf) {
    at::cpu::linalg_vector_norm_outf(self, order, dim, keepdim, norm_type(self, out), out);
    return;
  }
  PlainResult wide(out);
  at::cpu::linalg_vector_norm_outf(widened(self), order, dim, keepdim, at::kFloat, wide.value());
  wide.finish();
}

}  // namespace

OP_COST(aclnnNorm, reduction(self)) { vector_norm(self, pScalar, maybe(dim), keepdim, out); }
OP_COST(aclnnLinalgVectorNorm, reduction(self)) { vector_norm(self, ord, maybe(dims), keepDims, out); }
OP_COST(aclnnLogSumExp, 4 * reduction(self)) {
  c10::SmallVector<int64_t, 8> dims(dim.begin(), dim.end());
  if (dims.empty()) all_dims(self, dims);
  at::logsumexp_out(out, self, dims, keepDim);
}

OP_COST(aclnnMedian, reduction(self, 10)) { valuesOut.copy_(at::cpu::median(self)); }
OP_COST(aclnnNanMedian, reduction(self, 10)) { out.copy_(at::cpu::nanmedian(self)); }
// ATen's kernel steps over the elements as if an expanded tensor had them one by one, and reads beyond its end.
at::Tensor apart(const at::Tensor& self) {
  return at::has_internal_overlap(self) == at::MemOverlap::No ? self : self.contiguous();
}

OP_COST(aclnnMedianDim, reduction(self, 10)) {
  with_long(indicesOut, [&](at::Tensor& positions) { at::cpu::median_outf(apart(self), dim, keepDim, valuesOut, positions); });
}
OP_COST(aclnnNanMedianDim, reduction(self, 10)) {
  with_long(indicesOut, [&](at::Tensor& positions) { at::cpu::nanmedian_outf(apart(self), dim, keepDim, valuesOut, positions); });
}

OP_COST(aclnnHistc, reduction(self, 3)) {
  require(!self.is_complex() && self.scalar_type() != at::kBool, self, "histc");
  if (c10::isIntegralType(self.scalar_type(), false)) {  // CANN counts whole numbers too, in their own type
    out.copy_(at::cpu::histc(self.to(at::kDouble), bins, min, max));
  } else {
    PlainResult result(out);
    at::cpu::histc_outf(widened(self), bins, min, max, result.value());
    result.finish();
  }
}
OP_COST(aclnnBincount, reduction(self, 3)) {
  // Before ATen makes as many bins as the largest number asks for.
  TORCH_CHECK(minlength <= out.numel() && (self.numel() == 0 || self.max().item<int64_t>() < out.numel()),
              "aclnnBincount: more than the ", out.numel(), " bins of out");
  put(out, at::cpu::bincount(self, maybe(weights), minlength));
}
OP(aclnnTrace) { out.copy_(at::cpu::trace(self.scalar_type() == at::kBool ? self.to(at::kLong) : self)); }
OP(aclnnRenorm) {
  require(fractional(self) || self.is_complex(), self, "renorm");
  at::cpu::renorm_outf(self, p, dim, maxNorm, out);
}
OP(aclnnInplaceRenorm) { at::cpu::renorm_outf(selfRef, p, dim, maxNorm, selfRef); }

// Sum, maximum, minimum over a list of tensors of one shape.
OP(aclnnAddN) {
  TORCH_CHECK(!tensors.empty(), "tensors is empty");
  if (tensors.size() == 1) {
    out.copy_(tensors[0]);
    return;
  }
  at::cpu::add_outf(tensors[0], tensors[1], 1, out);
  for (size_t i = 2; i < tensors.size(); ++i) at::cpu::add_outf(out, tensors[i], 1, out);
}

namespace {

// Element by element over all tensors, which broadcast.
template <class Combine>
void over_all(at::TensorList tensors, at::Tensor& out, Combine combine) {
  TORCH_CHECK(!tensors.empty(), "there are no tensors");
  at::Tensor result = tensors[0];
  for (const at::Tensor& other : tensors.slice(1)) result = combine(result, other);
  put(out, result);
}

}  // namespace

OP(aclnnMaxN) {
  over_all(tensors, out, [](const at::Tensor& a, const at::Tensor& b) { return at::cpu::maximum(a, b); });
}
OP(aclnnMinN) {
  over_all(tensors, out, [](const at::Tensor& a, const at::Tensor& b) { return at::cpu::minimum(a, b); });
}
OP(aclnnSum) {
  over_all(tensors, out, [](const at::Tensor& a, const at::Tensor& b) { return at::cpu::add(a, b); });
}

namespace {

double sum_of_axes(const at::Tensor& data, at::IntArrayRef axes) {
  std::bitset<64> seen;
  const int64_t rank = given(data) ? data.dim() : 0;
  for (const int64_t axis : axes) {
    const int64_t place = axis < 0 ? axis + rank : axis;
    if (place < 0 || place >= rank) invalid("axes holds %ld, of a tensor of %ld dimensions", long(axis), long(rank));
    if (seen.test(static_cast<size_t>(place))) invalid("axes holds dimension %ld twice", long(place));
    seen.set(static_cast<size_t>(place));
  }
  return reduction(data);
}

}  // namespace

// The logarithm of the sum; without axes that of all, or nothing is done.
OP_COST(aclnnReduceLogSum, sum_of_axes(data, axes)) {
  if (axes.empty() && noopWithEmptyAxes) return put(reduce, data);
  put(reduce, at::log(at::sum(widened(data), maybe(axes), keepDims)));
}
