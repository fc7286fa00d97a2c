// Multi-head attention as one operator, which torch.nn's MultiheadAttention and TransformerEncoderLayer take where nothing
// has to be differentiated. Composed here; what it consists of is dispatched anew, so autocast sees it.
#include <cmath>

#include <ATen/Functions.h>

#include "generated/torch_npu_native_functions.h"

namespace torch_npu::native {
namespace {

// torch's numbers for what a mask is of; true hides.
enum MaskType : int64_t { kRowsAndColumns = 0, kPadding = 1, kEverything = 2 };

at::Tensor hidden_scores(const at::Tensor& mask, std::optional<int64_t> type) {
  TORCH_CHECK(type && *type >= kRowsAndColumns && *type <= kEverything,
              "_native_multi_head_attention: a mask needs a mask_type: 0 (rows x columns), 1 (batch x columns) or 2 (batch x "
              "heads x rows x columns)");
  const auto hidden = mask.to(at::kBool);
  if (*type == kRowsAndColumns) return hidden.view({1, 1, hidden.size(-2), hidden.size(-1)});
  if (*type == kPadding) return hidden.view({hidden.size(0), 1, 1, hidden.size(-1)});
  return hidden;
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> _native_multi_head_attention(const at::Tensor& query, const at::Tensor& key,
                                                                const at::Tensor& value, int64_t embed_dim, int64_t num_head,
                                                                const at::Tensor& qkv_weight, const at::Tensor& qkv_bias,
                                                                const at::Tensor& proj_weight, const at::Tensor& proj_bias,
                                                                const std::optional<at::Tensor>& mask, bool need_weights,
                                                                bool average_attn_weights, std::optional<int64_t> mask_type) {
  TORCH_CHECK(query.dim() == 3 && key.dim() == 3 && value.dim() == 3,
              "_native_multi_head_attention: query, key and value have to be of 3 dimensions, but got ", query.dim(), ", ",
              key.dim(), " and ", value.dim());
  TORCH_CHECK(query.size(2) == embed_dim && qkv_weight.dim() == 2 && qkv_weight.size(0) == 3 * embed_dim && num_head > 0 &&
                  embed_dim % num_head == 0,
              "_native_multi_head_attention: query ", query.sizes(), " and qkv_weight ", qkv_weight.sizes(), " do not fit ",
              num_head, " heads and an embed_dim of ", embed_dim);
  const int64_t size = embed_dim / num_head;
  auto heads = [&](const at::Tensor& x, int64_t part) {
    const auto projected =
        at::linear(x, qkv_weight.narrow(0, part * embed_dim, embed_dim), qkv_bias.narrow(0, part * embed_dim, embed_dim));
    return projected.view({x.size(0), x.size(1), num_head, size}).transpose(1, 2);
  };
  at::Tensor q, k, v;
  if (query.is_same(key) && key.is_same(value)) {
    const auto projected =
        at::linear(query, qkv_weight, qkv_bias).view({query.size(0), query.size(1), 3, num_head, size}).permute({2, 0, 3, 1, 4});
    q = projected.select(0, 0), k = projected.select(0, 1), v = projected.select(0, 2);
  } else {
    q = heads(query, 0), k = heads(key, 1), v = heads(value, 2);
  }
  const auto hidden = mask && mask->defined() ? hidden_scores(*mask, mask_type) : at::Tensor();
  at::Tensor result, weights;
  if (need_weights) {
    auto scores = at::matmul(q, k.transpose(-2, -1)).mul(1 / std::sqrt(static_cast<double>(size)));
    if (hidden.defined()) scores = scores.masked_fill(hidden, -INFINITY);
    const auto shares = at::softmax(scores, -1);
    result = at::matmul(shares, v);
    weights = average_attn_weights ? shares.mean(1) : shares;
  } else {
    result = at::scaled_dot_product_attention(q, k, v, hidden.defined() ? std::optional(hidden.logical_not()) : std::nullopt);
  }
  return {at::linear(result.transpose(1, 2).reshape(query.sizes()), proj_weight, proj_bias), weights};
}

}  // namespace torch_npu::native
