// Moving elements without changing them: joining, splitting, permuting, repeating, slicing.
#include "op/fast_path.h"
#include <algorithm>
#include <cmath>

#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/counts.h"
#include "op/kernels/fitting.h"
#include "op/kernels/parts.h"
#include "op/kernels/transpose.h"

using namespace softcann::op;

namespace {

double parts_cost(at::TensorList tensors, const at::Tensor& out) {
  return streamed_cost(out, out) + list_element_ns * static_cast<double>(tensors.size());
}

}  // namespace

OP_FULL(aclnnCat, (require_joinable(tensors, dim), parts_cost(tensors, out)),
        softcann::op::fast::concatenate(tensors, dim, out)) {
  at::cpu::cat_outf(tensors, dim, out);
}
// Not by at::_stack, which takes the first tensor's elements in the order of memory, whatever its strides.
OP_COST(aclnnStack, (require_stackable(tensors, dim), parts_cost(tensors, out))) {
  std::vector<at::Tensor> slices;
  for (const at::Tensor& tensor : tensors) slices.push_back(tensor.unsqueeze(dim));
  if (!softcann::op::fast::concatenate(slices, dim, out)) at::cpu::cat_outf(slices, dim, out);
}
OP(aclnnChunkCat) { put(out, at::_chunk_cat(tensors, dim, numChunks)); }

namespace {

void split_into(at::TensorList out, const at::Tensor& self, int64_t dim) {
  int64_t start = 0;
  for (const at::Tensor& part : out) {
    part.copy_(self.narrow(dim, start, part.size(dim)));
    start += part.size(dim);
  }
}

}  // namespace

OP(aclnnSplitTensor) { split_into(out, self, dim); }
OP(aclnnSplitWithSize) { split_into(out, self, dim); }

OP(aclnnPermute) {
  const at::Tensor view = self.permute(dims);
  if (!copy_transposed(out, view)) out.copy_(view);
}
OP(aclnnFlip) {
  into(out, [&] { return at::flip(self, dims); });
}
OP(aclnnRoll) {
  into(out, [&] { return at::roll(x, shifts, dims); });
}
OP(aclnnFlatten) {  // to [what is before the axis, the rest]
  const int64_t rows = c10::size_to_dim_(at::maybe_wrap_dim(axis, self.dim() + 1), self.sizes());
  put(out, self.reshape({rows, rows == 0 ? 0 : self.numel() / rows}));
}
OP(aclnnExpand) { out.copy_(self.expand(size)); }
OP(aclnnExpandv) { out.copy_(self.expand(shape)); }
OP(aclnnRepeat) {
  // Before they are computed: repeats that do not go with the result may ask for more than the machine has.
  int64_t count = self.numel();
  const bool fits =
      std::none_of(repeats.begin(), repeats.end(), [&](int64_t n) { return __builtin_mul_overflow(count, n, &count); });
  TORCH_CHECK(fits && count == out.numel(), "the result has ", out.numel(), " elements, not ", self.numel(), " times ", repeats);
  into(out, [&] { return self.repeat(repeats); });
}
namespace {

// So that their sum, which ATen compares with the size of the result, does not run over.
const at::Tensor& as_repeats(const at::Tensor& repeats, int64_t rows) {
  group_ends(repeats, false, rows);
  return repeats;
}

}  // namespace

OP(aclnnRepeatInterleave) { put(out, at::repeat_interleave(self.reshape({-1}), as_repeats(repeats, outputSize), 0, outputSize)); }
OP(aclnnRepeatInterleaveWithDim) { put(out, at::repeat_interleave(self, as_repeats(repeats, outputSize), dim, outputSize)); }
OP(aclnnRepeatInterleaveInt) { put(out, at::repeat_interleave(self.reshape({-1}), repeats, 0, outputSize)); }
OP(aclnnRepeatInterleaveIntWithDim) { put(out, at::repeat_interleave(self, repeats, dim, outputSize)); }
OP(aclnnRepeatInterleaveTensor) {
  put(out, at::repeat_interleave(as_repeats(repeats, outputSize), std::optional<int64_t>(outputSize)));
}
OP(aclnnRepeatInterleaveGrad) {
  const int64_t count = out.size(axis);
  const at::Tensor times = repeats.numel() == 1 ? repeats.reshape({1}).expand({count}) : repeats;
  at::Tensor wide = at::zeros(out.sizes(), out.options().dtype(low_precision(out) ? at::kFloat : out.scalar_type()));
  wide.index_add_(axis, at::repeat_interleave(as_repeats(times, yGrad.size(axis)).contiguous()), yGrad.to(wide.scalar_type()));
  put(out, wide);
}

OP(aclnnSlice) { out.copy_(self.slice(dim, start, end, step)); }
OP(aclnnSliceV2) {
  at::Tensor view = self;
  for (size_t i = 0; i < starts.size(); ++i) {
    view = view.slice(axes.empty() ? static_cast<int64_t>(i) : axes[i], starts[i], ends[i], steps.empty() ? 1 : steps[i]);
  }
  out.copy_(view);
}

