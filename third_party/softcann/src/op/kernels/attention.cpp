// CANN's attention operators for training: statistics, dropout and gradients around attention_core.h.
#include <algorithm>
#include <cmath>

#include "op/kernel.h"
#include "op/kernels/attention_core.h"
#include "op/kernels/attention_inputs.h"
#include "op/kernels/common.h"
#include "op/kernels/dense_result.h"
#include "op/kernels/pages.h"
#include "op/kernels/parts.h"

using namespace softcann::op;

namespace {

// Statistics lie kLanes times in a row, the width of a vector there. See Note [Softmax statistics].
constexpr int64_t kLanes = 8;

// Room for a number per row, [batch, heads, rows], in the order in which attention_core.h writes it fastest.
at::Tensor row_numbers(const at::Tensor& query) {
  return at::empty({query.size(0), query.size(2), query.size(1)}, at::TensorOptions(at::kFloat)).transpose(1, 2);
}

// Calls each(number of a row, its place in the statistics) for every row. `numbers` is from row_numbers().
template <class Each>
void each_row(const at::Tensor& numbers, Each&& each) {
  float* by_row = numbers.mutable_data_ptr<float>();
  const int64_t batch = numbers.size(0), heads = numbers.size(1), rows = numbers.size(2);
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t h = 0; h < heads; ++h) each(by_row++, ((b * heads + h) * rows + r) * kLanes);
    }
  }
}

void require_statistics(const at::Tensor& tensor, const at::Tensor& numbers) {
  TORCH_CHECK(tensor.scalar_type() == at::kFloat && tensor.numel() == numbers.numel() * kLanes, "attention: statistics of ",
              tensor.scalar_type(), tensor.sizes(), " for ", numbers.sizes(), " rows");
}
// Results of another layout are stored after they were made.
at::Tensor dense(const at::Tensor& tensor) {
  return tensor.is_contiguous() ? tensor : at::empty(tensor.sizes(), tensor.options());
}

void put_statistics(const at::Tensor& maximum, const at::Tensor& sum, const at::Tensor& logsumexp) {
  require_statistics(maximum, logsumexp);
  require_statistics(sum, logsumexp);
  const at::Tensor maximum_made = dense(maximum), sum_made = dense(sum);
  float *maximum_data = maximum_made.mutable_data_ptr<float>(), *sum_data = sum_made.mutable_data_ptr<float>();
  each_row(logsumexp, [&](const float* number, int64_t place) {
    std::fill_n(maximum_data + place, kLanes, *number);
    std::fill_n(sum_data + place, kLanes, 1.0f);
  });
  put(maximum, maximum_made);
  put(sum, sum_made);
}
// Note [Softmax statistics]
// Only max + log(sum) matters to whoever uses them (the gradient, ring attention's updates): the pair (logsumexp, 1)
// says it as well as (max, sum).
at::Tensor logsumexp_of(const at::Tensor& query, const at::Tensor& maximum, const at::Tensor& sum) {
  const at::Tensor numbers = row_numbers(query), maximum_given = plain(maximum), sum_given = plain(sum);
  require_statistics(maximum_given, numbers);
  require_statistics(sum_given, numbers);
  const float *maximum_data = maximum_given.const_data_ptr<float>(), *sum_data = sum_given.const_data_ptr<float>();
  each_row(numbers, [&](float* number, int64_t place) {
    *number = maximum_data[place] + (sum_data[place] == 1.0f ? 0.0f : std::log(sum_data[place]));
  });
  return numbers;
}

// Training's operators: without a mask neither sparseMode nor the window counts, and nothing is hidden. See Note [Sparse modes].
Attention make_trained(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const AttentionExtras& extras,
                       AttentionSettings settings) {
  if (!given(extras.mask) || !extras.mask.numel()) settings.sparse.mode = 0;
  return make_attention(query, key, value, extras, settings);
}

void score(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const AttentionExtras& extras,
           const AttentionSettings& settings, const at::Tensor& maximum, const at::Tensor& sum, const at::Tensor& out) {
  const Attention a = make_trained(query, key, value, extras, settings);
  const bool statistics = maximum.defined() && maximum.numel();
  TORCH_CHECK(statistics == (sum.defined() && sum.numel()), "attention: softmaxMaxOut and softmaxSumOut go together");
  const bool sink = given(extras.sink) && extras.sink.numel();
  const at::Tensor logsumexp = statistics || sink ? row_numbers(a.query) : at::Tensor();
  const at::Tensor result = to_heads(out, settings.layout, a.value.size(-1));
  attention_forward(a, result, logsumexp);
  if (sink) {
    const at::Tensor scores = widened(extras.sink).view({1, -1, 1});
    put(result, widened(result) * at::sigmoid(logsumexp - scores).unsqueeze(-1));
    logsumexp.copy_(at::logaddexp(logsumexp, scores));
  }
  if (statistics) put_statistics(maximum, sum, logsumexp);
}

