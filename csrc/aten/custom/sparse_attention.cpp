// The gradient of attention to some of the keys.
#include "aten/custom/shapes.h"
#include "aten/factory.h"
#include "generated/torch_npu_custom_functions.h"
#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnSparseFlashAttentionGrad);

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> npu_sparse_flash_attention_grad(
    const at::Tensor& query, const at::Tensor& key, const std::optional<at::Tensor>& value, const at::Tensor& sparse_indices,
    const at::Tensor& d_out, const at::Tensor& out, const at::Tensor& softmax_max, const at::Tensor& softmax_sum,
    double scale_value, int64_t sparse_block_size, const std::optional<at::Tensor>& query_rope,
    const std::optional<at::Tensor>& key_rope, const std::optional<at::Tensor>& actual_seq_qlen,
    const std::optional<at::Tensor>& actual_seq_kvlen, std::optional<std::string_view> layout, std::optional<int64_t> sparse_mode,
    std::optional<int64_t> pre_tokens, std::optional<int64_t> next_tokens, std::optional<int64_t> /*attention_mode*/) {
  constexpr int64_t kCausal = 3, kUnlimited = std::numeric_limits<int64_t>::max();
  constexpr bool kDeterministic = true;
  const int64_t mode = sparse_mode.value_or(kCausal);
  only_if((mode == 0 || mode == kCausal) && key.size(-2) == 1,
          "npu_sparse_flash_attention_grad: other sparse_mode than 0 and 3, and more heads of key than 1 are", query);
  const at::Tensor& values = given(value) ? *value : key;
  const auto like_given = [&](const std::optional<at::Tensor>& t) {
    return given(t) ? empty_like_with(*t, t->sizes()) : empty_like_with(query, {0});
  };
  auto dq = empty_like_with(query, query.sizes()), dk = empty_like_with(key, key.sizes());
  auto dv = empty_like_with(values, values.sizes()), dq_rope = like_given(query_rope), dk_rope = like_given(key_rope);
  op::run(aclnnSparseFlashAttentionGrad, query, key, values, sparse_indices, d_out, out, softmax_max, softmax_sum,
          actual_seq_qlen, actual_seq_kvlen, query_rope, key_rope, scale_value, sparse_block_size, layout.value_or("BSND"), mode,
          pre_tokens.value_or(kUnlimited), next_tokens.value_or(kUnlimited), kDeterministic, dq, dk, dv, filled(dq_rope),
          filled(dk_rope));
  if (given(value)) return {dq, dk, dv, dq_rope, dk_rope};
  return {dq, dk.add_(dv), empty_like_with(query, {0}), dq_rope, dk_rope};
}

}  // namespace torch_npu::native
