// Sequences of different lengths: torch.nn.TransformerEncoder packs padded ones into nested tensors, and jagged tensors are
// padded and packed again by two operators. Everything is made of operators on the one buffer that holds all sequences.
#include <ATen/NestedTensorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/Functions.h>
#include <ATen/ops/_nested_compute_contiguous_strides_offsets_native.h>
#include <ATen/ops/_nested_view_from_buffer_native.h>
#include <cmath>
#include <torch/library.h>

#include "generated/torch_npu_native_functions.h"

namespace torch_npu::native {
namespace {

at::Tensor nested_of(const at::Tensor& buffer, const at::Tensor& sizes) {
  return at::detail::make_tensor<at::native::NestedTensorImpl>(buffer.reshape({-1}), sizes);
}

// A batch of sequences [length, embed_dim], nested or padded.
struct Sequences {
  at::Tensor dense;    // padded, projected, [batch, heads, longest, size]
  at::Tensor lengths;  // on the host; undefined where all are equally long

  Sequences(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, int64_t heads) {
    at::Tensor projected;
    if (x.is_nested()) {
      const auto* impl = at::native::get_nested_tensor_impl(x);
      const auto& sizes = impl->get_nested_sizes();
      TORCH_CHECK(impl->opt_size(2).has_value() && *impl->opt_size(2) == weight.size(1),
                  "_native_multi_head_attention: the last dimension of each sequence has to be ", weight.size(1));
      const auto rows = at::linear(impl->get_buffer().view({-1, weight.size(1)}), weight, bias);
      auto wide = sizes.clone();
      wide.select(1, 1).fill_(weight.size(0));
      projected = nested_of(rows, wide).to_padded_tensor(0.0);
      lengths = sizes.select(1, 0);
    } else {
      projected = at::linear(x, weight, bias);
    }
    dense = projected.view({projected.size(0), projected.size(1), heads, weight.size(0) / heads}).transpose(1, 2);
  }

