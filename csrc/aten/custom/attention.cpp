// npu_fusion_attention and its second version: the fused attention with all of CANN's options.
//
// Note [Dropout of attention]
// The mask has a bit for each score and is not kept: seed and offset, which the forward returns, make the same one
// again for the backward. A mask of the caller, which npu_fusion_attention's dropout_mask gives, comes with the seed and offset
// that made it.
#include "aten/custom/dropout.h"
#include "aten/custom/shapes.h"
#include "aten/factory.h"
#include "aten/fused_attention.h"
#include "core/generator.h"
#include "generated/torch_npu_custom_functions.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnFlashAttentionScore);
NPU_OPERATOR(aclnnFlashAttentionScoreGrad);
NPU_OPERATOR(aclnnFlashAttentionScoreV3);
NPU_OPERATOR(aclnnFlashAttentionScoreGradV3);
NPU_OPERATOR(aclnnFlashAttentionVarLenScore);
NPU_OPERATOR(aclnnFlashAttentionVarLenScoreV2);
NPU_OPERATOR(aclnnFlashAttentionVarLenScoreV3);
NPU_OPERATOR(aclnnFlashAttentionVarLenScoreV4);
NPU_OPERATOR(aclnnFlashAttentionVarLenScoreV5);
NPU_OPERATOR(aclnnFlashAttentionUnpaddingScoreGrad);
NPU_OPERATOR(aclnnFlashAttentionUnpaddingScoreGradV2);
NPU_OPERATOR(aclnnFlashAttentionUnpaddingScoreGradV3);
NPU_OPERATOR(aclnnFlashAttentionUnpaddingScoreGradV4);
NPU_OPERATOR(aclnnFlashAttentionUnpaddingScoreGradV5);