struct ScoreGradients {
  const at::Tensor &query, &key, &value, &bias;
  at::Tensor sink{};  // is added to
};
void score_gradient(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& grad,
                    const AttentionExtras& extras, const AttentionSettings& settings, const at::Tensor& maximum,
                    const at::Tensor& sum, const at::Tensor& out, const ScoreGradients& results) {
  const Attention a = make_trained(query, key, value, extras, settings);
  const int64_t size = a.query.size(-1), value_size = a.value.size(-1);
  const bool want_bias = a.bias.defined() && settings.bias_type <= 1 && results.bias.defined() && results.bias.numel() &&
                         !is_compressed_bias(results.bias, a.query.size(2), a.key.size(2));
  AttentionGradients gradients{to_heads(results.query, settings.layout, size), to_heads(results.key, settings.layout, size),
                               to_heads(results.value, settings.layout, value_size), want_bias ? results.bias : at::Tensor()};
  const at::Tensor logsumexp = logsumexp_of(a.query, maximum, sum), result = to_heads(out, settings.layout, value_size),
                   result_grad = to_heads(grad, settings.layout, value_size);
  attention_backward(a, result_grad, result, logsumexp, gradients);
  if (given(extras.sink) && extras.sink.numel() && given(results.sink)) {
    const at::Tensor share = (widened(extras.sink).view({1, -1, 1}) - logsumexp).exp();
    writable(results.sink)
        .sub_((share * (widened(result_grad) * widened(result)).sum({-1})).sum(at::IntArrayRef{0, 2}).view(results.sink.sizes()));
  }
  if (want_bias && settings.bias_type == 1) results.bias.mul_(settings.scale);
}

// The part of queries and keys that is turned by position, where it comes apart: it goes behind the rest of each head.
struct Rope {
  const at::Tensor &query_part, &key_part;
  std::string_view layout;
  int64_t heads;

  bool flat() const { return layout == "BSH" || layout == "SBH"; }
  int64_t key_heads(const at::Tensor& query, const at::Tensor& key) const {
    return flat() ? equal_parts(key.size(-1), equal_parts(query.size(-1), heads)) : 1;
  }
  at::Tensor joined(const at::Tensor& t, const at::Tensor& part, int64_t count) const {
    if (!given(part) || part.numel() == 0) return t;
    if (!flat()) return at::cat({t, part}, -1);
    const auto split = [&](const at::Tensor& all) { return in_parts(all, -1, count); };
    return at::cat({split(t), split(part)}, -1).flatten(-2);
  }
  at::Tensor query(const at::Tensor& t) const { return joined(t, query_part, heads); }
  at::Tensor key(const at::Tensor& q, const at::Tensor& t) const { return joined(t, key_part, key_heads(q, t)); }
};

// The gradient of both parts, and how it comes apart again.
struct JoinedGradient {
  at::Tensor whole;
  const at::Tensor &rest, &part;

  JoinedGradient(const at::Tensor& input, const at::Tensor& rest, const at::Tensor& part)
      : whole(input.sizes() == rest.sizes() ? rest : at::empty(input.sizes(), input.options())), rest(rest), part(part) {}
  void store(const Rope& rope, int64_t count) const {
    if (whole.is_same(rest)) return;
    const int64_t heads = rope.flat() ? count : 1, size = equal_parts(rest.size(-1), heads);
    const at::Tensor by_head = rope.flat() ? in_parts(whole, -1, heads) : whole;
    put(rest, by_head.narrow(-1, 0, size).reshape(rest.sizes()));
    put(part, by_head.slice(-1, size).reshape(part.sizes()));
  }
};

}  // namespace

#define SCORE_SETTINGS(BIAS_TYPE) \
  AttentionSettings { scaleValue, keepProb, {sparseMode, preTokens, nextTokens}, headNum, BIAS_TYPE, inputLayout }

