// CANN's attention operators for inference: caches, pages and lengths around attention_core.h.
#include <algorithm>
#include <limits>

#include "op/kernel.h"
#include "op/kernels/attention_sequences.h"
#include "op/kernels/attention_inputs.h"
#include "op/kernels/common.h"
#include "op/kernels/pages.h"
#include "op/kernels/parts.h"

using namespace softcann::op;

namespace {

// Inference: no statistics, no dropout, lengths per batch.
struct Inference {
  at::IntArrayRef query_lengths, key_lengths;
  int64_t heads, kv_heads;  // the latter 0: as many
  Sparse sparse;
  double scale;
  std::string_view layout;
};
void infer(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& bias,
           const at::Tensor& mask, const Inference& inference, const at::Tensor& out, const at::Tensor& logsumexp = {}) {
  const std::string_view layout = inference.layout == "BNSD_BSND" ? "BNSD" : inference.layout;
  const at::Tensor none;
  Attention a =
      make_attention(query, key, value, {bias, none, mask}, {inference.scale, 1, inference.sparse, inference.heads, 0, layout});
  const at::IntArrayRef lengths = inference.key_lengths;
  const int64_t columns = a.key.size(2);
  const int64_t kv_heads = inference.kv_heads ? inference.kv_heads : inference.heads;
  TORCH_CHECK(a.key.size(1) == kv_heads, "attention: ", kv_heads, " heads, and keys of ", key.sizes(), " in ", layout);
  require_lengths(inference.query_lengths, a.query.size(0), a.query.size(2));
  // The first versions have one list for queries and keys.
  require_lengths(lengths, a.query.size(0), std::max(columns, a.query.size(2)));
  if (std::any_of(lengths.begin(), lengths.end(), [&](int64_t length) { return length < columns; })) {
    const auto count = std::min(lengths.size(), static_cast<size_t>(a.query.size(0)));
    const at::Tensor limit = at::tensor(lengths.slice(0, count), at::kLong).view({-1, 1, 1, 1});
    const at::Tensor beyond = at::arange(columns, at::kLong) >= limit;
    a.hidden = a.hidden.defined() ? at::logical_or(a.hidden, beyond) : beyond;
  }
  const std::string_view out_layout = inference.layout == "BNSD_BSND" ? "BSND" : layout;
  attention_forward(a, to_heads(out, out_layout, a.value.size(-1)), logsumexp);
}
// A cache in pages, [pages, rows, heads * size] or [pages, heads, rows, size], as each sequence's own rows in `layout`. What the
// table has behind a sequence's last page means nothing.
at::Tensor from_pages(const at::Tensor& cache, const at::Tensor& table, at::IntArrayRef lengths, std::string_view layout,
                      int64_t heads) {
  TORCH_CHECK(table.dim() == 2 && (cache.dim() == 3 || cache.dim() == 4), "attention: a block table of ", table.sizes(),
              " for pages of ", cache.sizes());
  TORCH_CHECK(!lengths.empty(), "attention: keys in pages need their lengths");
  const int64_t page = cache.size(-2), sequences = table.size(0);
  require_lengths(lengths, sequences, page * table.size(1));
  const auto count = std::min(lengths.size(), static_cast<size_t>(sequences));
  const at::Tensor ends = at::tensor(lengths.slice(0, count), at::kLong).unsqueeze(1);
  const at::Tensor used = at::where(at::arange(table.size(1), at::kLong) * page < ends, table.to(at::kLong), 0);
  require_pages(used, cache);
  at::Tensor pages = cache.index_select(0, used.reshape({-1}));
  if (pages.dim() == 4) pages = pages.transpose(1, 2).flatten(2);
  const at::Tensor rows = pages.view({table.size(0), -1, pages.size(-1)});
  if (layout == "BSH") return rows;
  const at::Tensor split = in_parts(rows, -1, heads);
  return layout == "BSND" ? split : split.transpose(1, 2);
}
const at::Tensor& only(at::TensorList list) {
  TORCH_CHECK(list.size() == 1, "attention: ", list.size(), " key tensors where one is supported");
  return list[0];
}
Sparse no_window(int64_t mode) { return {mode, std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::max()}; }

}  // namespace