namespace {

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

// Of the attention: the queries', with heads as large as those of the values. The layouts that hide the heads in the last
// dimension have them in query as key has those of value.
at::DimVector result_sizes(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  at::DimVector sizes(query.sizes());
  if (key.size(-1) > 0) sizes.back() = query.size(-1) * value.size(-1) / key.size(-1);
  return sizes;
}

void refuse(const char* op, const char* argument, bool refused) {
  TORCH_CHECK_NOT_IMPLEMENTED(!refused, op, ": ", argument, " is not supported");
}

at::Tensor drop_mask(const at::Tensor& query, int64_t numel, double keep_prob, int64_t seed, int64_t offset) {
  return numel == 0 || keep_prob >= 1 ? at::Tensor() : dropout_mask(query, numel, 1 - keep_prob, seed, offset);
}

// The arguments that both versions have, in CANN's names.
struct Options {
  const char* op;
  int64_t head_num;
  std::string_view layout;
  const std::optional<at::Tensor>&pse, &padding_mask, &atten_mask;
  double scale, keep_prob;
  int64_t pre_tokens, next_tokens, inner_precise;
  at::OptionalIntArrayRef prefix, query_ends, key_ends;
  int64_t sparse_mode;
  const std::optional<at::Tensor>& sink;
  std::string_view softmax_layout = "";  // "TND": the statistics of packed rows lie as the queries do
  int64_t pse_type = 1;                  // the first version's: pse is added before the scores are scaled
  at::Tensor dropout_mask = {};
  at::OptionalIntArrayRef query_start = {}, key_start = {};  // where rows begin, for pse_type 2 and 3
  std::optional<at::Tensor> query_rope = {}, key_rope = {};  // more elements of each head, for the scores alone
  bool linear_bias() const { return pse_type == 2 || pse_type == 3; }
  bool packed() const { return layout == "TND"; }
  // CANN's word for the layout of the statistics.
  std::string_view statistics() const { return softmax_layout.empty() ? "" : "same_as_input"; }
  // Only the fifth of CANN's versions for packed rows knows all of these.
  bool needs_v5() const { return packed() && (given(sink) || ((pse_type != 1 || given(query_rope)) && !softmax_layout.empty())); }
};

// How many scores there are, each with a bit of a dropout's mask.
int64_t score_count(const Options& o, const Extent& extent) {
  if (!o.packed()) return extent.batch * o.head_num * extent.rows * extent.columns;
  int64_t count = 0, query_start = 0, key_start = 0;
  for (size_t i = 0; i < o.query_ends->size(); ++i) {
    if (i > 0 && (*o.query_ends)[i] == 0 && (*o.key_ends)[i] == 0) continue;  // a sequence that does not take part
    count += ((*o.query_ends)[i] - query_start) * ((*o.key_ends)[i] - key_start);
    query_start = (*o.query_ends)[i];
    key_start = (*o.key_ends)[i];
  }
  return count * o.head_num;
}

void check(const Options& o, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  TORCH_CHECK((query.dim() == 3 || query.dim() == 4) && key.dim() == query.dim() && value.dim() == query.dim(), o.op,
              ": query, key and value need 3 or 4 dimensions each, as many as the others, but got ", query.dim(), ", ", key.dim(),
              " and ", value.dim());
  TORCH_CHECK(o.head_num > 0, o.op, ": head_num must be positive, but got ", o.head_num);
  TORCH_CHECK(o.keep_prob >= 0 && o.keep_prob <= 1, o.op, ": keep_prob must lie between 0 and 1, but got ", o.keep_prob);
  const auto lengths = [](at::OptionalIntArrayRef ends) { return ends ? ends->size() : 0; };
  TORCH_CHECK_VALUE(o.softmax_layout.empty() || (o.packed() && o.softmax_layout == "TND"), o.op,
                    ": softmax_layout may be TND with the layout TND, but got ", o.softmax_layout, " with ", o.layout);
  TORCH_CHECK(!o.packed() || (lengths(o.query_ends) > 0 && lengths(o.query_ends) == lengths(o.key_ends)), o.op,
              ": layout TND needs actual_seq_qlen and actual_seq_kvlen, one end of a sequence each, but got ",
              lengths(o.query_ends), " and ", lengths(o.key_ends));
}

void check_rope(const Options& o, const at::Tensor& query, const at::Tensor& key) {
  TORCH_CHECK(given(o.query_rope) == given(o.key_rope), o.op, ": query_rope and key_rope are given together");
  if (!given(o.query_rope)) return;
  TORCH_CHECK_NOT_IMPLEMENTED(o.packed() && !given(o.pse) && o.keep_prob == 1, o.op,
                              ": query_rope and key_rope need the layout TND, no pse, and keep_prob 1");
  const auto fits = [](const at::Tensor& rope, const at::Tensor& whole) {
    return rope.sizes().slice(0, rope.dim() - 1) == whole.sizes().slice(0, whole.dim() - 1) &&
           rope.scalar_type() == whole.scalar_type();
  };
  TORCH_CHECK(o.query_rope->dim() == 3 && o.key_rope->dim() == 3 && fits(*o.query_rope, query) && fits(*o.key_rope, key) &&
                  o.query_rope->size(2) == o.key_rope->size(2),
              o.op,
              ": query_rope and key_rope have the sizes and the dtype of query and key, but for the last dimension, which is ",
              "the same for both; got ", o.query_rope->sizes(), " for ", query.sizes(), " and ", o.key_rope->sizes(), " for ",
              key.sizes());
}

void check_dropout_mask(const Options& o, int64_t numel, int64_t seed) {
  TORCH_CHECK(o.dropout_mask.scalar_type() == at::kByte && o.dropout_mask.numel() == dropout_mask_size(numel), o.op,
              ": dropout_mask must have a bit for each of the ", numel,
              " scores, as _npu_dropout_gen_mask makes it: ", dropout_mask_size(numel), " elements of uint8, but it has ",
              o.dropout_mask.numel(), " of ", o.dropout_mask.scalar_type());
  TORCH_CHECK(seed != 0, o.op, ": dropout_mask needs the seed and the offset that made it, for the gradient makes it again");
}

// pse is added to the scores, but for pse_type 2 and 3, which make what is added of a slope for each head.
void check_pse(const Options& o, int64_t batch) {
  TORCH_CHECK_VALUE(o.pse_type >= 0 && o.pse_type <= 3, o.op, ": pse_type must be 0, 1, 2 or 3, but got ", o.pse_type);
  for (const auto& start : {o.query_start, o.key_start}) {
    TORCH_CHECK(!start || start->size() <= 1, o.op, ": q_start_idx and kv_start_idx are one number each, but got ",
                start->size());
  }
  if (!o.linear_bias()) return;
  TORCH_CHECK(given(o.pse), o.op, ": pse_type ", o.pse_type, " needs pse, the slopes of the heads");
  const auto& slopes = *o.pse;
  const int64_t batches = o.packed() ? static_cast<int64_t>(o.query_ends->size()) : batch;
  TORCH_CHECK(slopes.scalar_type() == at::kFloat &&
                  (slopes.sizes() == at::IntArrayRef{o.head_num} || slopes.sizes() == (at::IntArrayRef{batches, o.head_num})),
              o.op, ": pse_type ", o.pse_type, " takes the slopes of the heads as float32 [", o.head_num, "] or [", batches, ", ",
              o.head_num, "], but got ", slopes.scalar_type(), " ", slopes.sizes());
}

using Scores = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, int64_t, int64_t, int64_t>;

Scores attend(const Options& o, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t seed,
              int64_t offset) {
  refuse(o.op, "padding_mask", given(o.padding_mask));
  refuse(o.op, "prefix with layout TND", o.packed() && o.prefix && !o.prefix->empty());
  check(o, query, key, value);
  check_rope(o, query, key);
  const auto extent = extent_of(query, key, o.layout);
  check_pse(o, extent.batch);
  const int64_t numel = score_count(o, extent);
  const bool drops = o.keep_prob < 1;
  if (drops && o.dropout_mask.defined()) check_dropout_mask(o, numel, seed);
  if (drops && seed == 0) {
    const auto state = core::philox_state(std::nullopt, numel);
    seed = static_cast<int64_t>(state.first);
    offset = static_cast<int64_t>(state.second);
  }
  const auto drop = drops && o.dropout_mask.defined() ? o.dropout_mask : drop_mask(query, numel, o.keep_prob, seed, offset);
  const at::DimVector stats = o.packed() ? at::DimVector{extent.rows, o.head_num, kSoftmaxLanes}
                                         : at::DimVector{extent.batch, o.head_num, extent.rows, kSoftmaxLanes};
  auto maximum = empty_like_with(query, stats, at::kFloat), sum = empty_like_with(query, stats, at::kFloat);
  auto softmax = empty_like_with(query, {0}), out = empty_like_with(query, result_sizes(query, key, value));
  if (o.needs_v5()) {
    op::run(aclnnFlashAttentionVarLenScoreV5, query, o.query_rope, key, o.key_rope, value, o.pse, drop, o.padding_mask,
            o.atten_mask, o.sink, o.prefix, o.query_ends, o.key_ends, o.query_start, o.key_start, o.scale, o.keep_prob,
            o.pre_tokens, o.next_tokens, o.head_num, o.layout, o.inner_precise, o.sparse_mode, o.pse_type, o.statistics(),
            maximum, sum, softmax, out);
  } else if (given(o.query_rope)) {
    op::run(aclnnFlashAttentionVarLenScoreV3, query, o.query_rope, key, o.key_rope, value, o.pse, drop, o.padding_mask,
            o.atten_mask, o.prefix, o.query_ends, o.key_ends, o.query_start, o.key_start, o.scale, o.keep_prob, o.pre_tokens,
            o.next_tokens, o.head_num, o.layout, o.inner_precise, o.sparse_mode, o.pse_type, maximum, sum, softmax, out);
  } else if (given(o.sink)) {
    op::run(aclnnFlashAttentionScoreV3, query, key, value, o.pse, drop, o.padding_mask, o.atten_mask, o.sink, o.prefix,
            o.query_start, o.key_start, o.scale, o.keep_prob, o.pre_tokens, o.next_tokens, o.head_num, o.layout, o.inner_precise,
            o.sparse_mode, o.pse_type, maximum, sum, softmax, out);
  } else if (!o.softmax_layout.empty()) {
    op::run(aclnnFlashAttentionVarLenScoreV4, query, key, value, o.pse, drop, o.padding_mask, o.atten_mask, o.prefix,
            o.query_ends, o.key_ends, o.scale, o.keep_prob, o.pre_tokens, o.next_tokens, o.head_num, o.layout, o.inner_precise,
            o.sparse_mode, o.statistics(), maximum, sum, softmax, out);
  } else if (o.packed() && o.pse_type != 1) {
    op::run(aclnnFlashAttentionVarLenScoreV2, query, key, value, o.pse, drop, o.padding_mask, o.atten_mask, o.prefix,
            o.query_ends, o.key_ends, o.query_start, o.key_start, o.scale, o.keep_prob, o.pre_tokens, o.next_tokens, o.head_num,
            o.layout, o.inner_precise, o.sparse_mode, o.pse_type, maximum, sum, softmax, out);
  } else if (o.packed()) {
    op::run(aclnnFlashAttentionVarLenScore, query, key, value, o.pse, drop, o.padding_mask, o.atten_mask, o.prefix, o.query_ends,
            o.key_ends, o.scale, o.keep_prob, o.pre_tokens, o.next_tokens, o.head_num, o.layout, o.inner_precise, o.sparse_mode,
            maximum, sum, softmax, out);
  } else if (o.pse_type == 1) {
    op::run(aclnnFlashAttentionScore, query, key, value, o.pse, drop, o.padding_mask, o.atten_mask, o.prefix, o.scale,
            o.keep_prob, o.pre_tokens, o.next_tokens, o.head_num, o.layout, o.inner_precise, o.sparse_mode, maximum, sum, softmax,
            out);
  } else {
    op::run(aclnnFlashAttentionScoreV2, query, key, value, o.pse, drop, o.padding_mask, o.atten_mask, o.prefix, o.query_start,
            o.key_start, o.scale, o.keep_prob, o.pre_tokens, o.next_tokens, o.head_num, o.layout, o.inner_precise, o.sparse_mode,
            o.pse_type, maximum, sum, softmax, out);
  }
  return {out, maximum, sum, softmax, seed, offset, numel};
}

// What the forward left for the gradient.
struct Left {
  const std::optional<at::Tensor>&maximum, &sum, &softmax, &attention;
  int64_t seed, offset, numel;
};

// Gradients; those of what is not given are empty.
struct Gradients {
  at::Tensor query, key, value, pse, query_rope, key_rope, sink;
};

Gradients attend_back(const Options& o, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                      const at::Tensor& dy, const Left& left) {
  const auto drop = drop_mask(query, left.numel, o.keep_prob, left.seed, left.offset);
  auto dq = empty_like_with(query, query.sizes()), dk = empty_like_with(key, key.sizes());
  auto dv = empty_like_with(value, value.sizes());
  auto dpse = empty_like_with(query, given(o.pse) ? o.pse->sizes() : at::IntArrayRef{0});
  auto dsink = empty_like_with(query, given(o.sink) ? o.sink->sizes() : at::IntArrayRef{0}, at::kFloat);
  const auto like_given = [&](const std::optional<at::Tensor>& rope) {
    return empty_like_with(query, given(rope) ? rope->sizes() : at::IntArrayRef{0});
  };
  auto dq_rope = like_given(o.query_rope), dk_rope = like_given(o.key_rope);
  if (o.needs_v5()) {
    const auto written = [&](const at::Tensor& rope) { return rope.numel() == 0 ? std::nullopt : std::optional(rope); };
    op::run(aclnnFlashAttentionUnpaddingScoreGradV5, query, o.query_rope, key, o.key_rope, value, dy, o.pse, drop, o.padding_mask,
            o.atten_mask, left.maximum, left.sum, left.softmax, left.attention, o.sink, o.prefix, o.query_ends, o.key_ends,
            o.query_start, o.key_start, o.scale, o.keep_prob, o.pre_tokens, o.next_tokens, o.head_num, o.layout, o.inner_precise,
            o.sparse_mode, o.pse_type, o.statistics(), dq, written(dq_rope), dk, written(dk_rope), dv, dpse, dsink);
  } else if (given(o.query_rope)) {
    op::run(aclnnFlashAttentionUnpaddingScoreGradV3, query, o.query_rope, key, o.key_rope, value, dy, o.pse, drop, o.padding_mask,
            o.atten_mask, left.maximum, left.sum, left.softmax, left.attention, o.prefix, o.query_ends, o.key_ends, o.query_start,
            o.key_start, o.scale, o.keep_prob, o.pre_tokens, o.next_tokens, o.head_num, o.layout, o.inner_precise, o.sparse_mode,
            o.pse_type, dq, dq_rope, dk, dk_rope, dv, dpse);
  } else if (given(o.sink)) {
    op::run(aclnnFlashAttentionScoreGradV3, query, key, value, dy, o.pse, drop, o.padding_mask, o.atten_mask, left.maximum,
            left.sum, left.softmax, left.attention, o.sink, o.prefix, o.query_start, o.key_start, o.scale, o.keep_prob,
            o.pre_tokens, o.next_tokens, o.head_num, o.layout, o.inner_precise, o.sparse_mode, o.pse_type, dq, dk, dv, dpse,
            dsink);
  } else if (!o.softmax_layout.empty()) {
    op::run(aclnnFlashAttentionUnpaddingScoreGradV4, query, key, value, dy, o.pse, drop, o.padding_mask, o.atten_mask,
            left.maximum, left.sum, left.softmax, left.attention, o.prefix, o.query_ends, o.key_ends, o.scale, o.keep_prob,
            o.pre_tokens, o.next_tokens, o.head_num, o.layout, o.inner_precise, o.sparse_mode, dq, dk, dv, dpse, o.statistics());
  } else if (o.packed() && o.pse_type != 1) {
    op::run(aclnnFlashAttentionUnpaddingScoreGradV2, query, key, value, dy, o.pse, drop, o.padding_mask, o.atten_mask,
            left.maximum, left.sum, left.softmax, left.attention, o.prefix, o.query_ends, o.key_ends, o.query_start, o.key_start,
            o.scale, o.keep_prob, o.pre_tokens, o.next_tokens, o.head_num, o.layout, o.inner_precise, o.sparse_mode, o.pse_type,
            dq, dk, dv, dpse);
  } else if (o.packed()) {
    op::run(aclnnFlashAttentionUnpaddingScoreGrad, query, key, value, dy, o.pse, drop, o.padding_mask, o.atten_mask, left.maximum,
            left.sum, left.softmax, left.attention, o.prefix, o.query_ends, o.key_ends, o.scale, o.keep_prob, o.pre_tokens,
            o.next_tokens, o.head_num, o.layout, o.inner_precise, o.sparse_mode, dq, dk, dv, dpse);
  } else if (o.pse_type == 1) {
    op::run(aclnnFlashAttentionScoreGrad, query, key, value, dy, o.pse, drop, o.padding_mask, o.atten_mask, left.maximum,
            left.sum, left.softmax, left.attention, o.prefix, o.scale, o.keep_prob, o.pre_tokens, o.next_tokens, o.head_num,
            o.layout, o.inner_precise, o.sparse_mode, dq, dk, dv, dpse);
  } else {
    op::run(aclnnFlashAttentionScoreGradV2, query, key, value, dy, o.pse, drop, o.padding_mask, o.atten_mask, left.maximum,
            left.sum, left.softmax, left.attention, o.prefix, o.query_start, o.key_start, o.scale, o.keep_prob, o.pre_tokens,
            o.next_tokens, o.head_num, o.layout, o.inner_precise, o.sparse_mode, o.pse_type, dq, dk, dv, dpse);
  }
  // CANN writes none for slopes, and none for the last rows of a bias.
  if (given(o.pse)) {
    const auto& pse = *o.pse;
    const bool some_rows = pse.dim() == 4 && pse.size(2) != 1 && pse.size(2) != extent_of(query, key, o.layout).rows;
    if (o.linear_bias() || o.packed() || some_rows) dpse.zero_();
  }
  return {dq, dk, dv, dpse, dq_rope, dk_rope, dsink};
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
  return attend(
      {op, head_num, input_layout, pse, padding_mask, atten_mask, scale, keep_prob, pre_tockens, next_tockens, inner_precise,
       prefix, actual_seq_qlen, actual_seq_kvlen, sparse_mode, sink, softmax_layout, 1, dropout_mask.value_or(at::Tensor())},
      query, key, value, seed, offset);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, int64_t, int64_t, int64_t> npu_fusion_attention_v2(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t head_num, std::string_view input_layout,
    const std::optional<at::Tensor>& pse, const std::optional<at::Tensor>& padding_mask,
    const std::optional<at::Tensor>& atten_mask, const std::optional<at::Tensor>& query_rope,
    const std::optional<at::Tensor>& key_rope, double scale, double keep_prob, int64_t pre_tokens, int64_t next_tokens,
    int64_t inner_precise, at::OptionalIntArrayRef prefix, at::OptionalIntArrayRef actual_seq_qlen,
    at::OptionalIntArrayRef actual_seq_kvlen, int64_t sparse_mode, bool /*gen_mask_parallel*/, bool /*sync*/, int64_t pse_type,
    at::OptionalIntArrayRef q_start_idx, at::OptionalIntArrayRef kv_start_idx, std::string_view softmax_layout,
    const std::optional<at::Tensor>& sink, const std::optional<at::Tensor>& dropout_mask, int64_t seed, int64_t offset) {
  const char* op = "npu_fusion_attention_v2";
  Options o{op,          head_num,   input_layout,   pse,           padding_mask, atten_mask,      scale,
            keep_prob,   pre_tokens, next_tokens,    inner_precise, prefix,       actual_seq_qlen, actual_seq_kvlen,
            sparse_mode, sink,       softmax_layout, pse_type};
  o.dropout_mask = dropout_mask.value_or(at::Tensor());
  o.query_start = q_start_idx;
  o.key_start = kv_start_idx;
  o.query_rope = query_rope;
  o.key_rope = key_rope;
  return attend(o, query, key, value, seed, offset);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> npu_fusion_attention_grad(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& dy, int64_t head_num,
    std::string_view input_layout, const std::optional<at::Tensor>& pse, const std::optional<at::Tensor>& padding_mask,
    const std::optional<at::Tensor>& atten_mask, const std::optional<at::Tensor>& softmax_max,
    const std::optional<at::Tensor>& softmax_sum, const std::optional<at::Tensor>& softmax_in,
    const std::optional<at::Tensor>& attention_in, double scale_value, double keep_prob, int64_t pre_tockens,
    int64_t next_tockens, int64_t inner_precise, int64_t seed, int64_t offset, int64_t numels, at::OptionalIntArrayRef prefix,
    at::OptionalIntArrayRef actual_seq_qlen, at::OptionalIntArrayRef actual_seq_kvlen, int64_t sparse_mode,
    bool /*gen_mask_parallel*/, bool /*sync*/, std::string_view softmax_layout, const std::optional<at::Tensor>& sink) {
  const auto found = attend_back(
      {"npu_fusion_attention", head_num, input_layout, pse, padding_mask, atten_mask, scale_value, keep_prob, pre_tockens,
       next_tockens, inner_precise, prefix, actual_seq_qlen, actual_seq_kvlen, sparse_mode, sink, softmax_layout},
      query, key, value, dy, {softmax_max, softmax_sum, softmax_in, attention_in, seed, offset, numels});
  return {found.query, found.key, found.value, found.pse, found.sink};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> npu_fusion_attention_grad_v2(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& dy, int64_t head_num,
    std::string_view input_layout, const std::optional<at::Tensor>& pse, const std::optional<at::Tensor>& padding_mask,
    const std::optional<at::Tensor>& atten_mask, const std::optional<at::Tensor>& softmax_max,
    const std::optional<at::Tensor>& softmax_sum, const std::optional<at::Tensor>& softmax_in,
    const std::optional<at::Tensor>& attention_in, const std::optional<at::Tensor>& query_rope,
    const std::optional<at::Tensor>& key_rope, double scale_value, double keep_prob, int64_t pre_tokens, int64_t next_tokens,
    int64_t inner_precise, int64_t seed, int64_t offset, int64_t numels, at::OptionalIntArrayRef prefix,
    at::OptionalIntArrayRef actual_seq_qlen, at::OptionalIntArrayRef actual_seq_kvlen, int64_t sparse_mode,
    bool /*gen_mask_parallel*/, bool /*sync*/, int64_t pse_type, at::OptionalIntArrayRef q_start_idx,
    at::OptionalIntArrayRef kv_start_idx, std::string_view softmax_layout, const std::optional<at::Tensor>& sink) {
  const char* op = "npu_fusion_attention_grad_v2";
  Options o{op,          head_num,   input_layout,   pse,           padding_mask, atten_mask,      scale_value,
            keep_prob,   pre_tokens, next_tokens,    inner_precise, prefix,       actual_seq_qlen, actual_seq_kvlen,
            sparse_mode, sink,       softmax_layout, pse_type};
  o.query_start = q_start_idx;
  o.key_start = kv_start_idx;
  o.query_rope = query_rope;
  o.key_rope = key_rope;
  const auto found =
      attend_back(o, query, key, value, dy, {softmax_max, softmax_sum, softmax_in, attention_in, seed, offset, numels});
  return {found.query, found.key, found.value, found.pse, found.query_rope, found.key_rope, found.sink};
}

}  // namespace torch_npu::native
