// Embedding tables.
#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/fitting.h"

using namespace softcann::op;

OP_COST(aclnnEmbedding, (require_whole_numbers("indices", indices), streamed_cost(indices, out, out))) {
  const at::Tensor index = indices.reshape({-1});
  if (out.is_contiguous() && out.scalar_type() == weight.scalar_type() && weight.dim() == 2) {
    at::Tensor rows = out.view({-1, weight.size(1)});
    at::cpu::index_select_outf(weight, 0, index, rows);
  } else {
    put(out, weight.index_select(0, index));
  }
}
OP(aclnnEmbeddingDenseBackward) {
  const at::Tensor index = indices.scalar_type() == at::kInt ? indices : indices.to(at::kLong);
  if (grad.scalar_type() == out.scalar_type() && !low_precision(grad)) {
    into(out, [&] {
      return at::embedding_dense_backward(grad, index, static_cast<int64_t>(numWeights), static_cast<int64_t>(paddingIdx),
                                          scaleGradByFreq);
    });
  } else {
    // Sums over repeated rows deserve float32.
    put(out, at::embedding_dense_backward(grad.to(at::kFloat), index, static_cast<int64_t>(numWeights),
                                          static_cast<int64_t>(paddingIdx), scaleGradByFreq));
  }
}
OP(aclnnEmbeddingRenorm) { at::embedding_renorm_(selfRef, indices, maxNorm, normType); }
OP(aclnnEmbeddingBag) {
  require(fractional(weight), weight, "embedding_bag");
  const at::Tensor index = indices.contiguous(), begins = offsets.to(indices.scalar_type()).contiguous();
  const auto [value, bag_of, sizes, largest] = at::_embedding_bag(
      weight, index, begins, scaleGradByFreq, mode, false,
      perSampleWeights.defined() ? maybe(perSampleWeights.contiguous()) : std::nullopt, includeLastOffset, paddingIdx);
  put(output, value);
  if (bag_of.numel() == offset2bag.numel()) {
    put(offset2bag, bag_of);
  } else if (offset2bag.numel() == index.numel()) {  // ATen does not tell the bags where it needs none
    put(offset2bag, at::searchsorted(begins, at::arange(index.numel(), begins.options()), false, /*right=*/true) - 1);
  }
  if (sizes.numel() == bagSize.numel()) put(bagSize, sizes);
  if (largest.numel() == maxIndices.numel()) put(maxIndices, largest);
}
