// npu_fusion_attention: the fused attention with all of CANN's options.
//
// Note [Dropout of attention]
// The mask has a bit for each score and is not kept: seed and offset, which the forward returns, make the same one
// again for the backward.
#include "aten/custom/dropout.h"
#include "aten/factory.h"
#include "core/generator.h"
#include "generated/torch_npu_custom_functions.h"
#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnFlashAttentionScore);
NPU_OPERATOR(aclnnFlashAttentionScoreGrad);
NPU_OPERATOR(aclnnFlashAttentionVarLenScore);
NPU_OPERATOR(aclnnFlashAttentionUnpaddingScoreGrad);

namespace {

constexpr int64_t kSoftmaxLanes = 8;  // each row's number is kept eight times

// Sizes that the layouts hide.
struct Extent {
  int64_t batch, rows, columns;
};

Extent extent_of(const at::Tensor& query, const at::Tensor& key, std::string_view layout) {
  if (layout == "SBH") return {query.size(1), query.size(0), key.size(0)};
  if (layout == "BNSD") return {query.size(0), query.size(2), key.size(2)};
  if (layout == "BSH" || layout == "BSND") return {query.size(0), query.size(1), key.size(1)};
  TORCH_CHECK_NOT_IMPLEMENTED(layout == "TND", "npu_fusion_attention: layout '", layout,
                              "' is not one of BSH, SBH, BSND, BNSD, TND");
  return {1, query.size(0), key.size(0)};
}

bool given(const std::optional<at::Tensor>& tensor) { return tensor && tensor->defined(); }

void refuse(const char* op, const char* argument, bool refused) {
  TORCH_CHECK_NOT_IMPLEMENTED(!refused, op, ": ", argument, " is not supported");
}

at::Tensor drop_mask(const at::Tensor& query, int64_t numel, double keep_prob, int64_t seed, int64_t offset) {
  return numel == 0 ? at::Tensor() : dropout_mask(query, numel, 1 - keep_prob, seed, offset);
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, int64_t, int64_t, int64_t> npu_fusion_attention(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t head_num, std::string_view input_layout,
    const std::optional<at::Tensor>& pse, const std::optional<at::Tensor>& padding_mask,
    const std::optional<at::Tensor>& atten_mask, double scale, double keep_prob, int64_t pre_tockens, int64_t next_tockens,
    int64_t inner_precise, at::OptionalIntArrayRef prefix, at::OptionalIntArrayRef actual_seq_qlen,
    at::OptionalIntArrayRef actual_seq_kvlen, int64_t sparse_mode, bool /*gen_mask_parallel*/, bool /*sync*/,
    std::string_view softmax_layout, const std::optional<at::Tensor>& sink, const std::optional<at::Tensor>& dropout_mask,
    int64_t seed, int64_t offset) {
  const char* op = "npu_fusion_attention";
  refuse(op, "padding_mask", given(padding_mask));
  refuse(op, "sink", given(sink));
  refuse(op, "dropout_mask", given(dropout_mask));
  refuse(op, "softmax_layout", !softmax_layout.empty());
  refuse(op, "prefix", prefix && !prefix->empty());
  const auto extent = extent_of(query, key, input_layout);
  const bool packed = input_layout == "TND";
  refuse(op, "dropout with layout TND", packed && keep_prob < 1);
  int64_t numel = 0;
  if (keep_prob < 1) {
    numel = extent.batch * head_num * extent.rows * extent.columns;
    if (seed == 0) {
      const auto state = core::philox_state(std::nullopt, numel);
      seed = static_cast<int64_t>(state.first);
      offset = static_cast<int64_t>(state.second);
    }
  }
  const auto drop = drop_mask(query, numel, keep_prob, seed, offset);
  const at::DimVector stats = packed ? at::DimVector{extent.rows, head_num, kSoftmaxLanes}
                                     : at::DimVector{extent.batch, head_num, extent.rows, kSoftmaxLanes};
  auto maximum = empty_like_with(query, stats, at::kFloat), sum = empty_like_with(query, stats, at::kFloat);
  auto softmax = empty_like_with(query, {0}), out = empty_like_with(query, query.sizes());
  if (packed) {
    op::run(aclnnFlashAttentionVarLenScore, query, key, value, pse, drop, padding_mask, atten_mask, prefix, actual_seq_qlen,
            actual_seq_kvlen, scale, keep_prob, pre_tockens, next_tockens, head_num, input_layout, inner_precise, sparse_mode,
            maximum, sum, softmax, out);
  } else {
    op::run(aclnnFlashAttentionScore, query, key, value, pse, drop, padding_mask, atten_mask, prefix, scale, keep_prob,
            pre_tockens, next_tockens, head_num, input_layout, inner_precise, sparse_mode, maximum, sum, softmax, out);
  }
  return {out, maximum, sum, softmax, numel ? seed : 0, numel ? offset : 0, numel};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> npu_fusion_attention_grad(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& dy, int64_t head_num,
    std::string_view input_layout, const std::optional<at::Tensor>& pse, const std::optional<at::Tensor>& padding_mask,
    const std::optional<at::Tensor>& atten_mask, const std::optional<at::Tensor>& softmax_max,
    const std::optional<at::Tensor>& softmax_sum, const std::optional<at::Tensor>& softmax_in,
    const std::optional<at::Tensor>& attention_in, double scale_value, double keep_prob, int64_t pre_tockens,
    int64_t next_tockens, int64_t inner_precise, int64_t seed, int64_t offset, int64_t numels, at::OptionalIntArrayRef prefix,
    at::OptionalIntArrayRef actual_seq_qlen, at::OptionalIntArrayRef actual_seq_kvlen, int64_t sparse_mode,
    bool /*gen_mask_parallel*/, bool /*sync*/, std::string_view /*softmax_layout*/, const std::optional<at::Tensor>& /*sink*/) {
  const auto drop = drop_mask(query, numels, keep_prob, seed, offset);
  auto dq = empty_like_with(query, query.sizes()), dk = empty_like_with(key, key.sizes());
  auto dv = empty_like_with(value, value.sizes());
  auto dpse = empty_like_with(query, given(pse) ? pse->sizes() : at::IntArrayRef{0});
  if (input_layout == "TND") {
    op::run(aclnnFlashAttentionUnpaddingScoreGrad, query, key, value, dy, pse, drop, padding_mask, atten_mask, softmax_max,
            softmax_sum, softmax_in, attention_in, prefix, actual_seq_qlen, actual_seq_kvlen, scale_value, keep_prob,
            pre_tockens, next_tockens, head_num, input_layout, inner_precise, sparse_mode, dq, dk, dv, dpse);
  } else {
    op::run(aclnnFlashAttentionScoreGrad, query, key, value, dy, pse, drop, padding_mask, atten_mask, softmax_max, softmax_sum,
            softmax_in, attention_in, prefix, scale_value, keep_prob, pre_tockens, next_tockens, head_num, input_layout,
            inner_precise, sparse_mode, dq, dk, dv, dpse);
  }
  return {dq, dk, dv, dpse, empty_like_with(query, {0})};
}

}  // namespace torch_npu::native
