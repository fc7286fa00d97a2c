// Sums, means and maxima over bags of embeddings, and their gradients.
#include <ATen/Functions.h>

#include "aten/compose.h"
#include "aten/factory.h"
#include "generated/torch_npu_native_functions.h"
#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnEmbeddingBag);

namespace {

using Optional = std::optional<at::Tensor>;
using Four = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
constexpr int64_t kMean = 1, kMax = 2;

// 1 where an index counts, 0 where it is the padding.
at::Tensor counts(const at::Tensor& indices, int64_t padding_idx, at::ScalarType type) {
  return indices.ne(padding_idx).to(type);
}

}  // namespace

Four _embedding_bag(const at::Tensor& weight, const at::Tensor& indices, const at::Tensor& offsets, bool scale_grad_by_freq,
                    int64_t mode, bool sparse, const Optional& per_sample_weights, bool include_last_offset,
                    int64_t padding_idx) {
  TORCH_CHECK(indices.dim() == 1 || indices.dim() == 2, "input has to be a 1D or 2D Tensor, but got Tensor of dimension ",
              indices.dim());
  TORCH_CHECK(offsets.dim() == 1, "offsets has to be a 1D Tensor, but got Tensor of dimension ", offsets.dim());
  TORCH_CHECK(weight.dim() == 2, "weight has to be a 2D Tensor, but got Tensor of dimension ", weight.dim());
  TORCH_CHECK(at::isIntegralType(indices.scalar_type(), false) && at::isIntegralType(offsets.scalar_type(), false),
              "embedding_bag: expected integer indices and offsets, got ", indices.scalar_type(), " and ", offsets.scalar_type());
  TORCH_CHECK(
      !per_sample_weights || !per_sample_weights->defined() || (mode == 0 && per_sample_weights->numel() == indices.numel()),
      "embedding_bag: per_sample_weights need mode='sum' and one number for each index");
  const auto bags = offsets.size(0) - (include_last_offset ? 1 : 0), width = weight.size(1);
  const auto long_options = indices.options().dtype(at::kLong);
  // An index belongs to the last bag that begins at or before it.
  const auto start = offsets.to(at::kLong).narrow(0, 0, bags).contiguous();
  const auto order = at::arange(indices.numel(), long_options);
  const auto bag_of =
      bags == 0 ? at::zeros({indices.numel()}, long_options) : at::searchsorted(start, order, false, true).sub_(1);
  auto sizes = at::zeros({bags}, long_options);
  if (bags != 0) sizes.index_add_(0, bag_of, counts(indices, padding_idx, at::kLong));
  auto output = at::zeros({bags, width}, weight.options());
  auto largest = mode == kMax ? at::zeros({bags, width}, long_options) : at::zeros({bags}, long_options);
  if (output.numel() != 0 && indices.numel() != 0) {
    auto bag_buffer = empty_like_with(bag_of, bag_of.sizes()), size_buffer = empty_like_with(sizes, sizes.sizes());
    op::run(aclnnEmbeddingBag, weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
            include_last_offset, padding_idx, output, bag_buffer, size_buffer, largest);
  }
  const auto type = indices.scalar_type() == at::kLong || offsets.scalar_type() == at::kLong ? at::kLong : at::kInt;
  return {output, cast(bag_of, type), cast(sizes, type), cast(largest, type)};
}

Four _embedding_bag_forward_only(const at::Tensor& weight, const at::Tensor& indices, const at::Tensor& offsets,
                                 bool scale_grad_by_freq, int64_t mode, bool sparse, const Optional& per_sample_weights,
                                 bool include_last_offset, int64_t padding_idx) {
  return native::_embedding_bag(weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
                                include_last_offset, padding_idx);
}

at::Tensor _embedding_bag_dense_backward(const at::Tensor& grad, const at::Tensor& indices, const at::Tensor& offset2bag,
                                         const at::Tensor& bag_size, const at::Tensor& maximum_indices, int64_t num_weights,
                                         bool scale_grad_by_freq, int64_t mode, const Optional& per_sample_weights,
                                         int64_t padding_idx) {
  if (indices.numel() == 0 || grad.numel() == 0) return at::zeros({num_weights, grad.size(1)}, grad.options());
  if (mode == kMax) {
    const auto filled = bag_size.ne(0).unsqueeze(1).to(grad.scalar_type());
    return at::zeros({num_weights, grad.size(1)}, grad.options())
        .scatter_add_(0, maximum_indices.to(at::kLong), grad.mul(filled));
  }
  const auto place = indices.to(at::kLong), bag = offset2bag.to(at::kLong);
  auto scale = counts(indices, padding_idx, grad.scalar_type());
  if (mode == kMean) scale = scale.div(bag_size.to(grad.scalar_type()).clamp_min(1).index_select(0, bag));
  if (per_sample_weights && per_sample_weights->defined()) scale = scale.mul(*per_sample_weights);
  const auto rows = grad.index_select(0, bag).mul(scale.unsqueeze(1));
  return at::embedding_dense_backward(rows, place, num_weights, padding_idx, scale_grad_by_freq);
}

at::Tensor _embedding_bag_backward(const at::Tensor& grad, const at::Tensor& indices, const at::Tensor& offsets,
                                   const at::Tensor& offset2bag, const at::Tensor& bag_size, const at::Tensor& maximum_indices,
                                   int64_t num_weights, bool scale_grad_by_freq, int64_t mode, bool sparse,
                                   const Optional& per_sample_weights, int64_t padding_idx) {
  if (sparse) {
    return at::_embedding_bag_sparse_backward(grad, indices, offsets, offset2bag, bag_size, num_weights, scale_grad_by_freq, mode,
                                              per_sample_weights, padding_idx);
  }
  return native::_embedding_bag_dense_backward(grad, indices, offset2bag, bag_size, maximum_indices, num_weights,
                                               scale_grad_by_freq, mode, per_sample_weights, padding_idx);
}

at::Tensor _embedding_bag_per_sample_weights_backward(const at::Tensor& grad, const at::Tensor& weight, const at::Tensor& indices,
                                                      const at::Tensor&, const at::Tensor& offset2bag, int64_t mode,
                                                      int64_t padding_idx) {
  TORCH_CHECK(mode == 0, "embedding_bag_backward: per_sample_weights only supported for mode='sum'");
  if (indices.numel() == 0) return at::zeros({0}, grad.options());
  const auto products = grad.index_select(0, offset2bag.to(at::kLong)).mul(weight.index_select(0, indices.to(at::kLong))).sum(1);
  return products.mul(counts(indices, padding_idx, grad.scalar_type()));
}

}  // namespace torch_npu::native