OP_COST(aclnnFlashAttentionScore, attention_cost(query, key)) {
  score(query, key, value, {realShiftOptional, dropMaskOptional, attenMaskOptional, {}, prefixOptional}, SCORE_SETTINGS(1),
        softmaxMaxOut, softmaxSumOut, attentionOutOut);
}
OP_COST(aclnnFlashAttentionScoreV2, attention_cost(query, key)) {
  score(query, key, value,
        {realShiftOptional, dropMaskOptional, attenMaskOptional, {}, prefixOptional, 0, qStartIdxOptional, kvStartIdxOptional},
        SCORE_SETTINGS(pseType), softmaxMaxOut, softmaxSumOut, attentionOutOut);
}
OP_COST(aclnnFlashAttentionScoreV3, attention_cost(query, key)) {
  score(query, key, value,
        {realShiftOptional, dropMaskOptional, attenMaskOptional, sinkOptional, prefixOptional, 0, qStartIdxOptional,
         kvStartIdxOptional},
        SCORE_SETTINGS(pseType), softmaxMaxOut, softmaxSumOut, attentionOutOut);
}
OP_COST(aclnnFlashAttentionScoreV4, attention_cost(query, key)) {
  refuse_attention(dScaleQOptional, "quantization");
  const Rope rope{queryRopeOptional, keyRopeOptional, inputLayout, headNum};
  score(rope.query(query), rope.key(query, key), value,
        {realShiftOptional, dropMaskOptional, attenMaskOptional, sinkOptional, prefixOptional, 0, qStartIdxOptional,
         kvStartIdxOptional},
        SCORE_SETTINGS(pseType), softmaxMaxOut, softmaxSumOut, attentionOutOut);
}
OP_COST(aclnnFlashAttentionScoreGrad, 2.5 * attention_cost(query, keyIn)) {
  score_gradient(query, keyIn, value, dy, {pseShiftOptional, dropMaskOptional, attenMaskOptional, {}, prefixOptional},
                 SCORE_SETTINGS(1), softmaxMaxOptional, softmaxSumOptional, attentionInOptional, {dqOut, dkOut, dvOut, dpseOut});
}
OP_COST(aclnnFlashAttentionScoreGradV2, 2.5 * attention_cost(query, keyIn)) {
  score_gradient(
      query, keyIn, value, dy,
      {pseShiftOptional, dropMaskOptional, attenMaskOptional, {}, prefixOptional, 0, qStartIdxOptional, kvStartIdxOptional},
      SCORE_SETTINGS(pseType), softmaxMaxOptional, softmaxSumOptional, attentionInOptional, {dqOut, dkOut, dvOut, dpseOut});
}
OP_COST(aclnnFlashAttentionScoreGradV3, 2.5 * attention_cost(query, keyIn)) {
  if (given(dsinkOut)) dsinkOut.zero_();
  score_gradient(query, keyIn, value, dy,
                 {pseShiftOptional, dropMaskOptional, attenMaskOptional, sinkInOptional, prefixOptional, 0, qStartIdxOptional,
                  kvStartIdxOptional},
                 SCORE_SETTINGS(pseType), softmaxMaxOptional, softmaxSumOptional, attentionInOptional,
                 {dqOut, dkOut, dvOut, dpseOut, dsinkOut});
}
OP_COST(aclnnFlashAttentionScoreGradV4, 2.5 * attention_cost(query, keyIn)) {
  refuse_attention(dScaleQOptional, "quantization");
  if (given(dsinkOut)) dsinkOut.zero_();
  const Rope rope{queryRopeOptional, keyRopeOptional, inputLayout, headNum};
  const at::Tensor q = rope.query(query), k = rope.key(query, keyIn);
  const JoinedGradient dq(q, dqOut, dqRopeOut), dk(k, dkOut, dkRopeOut);
  score_gradient(q, k, value, dy,
                 {pseShiftOptional, dropMaskOptional, attenMaskOptional, sinkInOptional, prefixOptional, 0, qStartIdxOptional,
                  kvStartIdxOptional},
                 SCORE_SETTINGS(pseType), softmaxMaxOptional, softmaxSumOptional, attentionInOptional,
                 {dq.whole, dk.whole, dvOut, dpseOut, dsinkOut});
  dq.store(rope, headNum);
  dk.store(rope, rope.key_heads(query, keyIn));
}