OP_COST(aclnnPromptFlashAttention, attention_cost(query, key)) {
  infer(query, key, value, pseShift, attenMask,
        {{}, actualSeqLengths, numHeads, numKeyValueHeads, {0, preTokens, nextTokens}, scaleValue, inputLayout}, attentionOut);
}
OP(aclnnIncreFlashAttention) {
  infer(query, only(key), only(value), pseShift, attenMask,
        {{}, actualSeqLengths, numHeads, numKeyValueHeads, no_window(1), scaleValue, inputLayout}, attentionOut);
}
OP(aclnnIncreFlashAttentionV2) {
  refuse_attention(dequantScale1, "quantization");
  refuse_attention(quantScale2, "quantization");
  infer(query, only(key), only(value), pseShift, attenMask,
        {{}, actualSeqLengths, numHeads, numKeyValueHeads, no_window(1), scaleValue, inputLayout}, attentionOut);
}
OP(aclnnIncreFlashAttentionV3) {
  refuse_attention(dequantScale1, "quantization");
  refuse_attention(quantScale2, "quantization");
  refuse_attention(antiquantScale, "quantization");
  const int64_t kv_heads = numKeyValueHeads ? numKeyValueHeads : numHeads;
  const auto rows = [&](const at::Tensor& t) {
    return given(blocktable) ? from_pages(t, blocktable, actualSeqLengths, inputLayout, kv_heads) : t;
  };
  infer(query, rows(only(key)), rows(only(value)), pseShift, attenMask,
        {{}, actualSeqLengths, numHeads, numKeyValueHeads, no_window(1), scaleValue, inputLayout}, attentionOut);
}
OP(aclnnIncreFlashAttentionV4) {
  refuse_attention(dequantScale1, "quantization");
  refuse_attention(antiquantScale, "quantization");
  refuse_attention(kvPaddingSize, "left padding");
  const int64_t kv_heads = numKeyValueHeads ? numKeyValueHeads : numHeads;
  const auto rows = [&](const at::Tensor& t) {
    return given(blocktable) ? from_pages(t, blocktable, actualSeqLengths, inputLayout, kv_heads) : t;
  };
  infer(query, rows(only(key)), rows(only(value)), pseShift, attenMask,
        {{}, actualSeqLengths, numHeads, numKeyValueHeads, no_window(1), scaleValue, inputLayout}, attentionOut);
}
namespace {

void fused_infer(const InferRequest& in, const at::Tensor& out, const at::Tensor& logsumexp) {
  if (!is_plain(in)) return infer_sequences(in, out, logsumexp);
  const int64_t kv_heads = in.kv_heads ? in.kv_heads : in.heads;
  const auto rows = [&](const at::Tensor& t) {
    return given(in.block_table) ? from_pages(t, in.block_table, in.key_lengths, in.layout, kv_heads) : t;
  };
  // One new token sees all keys that there are; prompts have a window.
  const bool one_token = out.numel() == out.size(0) * in.heads * head_size(in.query, in.layout, in.heads);
  infer(in.query, rows(only(in.key)), rows(only(in.value)), in.bias, in.mask,
        {in.query_lengths, in.key_lengths, in.heads, in.kv_heads, one_token ? no_window(1) : in.sparse, in.scale, in.layout}, out,
        logsumexp.defined() ? logsumexp.squeeze(-1) : logsumexp);
}

// The output where it is asked for; else it becomes 0.
at::Tensor wanted(const at::Tensor& out, bool flag) {
  if (flag) return out;
  if (given(out)) writable(out).zero_();
  return {};
}
// `scales` of keys and of values, one after the other, for a cache of int8.
at::Tensor half_of(const at::Tensor& scales, int64_t which) { return given(scales) ? scales[which] : scales; }

}  // namespace

#define PROMPT_WITH_QUANTIZATION(NAME)                                                                                  \
  OP_COST(NAME, attention_cost(query, key)) {                                                                           \
    const Sparse sparse{sparseMode, preTokens, nextTokens};                                                             \
    if (!given(deqScale1) && !given(quantScale2)) {                                                                     \
      return infer(query, key, value, pseShift, attenMask,                                                              \
                   {actualSeqLengths, actualSeqLengthsKv, numHeads, numKeyValueHeads, sparse, scaleValue, inputLayout}, \
                   attentionOut);                                                                                       \
    }                                                                                                                   \
    InferRequest in{query,                                                                                              \
                    key,                                                                                                \
                    value,                                                                                              \
                    pseShift,                                                                                           \
                    attenMask,                                                                                          \
                    {},                                                                                                 \
                    actualSeqLengths,                                                                                   \
                    actualSeqLengthsKv,                                                                                 \
                    numHeads,                                                                                           \
                    numKeyValueHeads,                                                                                   \
                    sparse,                                                                                             \
                    scaleValue,                                                                                         \
                    inputLayout};                                                                                       \
    in.out_scale = quantScale2, in.out_offset = quantOffset2;                                                           \
    in.score_scale = deqScale1, in.weight_scale = quantScale1, in.product_scale = deqScale2;                            \
    fused_infer(in, attentionOut, {});                                                                                  \
  }