  // Which columns are no padding, [batch, 1, 1, longest].
  at::Tensor visible() const {
    if (!lengths.defined()) return {};
    const auto columns = at::arange(dense.size(2), lengths.options());
    return columns.lt(lengths.unsqueeze(1)).to(dense.device()).view({dense.size(0), 1, 1, dense.size(2)});
  }
};

std::tuple<at::Tensor, at::Tensor> nested_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                                    int64_t embed_dim, int64_t num_head, const at::Tensor& qkv_weight,
                                                    const at::Tensor& qkv_bias, const at::Tensor& proj_weight,
                                                    const at::Tensor& proj_bias, const std::optional<at::Tensor>& mask,
                                                    bool need_weights, bool average_attn_weights, std::optional<int64_t>) {
  TORCH_CHECK(!mask || !mask->defined(), "NestedTensor with mask is not supported yet");
  TORCH_CHECK(query.dim() == 3 && key.dim() == 3 && value.dim() == 3,
              "_native_multi_head_attention: query, key and value have to be of 3 dimensions, but got ", query.dim(), ", ",
              key.dim(), " and ", value.dim());
  TORCH_CHECK(qkv_weight.dim() == 2 && qkv_weight.size(0) == 3 * embed_dim && num_head > 0 && embed_dim % num_head == 0,
              "_native_multi_head_attention: qkv_weight ", qkv_weight.sizes(), " does not fit ", num_head,
              " heads and an embed_dim of ", embed_dim);
  auto part = [&](const at::Tensor& x, int64_t which) {
    return Sequences(x, qkv_weight.narrow(0, which * embed_dim, embed_dim), qkv_bias.narrow(0, which * embed_dim, embed_dim),
                     num_head);
  };
  const auto q = part(query, 0), k = part(key, 1), v = part(value, 2);
  const auto visible = k.visible();
  at::Tensor attended, weights;
  if (need_weights) {
    auto scores = at::matmul(q.dense, k.dense.transpose(-2, -1)).mul(1 / std::sqrt(static_cast<double>(q.dense.size(-1))));
    if (visible.defined()) scores = scores.masked_fill(visible.logical_not(), -INFINITY);
    const auto shares = at::softmax(scores, -1);
    attended = at::matmul(shares, v.dense);
    weights = average_attn_weights ? shares.mean(1) : shares;
    if (const auto rows = q.visible(); rows.defined()) {
      const auto padding = rows.transpose(-2, -1).logical_not();
      weights = weights.masked_fill(average_attn_weights ? padding.select(1, 0) : padding, 0);
    }
  } else {
    attended =
        at::scaled_dot_product_attention(q.dense, k.dense, v.dense, visible.defined() ? std::optional(visible) : std::nullopt);
  }
  attended = attended.transpose(1, 2).reshape({attended.size(0), attended.size(2), embed_dim});
  if (!query.is_nested()) return {at::linear(attended, proj_weight, proj_bias), weights};
  const auto& sizes = at::native::get_nested_tensor_impl(query)->get_nested_sizes();
  const auto packed = at::_nested_from_padded(attended, sizes, false);
  const auto rows = at::native::get_nested_tensor_impl(packed)->get_buffer().view({-1, embed_dim});
  return {nested_of(at::linear(rows, proj_weight, proj_bias), sizes), weights};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> nested_layer_norm(const at::Tensor& input, at::IntArrayRef normalized_shape,
                                                                 const std::optional<at::Tensor>& weight,
                                                                 const std::optional<at::Tensor>& bias, double eps) {
  const auto* impl = at::native::get_nested_tensor_impl(input);
  for (size_t i = 0; i < normalized_shape.size(); ++i) {
    const auto size = impl->opt_size(static_cast<int64_t>(i) - static_cast<int64_t>(normalized_shape.size()) + input.dim());
    TORCH_CHECK(size && *size == normalized_shape[i], "Given normalized_shape=", normalized_shape,
                ", expected the last dimensions of each tensor within the nested one to be of these sizes");
  }
  std::vector<int64_t> rows{-1};
  rows.insert(rows.end(), normalized_shape.begin(), normalized_shape.end());
  const auto [out, mean, rstd] = at::native_layer_norm(impl->get_buffer().view(rows), normalized_shape, weight, bias, eps);
  return {nested_of(out, impl->get_nested_sizes()), mean, rstd};
}

TORCH_LIBRARY_IMPL(aten, NestedTensorPrivateUse1, m) {
  m.impl("_native_multi_head_attention", nested_attention);
  m.impl("native_layer_norm", nested_layer_norm);
}

}  // namespace

// The sizes of a nested tensor are read on the host. They come from the device where torch.set_default_device("npu") made them.
at::Tensor _nested_view_from_buffer(const at::Tensor& self, const at::Tensor& nested_size, const at::Tensor& nested_strides,
                                    const at::Tensor& offsets) {
  return at::native::_nested_view_from_buffer(self, nested_size.cpu(), nested_strides.cpu(), offsets.cpu());
}

std::tuple<at::Tensor, at::Tensor> _nested_compute_contiguous_strides_offsets(const at::Tensor& nested_size) {
  return at::native::_nested_compute_contiguous_strides_offsets(nested_size.cpu());
}

// Level by level from the batch inwards: where in the next level's sequence of parts each element of the dense tensor is.
at::Tensor _jagged_to_padded_dense_forward(const at::Tensor& values, at::TensorList offsets, at::IntArrayRef max_lengths,
                                           double padding_value) {
  TORCH_CHECK(!offsets.empty() && offsets.size() == max_lengths.size(), "_jagged_to_padded_dense_forward: got ", offsets.size(),
              " offsets and ", max_lengths.size(), " max_lengths");
  auto indices = at::arange(offsets[0].size(0) - 1, offsets[0].options().dtype(at::kLong));
  at::Tensor inside;
  for (size_t level = 0; level < offsets.size(); ++level) {
    const auto ends = offsets[level].to(at::kLong);
    const auto start = ends.take(indices), length = ends.take(indices + 1) - start;
    const auto within = at::arange(max_lengths[level], indices.options());
    const auto here = within.lt(length.unsqueeze(-1));
    inside = inside.defined() ? inside.unsqueeze(-1).logical_and(here) : here;
    indices = at::where(inside, start.unsqueeze(-1) + within, 0);
  }
  const auto flat = values.dim() == 1 ? values.unsqueeze(-1) : values;
  auto sizes = indices.sizes().vec();
  sizes.insert(sizes.end(), flat.sizes().begin() + 1, flat.sizes().end());
  if (values.size(0) == 0) return values.new_full(sizes, padding_value);
  std::vector<int64_t> mask_sizes = indices.sizes().vec();
  mask_sizes.resize(sizes.size(), 1);
  return flat.index_select(0, indices.flatten()).view(sizes).masked_fill(inside.logical_not().view(mask_sizes), padding_value);
}

at::Tensor _padded_dense_to_jagged_forward(const at::Tensor& dense, at::TensorList offsets, std::optional<int64_t> total_L) {
  TORCH_CHECK(!offsets.empty() && dense.dim() > static_cast<int64_t>(offsets.size()),
              "_padded_dense_to_jagged_forward: a dense tensor of ", dense.dim(), " dimensions has no ", offsets.size(),
              " ragged ones");
  const int64_t total = total_L ? *total_L : offsets.back().select(0, -1).item<int64_t>();
  // From the innermost level outwards: which part an element is in, and where.
  auto element = at::arange(total, offsets[0].options().dtype(at::kLong));
  auto inside = at::zeros_like(element, element.options().dtype(at::kBool)).logical_not();
  auto flat = at::zeros_like(element);
  int64_t stride = 1;
  for (size_t level = offsets.size(); level-- > 0;) {
    const auto ends = offsets[level].to(at::kLong);
    const auto part = at::searchsorted(ends, element, false, true).sub_(1).clamp_(0, ends.size(0) - 2);
    const auto column = element - ends.take(part);
    const int64_t longest = dense.size(static_cast<int64_t>(level) + 1);
    inside = inside.logical_and(column.lt(longest));
    flat = flat + column.clamp_max(longest - 1) * stride;
    stride *= longest;
    element = part;
  }
  flat = flat + element * stride;
  const auto rows = dense.flatten(0, static_cast<int64_t>(offsets.size()));
  auto sizes = rows.sizes().vec();
  sizes[0] = total;
  if (rows.size(0) == 0) return dense.new_zeros(sizes);
  std::vector<int64_t> mask_sizes(sizes.size(), 1);
  mask_sizes[0] = total;
  return rows.index_select(0, flat).masked_fill(inside.logical_not().view(mask_sizes), 0);
}

}  // namespace torch_npu::native