namespace {

// Sequences of different lengths in one tensor [tokens, heads, size]; the lengths come summed up. Those at the end whose sums
// are 0 do not take part.
// Calls each(rows of the queries, of the keys, of the statistics, the sequence's number), or no_scores where a sequence has no
// queries or no keys.
template <class Each, class NoScores>
void each_sequence(at::IntArrayRef query_ends, at::IntArrayRef key_ends, Each&& each, NoScores&& no_scores) {
  TORCH_CHECK(query_ends.size() == key_ends.size(), "attention: ", query_ends.size(), " query sequences, ", key_ends.size(),
              " key sequences");
  int64_t query_start = 0, key_start = 0;
  for (size_t i = 0; i < query_ends.size(); ++i) {
    const int64_t query_end = query_ends[i], key_end = key_ends[i];
    if (i > 0 && query_end == 0 && key_end == 0) continue;
    TORCH_CHECK(query_end >= query_start && key_end >= key_start, "attention: ", query_ends, " and ", key_ends,
                " are no running sums of lengths");
    const auto query_part = [&](const at::Tensor& t) { return rows_within(t, 0, query_start, query_end); };
    const auto key_part = [&](const at::Tensor& t) { return rows_within(t, 0, key_start, key_end); };
    const auto statistics_part = [&](const at::Tensor& t, const char* layout) {
      if (!t.defined() || t.numel() == 0) return at::Tensor();
      return sequence_statistics(t, query_start, query_end, layout == kStatisticsAsQueries).unsqueeze(0);
    };
    if (query_end > query_start && key_end > key_start) {
      each(query_part, key_part, statistics_part, static_cast<int64_t>(i));
    } else {
      no_scores(query_part, key_part);
    }
    query_start = query_end;
    key_start = key_end;
  }
}
at::Tensor batch_of_one(const at::Tensor& part) { return part.unsqueeze(0); }
void require_tokens_layout(const char* layout, const at::Tensor& bias, int64_t bias_type) {
  TORCH_CHECK(std::string_view(layout) == "TND", "attention: layout ", layout, " where TND is expected");
  TORCH_CHECK(bias_type > 1 || !given(bias) || bias.numel() == 0 || (bias.dim() == 4 && bias.size(2) == kCompressedBiasRows),
              "attention: sequences of different lengths take the last ", kCompressedBiasRows, " rows of a bias, not ",
              bias.sizes());
}
// Of a sequence: each batch may have slopes or a bias of its own.
at::Tensor bias_of(const at::Tensor& bias, int64_t sequence) {
  if (given(bias) && bias.dim() == 2) return bias.select(0, sequence);
  return given(bias) && bias.dim() == 4 && bias.size(0) > 1 ? bias.narrow(0, sequence, 1) : bias;
}

}  // namespace

#define TOKEN_SETTINGS(BIAS_TYPE) \
  AttentionSettings{scaleValue, keepProb, {sparseMode, preTokens, nextTokens}, headNum, BIAS_TYPE, "BSND"}

// What older versions have not: ROPE_... and SINK, which are tensors, the statistics' LAYOUT, and BIAS: its type, and where
// queries and keys begin.
#define ADDED_BIAS 1, at::IntArrayRef(), at::IntArrayRef()
#define TYPED_BIAS pseType, qStartIdxOptional, kvStartIdxOptional
#define TOKEN_SCORE(NAME, ROPE_QUERY, ROPE_KEY, SINK, LAYOUT, BIAS)                                                          \
  OP_COST(NAME, attention_cost(query, key)) {                                                                                \
    const auto [bias_type, query_start, key_start] = std::tuple{BIAS};                                                       \
    require_tokens_layout(inputLayout, realShiftOptional, bias_type);                                                        \
    const at::Tensor none;                                                                                                   \
    const DenseResult tops(softmaxMaxOut), totals(softmaxSumOut);                                                            \
    int64_t scores = 0;                                                                                                      \
    const Rope rope{ROPE_QUERY, ROPE_KEY, "TND", headNum};                                                                   \
    const at::Tensor all_queries = rope.query(query), all_keys = rope.key(query, key);                                       \
    each_sequence(                                                                                                           \
        actualSeqQLenOptional, actualSeqKvLenOptional,                                                                       \
        [&, type = bias_type, q0 = query_start, k0 = key_start](const auto& q, const auto& k, const auto& s, int64_t i) {    \
          score(batch_of_one(q(all_queries)), batch_of_one(k(all_keys)), batch_of_one(k(value)),                             \
                {bias_of(realShiftOptional, i), dropMaskOptional, attenMaskOptional, SINK, {}, scores, q0, k0},              \
                TOKEN_SETTINGS(type), s(tops.value(), LAYOUT), s(totals.value(), LAYOUT), batch_of_one(q(attentionOutOut))); \
          scores += headNum * q(query).size(0) * k(key).size(0);                                                             \
        },                                                                                                                   \
        [&](const auto& q, const auto&) { q(attentionOutOut).zero_(); });                                                    \
    tops.finish();                                                                                                           \
    totals.finish();                                                                                                         \
  }