namespace {

// numpy's slicing rules with masks, as TensorFlow writes them; steps are positive.
at::Tensor strided_slice(const at::Tensor& self, at::IntArrayRef begin, at::IntArrayRef end, at::IntArrayRef strides,
                         int64_t begin_mask, int64_t end_mask, int64_t ellipsis_mask, int64_t new_axis_mask,
                         int64_t shrink_mask) {
  at::Tensor view = self;
  int64_t dim = 0;
  const auto count = static_cast<int64_t>(begin.size());
  const auto bit = [](int64_t mask, int64_t i) { return (mask >> i & 1) != 0; };
  for (int64_t i = 0; i < count; ++i) {
    if (bit(ellipsis_mask, i)) {
      int64_t rest = 0;
      for (int64_t j = i + 1; j < count; ++j) rest += !bit(new_axis_mask, j);
      dim = view.dim() - rest;
    } else if (bit(new_axis_mask, i)) {
      view = view.unsqueeze(dim++);
    } else if (bit(shrink_mask, i)) {
      view = view.select(dim, begin[i]);
    } else {
      const int64_t step = strides.empty() ? 1 : strides[i];
      TORCH_CHECK(step > 0, "strided slice: step ", step, " is not positive");
      const std::optional<int64_t> first = bit(begin_mask, i) ? std::nullopt : std::optional(begin[i]);
      const std::optional<int64_t> last = bit(end_mask, i) ? std::nullopt : std::optional(end[i]);
      view = view.slice(dim++, first, last, step);
    }
  }
  return view;
}

}  // namespace

OP(aclnnStridedSlice) {
  put(out, strided_slice(self, begin, end, strides, beginMask, endMask, ellipsisMask, newAxisMask, shrinkAxisMask));
}
OP(aclnnStridedSliceAssignV2) {
  at::Tensor view = varRef;
  for (size_t i = 0; i < begin.size(); ++i) {
    view = view.slice(axesOptional.empty() ? static_cast<int64_t>(i) : axesOptional[i], begin[i], end[i],
                      strides.empty() ? 1 : strides[i]);
  }
  view.copy_(inputValue);
}

OP(aclnnDiag) { put(out, at::diag(self, diagonal)); }
OP(aclnnDiagFlat) { put(out, at::diagflat(self, diagonal)); }
OP(aclnnDiagPart) { put(yOut, at::diagonal(x)); }
OP(aclnnOneHot) {
  TORCH_CHECK(out.dim() == self.dim() + 1, "aclnnOneHot: out ", out.sizes(), " for self ", self.sizes());
  const int64_t dim = at::maybe_wrap_dim(axis, out.dim());
  TORCH_CHECK(out.size(dim) == numClasses, "aclnnOneHot: out ", out.sizes(), " for ", numClasses, " classes");
  const at::Tensor classes = at::arange(numClasses, self.options());
  std::vector<int64_t> sizes(static_cast<size_t>(out.dim()), 1);
  sizes[static_cast<size_t>(dim)] = numClasses;
  const at::Tensor hit = self.unsqueeze(dim) == classes.view(sizes);
  put(out, at::where(hit, onValue.to(out.scalar_type()), offValue.to(out.scalar_type())));
}
OP(aclnnConfusionTranspose) { put(out, transpose_first ? x.permute(perm).reshape(shape) : x.reshape(shape).permute(perm)); }
OP(aclnnChannelShuffle) { put(out, at::channel_shuffle(self, groups)); }
namespace {

// ATen goes through the gradient as the sizes say.
void require_windows(const at::Tensor& gradient, at::IntArrayRef sizes, int64_t dim, int64_t size, int64_t step) {
  if (sizes.empty()) return;
  at::DimVector expected(sizes);
  int64_t& along = expected[static_cast<size_t>(at::maybe_wrap_dim(dim, static_cast<int64_t>(sizes.size())))];
  TORCH_CHECK(step > 0 && size >= 0 && size <= along, "unfold: windows of ", size, " at every ", step, " of ", along);
  along = (along - size) / step + 1;
  expected.push_back(size);
  TORCH_CHECK(gradient.sizes() == at::IntArrayRef(expected), "unfold: a gradient ", gradient.sizes(), " where ",
              at::IntArrayRef(expected), " is expected");
}

}  // namespace

OP(aclnnUnfoldGrad) {
  require_windows(gradOut, inputSizes, dim, size, step);
  into(gradIn, [&] { return at::unfold_backward(gradOut, inputSizes, dim, size, step); });
}
OP(aclnnIm2col) {
  if (!out.is_contiguous()) return put(out, at::im2col(self, kernelSize, dilation, padding, stride));  // ATen's ignores strides
  at::cpu::im2col_outf(self, kernelSize, dilation, padding, stride, out);
}
OP(aclnnIm2colBackward) {
  if (!out.is_contiguous()) return put(out, at::col2im(gradOutput, inputSize, kernelSize, dilation, padding, stride));
  at::cpu::col2im_outf(gradOutput, inputSize, kernelSize, dilation, padding, stride, out);
}
OP(aclnnAffineGrid) { put(out, at::affine_grid_generator(theta, size, alignCorners)); }
OP(aclnnAsStrided) {
  writable(yOut).copy_(at::as_strided(
      x, size, stride, storageOffsetOptional.empty() ? std::nullopt : std::optional<int64_t>(storageOffsetOptional[0])));
}
OP(aclnnViewCopy) {
  for (size_t i = 0; i < in.size(); ++i) out.at(i).copy_(in[i]);
}
// Data formats are the client's notion: memory here is always in the base format.
OP(aclnnTensorMove) { put(yOut, x); }

// [batch, tokens, 3 * size] with its bias as three times [batch, heads, tokens, size / heads], the queries scaled.
OP(aclnnTransformBiasRescaleQkv) {
  const int64_t batch = qkv.size(0), tokens = qkv.size(1), size = equal_parts(equal_parts(qkv.size(2), 3), numHeads);
  const at::Tensor parts = (widened(qkv) + widened(qkvBias)).reshape({batch, tokens, 3, numHeads, size}).permute({2, 0, 3, 1, 4});
  put(qOut, parts[0] / std::sqrt(static_cast<double>(size)));
  put(kOut, parts[1]);
  put(vOut, parts[2]);
}