PROMPT_WITH_QUANTIZATION(aclnnPromptFlashAttentionV2)
PROMPT_WITH_QUANTIZATION(aclnnPromptFlashAttentionV3)
OP_COST(aclnnFusedInferAttentionScore, attention_cost(query, key.empty() ? query : key[0])) {
  refuse_attention(queryPaddingSize, "left padding");
  refuse_attention(kvPaddingSize, "left padding");
  InferRequest in{query,
                  key,
                  value,
                  pseShift,
                  attenMask,
                  blockTable,
                  actualSeqLengths,
                  actualSeqLengthsKv,
                  numHeads,
                  numKeyValueHeads,
                  {sparseMode, preTokens, nextTokens},
                  scaleValue,
                  inputLayout};
  in.key_scale = half_of(antiquantScale, 0), in.value_scale = half_of(antiquantScale, 1);
  in.key_offset = half_of(antiquantOffset, 0), in.value_offset = half_of(antiquantOffset, 1);
  in.key_per_token = in.value_per_token = antiquantMode == 1;
  in.out_scale = quantScale2, in.out_offset = quantOffset2;
  in.score_scale = deqScale1, in.weight_scale = quantScale1, in.product_scale = deqScale2;
  fused_infer(in, attentionOut, wanted(softmaxLse, softmaxLseFlag));
}
#define FUSED_INFER_WITH_MORE(NAME, ...)                                                                                    \
  OP_COST(NAME, attention_cost(query, key.empty() ? query : key[0])) {                                                      \
    refuse_attention(queryPaddingSizeOptional, "left padding");                                                             \
    refuse_attention(kvPaddingSizeOptional, "left padding");                                                                \
    TORCH_CHECK(keyAntiquantMode <= 1 && valueAntiquantMode <= 1, "attention: antiquant modes ", keyAntiquantMode, " and ", \
                valueAntiquantMode, ", only 0 and 1 are supported");                                                        \
    InferRequest in{query,                                                                                                  \
                    key,                                                                                                    \
                    value,                                                                                                  \
                    pseShiftOptional,                                                                                       \
                    attenMaskOptional,                                                                                      \
                    blockTableOptional,                                                                                     \
                    actualSeqLengthsOptional,                                                                               \
                    actualSeqLengthsKvOptional,                                                                             \
                    numHeads,                                                                                               \
                    numKeyValueHeads,                                                                                       \
                    {sparseMode, preTokens, nextTokens},                                                                    \
                    scaleValue,                                                                                             \
                    inputLayout};                                                                                           \
    const bool apart = given(keyAntiquantScaleOptional);                                                                    \
    in.key_scale = apart ? keyAntiquantScaleOptional : half_of(antiquantScaleOptional, 0);                                  \
    in.value_scale = apart ? valueAntiquantScaleOptional : half_of(antiquantScaleOptional, 1);                              \
    in.key_offset = apart ? keyAntiquantOffsetOptional : half_of(antiquantOffsetOptional, 0);                               \
    in.value_offset = apart ? valueAntiquantOffsetOptional : half_of(antiquantOffsetOptional, 1);                           \
    in.key_per_token = (apart ? keyAntiquantMode : antiquantMode) == 1;                                                     \
    in.value_per_token = (apart ? valueAntiquantMode : antiquantMode) == 1;                                                 \
    in.out_scale = quantScale2Optional, in.out_offset = quantOffset2Optional;                                               \
    in.score_scale = deqScale1Optional, in.weight_scale = quantScale1Optional, in.product_scale = deqScale2Optional;        \
    in.key_prefix = keySharedPrefixOptional, in.value_prefix = valueSharedPrefixOptional;                                   \
    in.prefix_length = actualSharedPrefixLenOptional;                                                                       \
    __VA_ARGS__                                                                                                             \
    fused_infer(in, attentionOut, wanted(softmaxLse, softmaxLseFlag));                                                      \
  }
#define WITH_ROPE                                                                    \
  refuse_attention(keyRopeAntiquantScaleOptional, "quantised keys with rope apart"); \
  in.query_rope = queryRopeOptional, in.key_rope = keyRopeOptional;
#define WITH_SINK                                                   \
  refuse_attention(dequantScaleQueryOptional, "a quantised query"); \
  in.sink = learnableSinkOptional;
FUSED_INFER_WITH_MORE(aclnnFusedInferAttentionScoreV2)
FUSED_INFER_WITH_MORE(aclnnFusedInferAttentionScoreV3, WITH_ROPE)
FUSED_INFER_WITH_MORE(aclnnFusedInferAttentionScoreV4, WITH_ROPE WITH_SINK)
FUSED_INFER_WITH_MORE(aclnnFusedInferAttentionScoreV5,
                      WITH_ROPE WITH_SINK TORCH_CHECK(qStartIdxOptional.empty() && kvStartIdxOptional.empty() && pseType == 0,
                                                      "attention: start indices and pseType ", pseType, " are not supported");)
OP_MAX_WORKSPACE(aclnnFusedInferAttentionScoreV2)
OP_MAX_WORKSPACE(aclnnFusedInferAttentionScoreV3)
OP_MAX_WORKSPACE(aclnnFusedInferAttentionScoreV4)
OP_MAX_WORKSPACE(aclnnFusedInferAttentionScoreV5)