TOKEN_SCORE(aclnnFlashAttentionVarLenScore, none, none, none, "", ADDED_BIAS)
TOKEN_SCORE(aclnnFlashAttentionVarLenScoreV2, none, none, none, "", TYPED_BIAS)
TOKEN_SCORE(aclnnFlashAttentionVarLenScoreV3, queryRope, keyRope, none, "", TYPED_BIAS)
TOKEN_SCORE(aclnnFlashAttentionVarLenScoreV4, none, none, none, softmaxOutLayout, ADDED_BIAS)
TOKEN_SCORE(aclnnFlashAttentionVarLenScoreV5, queryRope, keyRope, sinkOptional, softmaxOutLayout, TYPED_BIAS)

#define TOKEN_GRADIENT(NAME, ROPE_QUERY, ROPE_KEY, SINK, ROPE_QUERY_OUT, ROPE_KEY_OUT, SINK_OUT, LAYOUT, BIAS)                 \
  OP_COST(NAME, 2.5 * attention_cost(query, keyIn)) {                                                                          \
    const auto [bias_type, query_start, key_start] = std::tuple{BIAS};                                                         \
    require_tokens_layout(inputLayout, pseShiftOptional, bias_type);                                                           \
    const at::Tensor none, tops = plain(softmaxMaxOptional), totals = plain(softmaxSumOptional);                               \
    int64_t scores = 0;                                                                                                        \
    const Rope rope{ROPE_QUERY, ROPE_KEY, "TND", headNum};                                                                     \
    const at::Tensor all_queries = rope.query(query), all_keys = rope.key(query, keyIn);                                       \
    const JoinedGradient dq(all_queries, dqOut, ROPE_QUERY_OUT), dk(all_keys, dkOut, ROPE_KEY_OUT);                            \
    if (given(SINK_OUT)) writable(SINK_OUT).zero_();                                                                           \
    each_sequence(                                                                                                             \
        actualSeqQLenOptional, actualSeqKvLenOptional,                                                                         \
        [&, type = bias_type, q0 = query_start, k0 = key_start](const auto& q, const auto& k, const auto& s, int64_t i) {      \
          score_gradient(batch_of_one(q(all_queries)), batch_of_one(k(all_keys)), batch_of_one(k(value)), batch_of_one(q(dy)), \
                         {bias_of(pseShiftOptional, i), dropMaskOptional, attenMaskOptional, SINK, {}, scores, q0, k0},        \
                         TOKEN_SETTINGS(type), s(tops, LAYOUT), s(totals, LAYOUT), batch_of_one(q(attentionInOptional)),       \
                         {batch_of_one(q(dq.whole)), batch_of_one(k(dk.whole)), batch_of_one(k(dvOut)), none, SINK_OUT});      \
          scores += headNum * q(query).size(0) * k(keyIn).size(0);                                                             \
        },                                                                                                                     \
        [&](const auto& q, const auto& k) {                                                                                    \
          q(dq.whole).zero_();                                                                                                 \
          k(dk.whole).zero_();                                                                                                 \
          k(dvOut).zero_();                                                                                                    \
        });                                                                                                                    \
    dq.store(rope, headNum);                                                                                                   \
    dk.store(rope, headNum);                                                                                                   \
  }
TOKEN_GRADIENT(aclnnFlashAttentionUnpaddingScoreGrad, none, none, none, none, none, none, "", ADDED_BIAS)
TOKEN_GRADIENT(aclnnFlashAttentionUnpaddingScoreGradV2, none, none, none, none, none, none, "", TYPED_BIAS)
TOKEN_GRADIENT(aclnnFlashAttentionUnpaddingScoreGradV3, queryRope, keyInRope, none, dqRopeOut, dkRopeOut, none, "", TYPED_BIAS)
TOKEN_GRADIENT(aclnnFlashAttentionUnpaddingScoreGradV4, none, none, none, none, none, none, softmaxInLayout, ADDED_BIAS)
TOKEN_GRADIENT(aclnnFlashAttentionUnpaddingScoreGradV5, queryRope, keyInRope, sinkInOptional, dqRopeOut, dkRopeOut, dsinkOut,
               softmaxInLayout, TYPED_BIAS)
OP_MAX_WORKSPACE(aclnnFlashAttentionVarLenScoreV5)
OP_MAX_WORKSPACE(aclnnFlashAttentionUnpaddingScoreGradV5)
