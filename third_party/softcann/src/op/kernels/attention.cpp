// CANN's attention operators: layouts, masks and statistics around attention_core.h.
#include <algorithm>
#include <cmath>

#include <ATen/ops/arange.h>
#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/bitwise_right_shift.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tensor.h>

#include "op/kernel.h"
#include "op/kernels/attention_core.h"
#include "op/kernels/attention_infer.h"
#include "op/kernels/common.h"

using namespace softcann::op;

namespace {

// The client's tensor as [batch, heads, sequence, size]. `size` is the size of a head where the layout hides it.
at::Tensor to_heads(const at::Tensor& tensor, std::string_view layout, int64_t size) {
  if (layout == "BNSD") return tensor;
  if (layout == "BSND") return tensor.transpose(1, 2);
  if (layout == "BSH") return tensor.unflatten(-1, at::IntArrayRef{tensor.size(-1) / size, size}).transpose(1, 2);
  if (layout == "SBH") return tensor.unflatten(-1, at::IntArrayRef{tensor.size(-1) / size, size}).permute({1, 2, 0, 3});
  TORCH_CHECK(false, "attention: input layout '", layout, "' is not one of BNSD, BSND, BSH, SBH, TND");
}
int64_t head_size(const at::Tensor& query, std::string_view layout, int64_t heads) {
  return layout == "BSH" || layout == "SBH" ? query.size(-1) / heads : query.size(-1);
}

// CANN's dropout mask: a bit for each probability, lowest bit first, 1 keeps.
at::Tensor kept_of(const at::Tensor& bits, at::IntArrayRef sizes) {
  if (!bits.defined() || bits.numel() == 0) return {};
  const int64_t count = c10::multiply_integers(sizes);
  const at::Tensor shifts = at::arange(8, bits.options());
  const at::Tensor flat = at::bitwise_and(at::bitwise_right_shift(bits.view({-1, 1}), shifts), 1).view({-1});
  return flat.narrow(0, 0, count).view(sizes).to(at::kBool);
}

// Note [Sparse modes]
// 0: the mask, within `before` tokens back and `after` ahead of the diagonal; without a mask nothing is hidden.
// 1: the mask alone. 2: causal, from the first row and column on. 3: causal, to the last row and column.
// 4: the band around the diagonal that ends in the last row and column. In 2 to 4 the client hands a small standard
// mask whose content is known. 5 and 6: as 3, but the first keys of each sequence, as many as `prefix` says, are seen by all
// rows; the mask, in 5 a whole one and in 6 a small one, says nothing else.
void apply_mask(Attention& a, const at::Tensor& mask, const Sparse& sparse, at::IntArrayRef prefix) {
  TORCH_CHECK(sparse.mode >= 0 && sparse.mode <= 6, "attention: sparseMode ", sparse.mode, " is not supported");
  const int64_t rows = a.query.size(2), columns = a.key.size(2), shift = sparse.mode >= 3 ? columns - rows : 0;
  const auto band = [&](int64_t before, int64_t after) {
    const at::Tensor distance = at::arange(columns, at::kLong).unsqueeze(0) - at::arange(rows, at::kLong).unsqueeze(1) - shift;
    return at::logical_or(distance<-before, distance> after);
  };
  if (sparse.mode == 2 || (sparse.mode == 3 && !shift)) {
    a.causal = true;
  } else if (sparse.mode == 3) {
    a.hidden = band(columns + rows, 0);
  } else if (sparse.mode == 4) {
    a.hidden = band(sparse.before, sparse.after);
  } else if (sparse.mode >= 5) {
    TORCH_CHECK(static_cast<int64_t>(prefix.size()) == a.query.size(0), "attention: sparseMode ", sparse.mode, " with ",
                prefix.size(), " prefixes for ", a.query.size(0), " sequences");
    const at::Tensor behind = at::arange(columns, at::kLong) >= at::tensor(prefix, at::kLong).view({-1, 1, 1, 1});
    a.hidden = at::logical_and(band(columns + rows, 0), behind);
  } else if (mask.defined() && mask.numel()) {
    a.hidden = mask.to(at::kBool);
    if (a.hidden.dim() == 3) a.hidden = a.hidden.unsqueeze(1);
    if (a.hidden.size(-2) > rows) a.hidden = a.hidden.slice(-2, 0, rows);
    if (a.hidden.size(-1) > columns) a.hidden = a.hidden.slice(-1, 0, columns);
    if (sparse.mode == 0 && (sparse.before < rows || sparse.after < columns)) {
      a.hidden = at::logical_or(a.hidden, band(sparse.before, sparse.after));
    }
  }
}

// pseType 1, the older operators' only one, adds before scaling; 0 after.
void apply_bias(Attention& a, const at::Tensor& bias, int64_t type) {
  if (!bias.defined() || bias.numel() == 0) return;
  TORCH_CHECK(type == 0 || type == 1, "attention: pseType ", type, " is not supported");
  a.bias = type == 1 ? bias * a.scale : bias;
}

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

struct Settings {
  double scale, keep_prob;
  Sparse sparse;
  int64_t heads, bias_type;
  std::string_view layout;
};
struct Extras {
  const at::Tensor &bias, &drop_mask, &mask;
  at::Tensor sink{};  // a score of its own for each head, without a value
  at::IntArrayRef prefix{};
};

Attention make_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const Extras& extras,
                         const Settings& settings) {
  Attention a;
  const int64_t size = head_size(query, settings.layout, settings.heads);
  a.query = to_heads(query, settings.layout, size);
  a.key = to_heads(key, settings.layout, size);
  a.value = to_heads(value, settings.layout,
                     settings.layout == "BSH" || settings.layout == "SBH" ? value.size(-1) / a.key.size(1) : size);
  a.scale = settings.scale;
  a.keep_prob = settings.keep_prob;
  if (settings.keep_prob < 1) {
    a.kept = kept_of(extras.drop_mask, {a.query.size(0), a.query.size(1), a.query.size(2), a.key.size(2)});
  }
  apply_mask(a, extras.mask, settings.sparse, extras.prefix);
  apply_bias(a, extras.bias, settings.bias_type);
  return a;
}

void score(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const Extras& extras,
           const Settings& settings, const at::Tensor& maximum, const at::Tensor& sum, const at::Tensor& out) {
  const Attention a = make_attention(query, key, value, extras, settings);
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
                    const Extras& extras, const Settings& settings, const at::Tensor& maximum, const at::Tensor& sum,
                    const at::Tensor& out, const ScoreGradients& results) {
  const Attention a = make_attention(query, key, value, extras, settings);
  const int64_t size = a.query.size(-1), value_size = a.value.size(-1);
  const bool want_bias = a.bias.defined() && results.bias.defined() && results.bias.numel();
  AttentionGradients gradients{to_heads(results.query, settings.layout, size), to_heads(results.key, settings.layout, size),
                               to_heads(results.value, settings.layout, value_size), want_bias ? results.bias : at::Tensor()};
  const at::Tensor logsumexp = logsumexp_of(a.query, maximum, sum), result = to_heads(out, settings.layout, value_size),
                   result_grad = to_heads(grad, settings.layout, value_size);
  attention_backward(a, result_grad, result, logsumexp, gradients);
  if (given(extras.sink) && extras.sink.numel() && given(results.sink)) {
    const at::Tensor share = (widened(extras.sink).view({1, -1, 1}) - logsumexp).exp();
    writable(results.sink)
        .sub_((share * (widened(result_grad) * widened(result)).sum({-1})).sum({0, 2}).view(results.sink.sizes()));
  }
  if (want_bias && settings.bias_type == 1) results.bias.mul_(settings.scale);
}

double attention_cost(const at::Tensor& query, const at::Tensor& key) {
  return query.defined() && key.defined() ? 2000 + static_cast<double>(query.numel()) * static_cast<double>(key.numel()) /
                                                       static_cast<double>(std::max<int64_t>(query.size(-1), 1)) * 0.05
                                          : 2000;
}

void refuse(const at::Tensor& tensor, const char* what) {
  TORCH_CHECK(!tensor.defined() || tensor.numel() == 0, "attention: ", what, " is not supported");
}

}  // namespace

namespace {

// The part of queries and keys that is turned by position, where it comes apart: it goes behind the rest of each head.
struct Rope {
  const at::Tensor &query_part, &key_part;
  std::string_view layout;
  int64_t heads;

  bool flat() const { return layout == "BSH" || layout == "SBH"; }
  int64_t key_heads(const at::Tensor& query, const at::Tensor& key) const {
    return flat() ? key.size(-1) / (query.size(-1) / heads) : 1;
  }
  at::Tensor joined(const at::Tensor& t, const at::Tensor& part, int64_t count) const {
    if (!given(part) || part.numel() == 0) return t;
    if (!flat()) return at::cat({t, part}, -1);
    const auto split = [&](const at::Tensor& all) { return all.unflatten(-1, at::IntArrayRef{count, all.size(-1) / count}); };
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
    const int64_t heads = rope.flat() ? count : 1, size = rest.size(-1) / heads;
    const at::Tensor by_head = rope.flat() ? whole.unflatten(-1, at::IntArrayRef{heads, whole.size(-1) / heads}) : whole;
    put(rest, by_head.narrow(-1, 0, size).reshape(rest.sizes()));
    put(part, by_head.slice(-1, size).reshape(part.sizes()));
  }
};

}  // namespace

#define SCORE_SETTINGS(BIAS_TYPE) \
  Settings { scaleValue, keepProb, {sparseMode, preTokens, nextTokens}, headNum, BIAS_TYPE, inputLayout }

OP_COST(aclnnFlashAttentionScore, attention_cost(query, key)) {
  score(query, key, value, {realShiftOptional, dropMaskOptional, attenMaskOptional, {}, prefixOptional}, SCORE_SETTINGS(1),
        softmaxMaxOut, softmaxSumOut, attentionOutOut);
}
OP_COST(aclnnFlashAttentionScoreV2, attention_cost(query, key)) {
  score(query, key, value, {realShiftOptional, dropMaskOptional, attenMaskOptional, {}, prefixOptional}, SCORE_SETTINGS(pseType),
        softmaxMaxOut, softmaxSumOut, attentionOutOut);
}
OP_COST(aclnnFlashAttentionScoreV3, attention_cost(query, key)) {
  score(query, key, value, {realShiftOptional, dropMaskOptional, attenMaskOptional, sinkOptional, prefixOptional},
        SCORE_SETTINGS(pseType), softmaxMaxOut, softmaxSumOut, attentionOutOut);
}
OP_COST(aclnnFlashAttentionScoreV4, attention_cost(query, key)) {
  refuse(dScaleQOptional, "quantization");
  const Rope rope{queryRopeOptional, keyRopeOptional, inputLayout, headNum};
  score(rope.query(query), rope.key(query, key), value,
        {realShiftOptional, dropMaskOptional, attenMaskOptional, sinkOptional, prefixOptional}, SCORE_SETTINGS(pseType),
        softmaxMaxOut, softmaxSumOut, attentionOutOut);
}
OP_COST(aclnnFlashAttentionScoreGrad, 2.5 * attention_cost(query, keyIn)) {
  score_gradient(query, keyIn, value, dy, {pseShiftOptional, dropMaskOptional, attenMaskOptional, {}, prefixOptional},
                 SCORE_SETTINGS(1), softmaxMaxOptional, softmaxSumOptional, attentionInOptional, {dqOut, dkOut, dvOut, dpseOut});
}
OP_COST(aclnnFlashAttentionScoreGradV2, 2.5 * attention_cost(query, keyIn)) {
  score_gradient(query, keyIn, value, dy, {pseShiftOptional, dropMaskOptional, attenMaskOptional, {}, prefixOptional},
                 SCORE_SETTINGS(pseType), softmaxMaxOptional, softmaxSumOptional, attentionInOptional,
                 {dqOut, dkOut, dvOut, dpseOut});
}
OP_COST(aclnnFlashAttentionScoreGradV3, 2.5 * attention_cost(query, keyIn)) {
  if (given(dsinkOut)) dsinkOut.zero_();
  score_gradient(query, keyIn, value, dy, {pseShiftOptional, dropMaskOptional, attenMaskOptional, sinkInOptional, prefixOptional},
                 SCORE_SETTINGS(pseType), softmaxMaxOptional, softmaxSumOptional, attentionInOptional,
                 {dqOut, dkOut, dvOut, dpseOut, dsinkOut});
}
OP_COST(aclnnFlashAttentionScoreGradV4, 2.5 * attention_cost(query, keyIn)) {
  refuse(dScaleQOptional, "quantization");
  if (given(dsinkOut)) dsinkOut.zero_();
  const Rope rope{queryRopeOptional, keyRopeOptional, inputLayout, headNum};
  const at::Tensor q = rope.query(query), k = rope.key(query, keyIn);
  const JoinedGradient dq(q, dqOut, dqRopeOut), dk(k, dkOut, dkRopeOut);
  score_gradient(q, k, value, dy, {pseShiftOptional, dropMaskOptional, attenMaskOptional, sinkInOptional, prefixOptional},
                 SCORE_SETTINGS(pseType), softmaxMaxOptional, softmaxSumOptional, attentionInOptional,
                 {dq.whole, dk.whole, dvOut, dpseOut, dsinkOut});
  dq.store(rope, headNum);
  dk.store(rope, rope.key_heads(query, keyIn));
}

namespace {

// Sequences of different lengths in one tensor [tokens, heads, size]; the lengths come summed up.
template <class Each>
void each_sequence(at::IntArrayRef query_ends, at::IntArrayRef key_ends, Each&& each) {
  TORCH_CHECK(query_ends.size() == key_ends.size(), "attention: ", query_ends.size(), " query sequences, ", key_ends.size(),
              " key sequences");
  int64_t query_start = 0, key_start = 0;
  for (size_t i = 0; i < query_ends.size(); ++i) {
    const auto query_part = [&](const at::Tensor& t) {
      return t.defined() && t.numel() ? t.slice(0, query_start, query_ends[i]) : t;
    };
    const auto key_part = [&](const at::Tensor& t) { return t.slice(0, key_start, key_ends[i]); };
    each(query_part, key_part);
    query_start = query_ends[i];
    key_start = key_ends[i];
  }
}
at::Tensor batch_of_one(const at::Tensor& part) { return part.unsqueeze(0); }
void require_tokens_layout(const char* layout, const at::Tensor& bias, const at::Tensor& drop_mask, double keep) {
  TORCH_CHECK(std::string_view(layout) == "TND", "attention: layout ", layout, " where TND is expected");
  refuse(bias, "a position bias with sequences of different lengths");
  if (keep < 1) refuse(drop_mask, "dropout with sequences of different lengths");
}
// [tokens, heads, 8] as [1, heads, tokens, 8]
at::Tensor statistics_part(const at::Tensor& part) {
  return part.defined() && part.numel() ? part.transpose(0, 1).unsqueeze(0) : at::Tensor();
}

}  // namespace

#define TOKEN_SETTINGS Settings{scaleValue, keepProb, {sparseMode, preTokens, nextTokens}, headNum, 1, "BSND"}

// ROPE_... and SINK are tensors, absent in the older versions.
#define TOKEN_SCORE(NAME, ROPE_QUERY, ROPE_KEY, SINK)                                                 \
  OP_COST(NAME, attention_cost(query, key)) {                                                         \
    require_tokens_layout(inputLayout, realShiftOptional, dropMaskOptional, keepProb);                \
    const at::Tensor none;                                                                            \
    const Rope rope{ROPE_QUERY, ROPE_KEY, "TND", headNum};                                            \
    const at::Tensor all_queries = rope.query(query), all_keys = rope.key(query, key);                \
    each_sequence(actualSeqQLenOptional, actualSeqKvLenOptional, [&](const auto& q, const auto& k) {  \
      score(batch_of_one(q(all_queries)), batch_of_one(k(all_keys)), batch_of_one(k(value)),          \
            {none, none, attenMaskOptional, SINK}, TOKEN_SETTINGS, statistics_part(q(softmaxMaxOut)), \
            statistics_part(q(softmaxSumOut)), batch_of_one(q(attentionOutOut)));                     \
    });                                                                                               \
  }
TOKEN_SCORE(aclnnFlashAttentionVarLenScore, none, none, none)
TOKEN_SCORE(aclnnFlashAttentionVarLenScoreV2, none, none, none)
TOKEN_SCORE(aclnnFlashAttentionVarLenScoreV3, queryRope, keyRope, none)
TOKEN_SCORE(aclnnFlashAttentionVarLenScoreV4, none, none, none)
TOKEN_SCORE(aclnnFlashAttentionVarLenScoreV5, queryRope, keyRope, sinkOptional)

#define TOKEN_GRADIENT(NAME, ROPE_QUERY, ROPE_KEY, SINK, ROPE_QUERY_OUT, ROPE_KEY_OUT, SINK_OUT)                           \
  OP_COST(NAME, 2.5 * attention_cost(query, keyIn)) {                                                                      \
    require_tokens_layout(inputLayout, pseShiftOptional, dropMaskOptional, keepProb);                                      \
    const at::Tensor none;                                                                                                 \
    const Rope rope{ROPE_QUERY, ROPE_KEY, "TND", headNum};                                                                 \
    const at::Tensor all_queries = rope.query(query), all_keys = rope.key(query, keyIn);                                   \
    const JoinedGradient dq(all_queries, dqOut, ROPE_QUERY_OUT), dk(all_keys, dkOut, ROPE_KEY_OUT);                        \
    if (given(SINK_OUT)) writable(SINK_OUT).zero_();                                                                       \
    each_sequence(actualSeqQLenOptional, actualSeqKvLenOptional, [&](const auto& q, const auto& k) {                       \
      score_gradient(batch_of_one(q(all_queries)), batch_of_one(k(all_keys)), batch_of_one(k(value)), batch_of_one(q(dy)), \
                     {none, none, attenMaskOptional, SINK}, TOKEN_SETTINGS, statistics_part(q(softmaxMaxOptional)),        \
                     statistics_part(q(softmaxSumOptional)), batch_of_one(q(attentionInOptional)),                         \
                     {batch_of_one(q(dq.whole)), batch_of_one(k(dk.whole)), batch_of_one(k(dvOut)), none, SINK_OUT});      \
    });                                                                                                                    \
    dq.store(rope, headNum);                                                                                               \
    dk.store(rope, headNum);                                                                                               \
  }
TOKEN_GRADIENT(aclnnFlashAttentionUnpaddingScoreGrad, none, none, none, none, none, none)
TOKEN_GRADIENT(aclnnFlashAttentionUnpaddingScoreGradV2, none, none, none, none, none, none)
TOKEN_GRADIENT(aclnnFlashAttentionUnpaddingScoreGradV3, queryRope, keyInRope, none, dqRopeOut, dkRopeOut, none)
TOKEN_GRADIENT(aclnnFlashAttentionUnpaddingScoreGradV4, none, none, none, none, none, none)
TOKEN_GRADIENT(aclnnFlashAttentionUnpaddingScoreGradV5, queryRope, keyInRope, sinkInOptional, dqRopeOut, dkRopeOut, dsinkOut)

namespace {

// Inference: no statistics, no dropout, lengths per batch.
struct Inference {
  at::IntArrayRef key_lengths;
  int64_t heads;
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
  if (std::any_of(lengths.begin(), lengths.end(), [&](int64_t length) { return length < columns; })) {
    const at::Tensor limit = at::tensor(lengths, at::kLong).view({-1, 1, 1, 1});
    const at::Tensor beyond = at::arange(columns, at::kLong) >= limit;
    a.hidden = a.hidden.defined() ? at::logical_or(a.hidden, beyond) : beyond;
  }
  const std::string_view out_layout = inference.layout == "BNSD_BSND" ? "BSND" : layout;
  attention_forward(a, to_heads(out, out_layout, a.value.size(-1)), logsumexp);
}
// A cache in pages, [pages, rows, heads * size] or [pages, heads, rows, size], as each sequence's own rows in `layout`.
at::Tensor from_pages(const at::Tensor& cache, const at::Tensor& table, std::string_view layout, int64_t heads) {
  at::Tensor pages = cache.index_select(0, table.clamp_min(0).reshape({-1}).to(at::kLong));
  if (pages.dim() == 4) pages = pages.transpose(1, 2).flatten(2);
  const at::Tensor rows = pages.view({table.size(0), -1, pages.size(-1)});
  if (layout == "BSH") return rows;
  const at::Tensor split = rows.unflatten(-1, at::IntArrayRef{heads, rows.size(-1) / heads});
  return layout == "BSND" ? split : split.transpose(1, 2);
}
const at::Tensor& only(at::TensorList list) {
  TORCH_CHECK(list.size() == 1, "attention: ", list.size(), " key tensors where one is supported");
  return list[0];
}
Sparse no_window(int64_t mode) { return {mode, std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::max()}; }

}  // namespace

OP_COST(aclnnPromptFlashAttention, attention_cost(query, key)) {
  infer(query, key, value, pseShift, attenMask, {actualSeqLengths, numHeads, {0, preTokens, nextTokens}, scaleValue, inputLayout},
        attentionOut);
}
OP_COST(aclnnPromptFlashAttentionV2, attention_cost(query, key)) {
  refuse(deqScale1, "quantization");
  infer(query, key, value, pseShift, attenMask,
        {actualSeqLengthsKv, numHeads, {sparseMode, preTokens, nextTokens}, scaleValue, inputLayout}, attentionOut);
}
OP_COST(aclnnPromptFlashAttentionV3, attention_cost(query, key)) {
  refuse(deqScale1, "quantization");
  infer(query, key, value, pseShift, attenMask,
        {actualSeqLengthsKv, numHeads, {sparseMode, preTokens, nextTokens}, scaleValue, inputLayout}, attentionOut);
}
OP(aclnnIncreFlashAttention) {
  infer(query, only(key), only(value), pseShift, attenMask, {actualSeqLengths, numHeads, no_window(1), scaleValue, inputLayout},
        attentionOut);
}
OP(aclnnIncreFlashAttentionV4) {
  refuse(dequantScale1, "quantization");
  refuse(antiquantScale, "quantization");
  refuse(kvPaddingSize, "left padding");
  const int64_t kv_heads = numKeyValueHeads ? numKeyValueHeads : numHeads;
  const auto rows = [&](const at::Tensor& t) { return given(blocktable) ? from_pages(t, blocktable, inputLayout, kv_heads) : t; };
  infer(query, rows(only(key)), rows(only(value)), pseShift, attenMask,
        {actualSeqLengths, numHeads, no_window(1), scaleValue, inputLayout}, attentionOut);
}
namespace {

void fused_infer(const InferRequest& in, const at::Tensor& out, const at::Tensor& logsumexp) {
  if (!is_plain(in)) return infer_sequences(in, out, logsumexp);
  const int64_t kv_heads = in.kv_heads ? in.kv_heads : in.heads;
  const auto rows = [&](const at::Tensor& t) {
    return given(in.block_table) ? from_pages(t, in.block_table, in.layout, kv_heads) : t;
  };
  // One new token sees all keys that there are; prompts have a window.
  const bool one_token = out.numel() == out.size(0) * in.heads * head_size(in.query, in.layout, in.heads);
  infer(in.query, rows(only(in.key)), rows(only(in.value)), in.bias, in.mask,
        {in.key_lengths, in.heads, one_token ? no_window(1) : in.sparse, in.scale, in.layout}, out,
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

OP_COST(aclnnFusedInferAttentionScore, attention_cost(query, key.empty() ? query : key[0])) {
  refuse(deqScale1, "a quantised query");
  refuse(quantScale1, "a quantised query");
  refuse(queryPaddingSize, "left padding");
  refuse(kvPaddingSize, "left padding");
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
  fused_infer(in, attentionOut, wanted(softmaxLse, softmaxLseFlag));
}
#define FUSED_INFER_WITH_MORE(NAME, ...)                                                                                    \
  OP_COST(NAME, attention_cost(query, key.empty() ? query : key[0])) {                                                      \
    refuse(deqScale1Optional, "a quantised query");                                                                         \
    refuse(quantScale1Optional, "a quantised query");                                                                       \
    refuse(queryPaddingSizeOptional, "left padding");                                                                       \
    refuse(kvPaddingSizeOptional, "left padding");                                                                          \
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
    in.key_prefix = keySharedPrefixOptional, in.value_prefix = valueSharedPrefixOptional;                                   \
    in.prefix_length = actualSharedPrefixLenOptional;                                                                       \
    __VA_ARGS__                                                                                                             \
    fused_infer(in, attentionOut, wanted(softmaxLse, softmaxLseFlag));                                                      \
  }
#define WITH_ROPE                                                          \
  refuse(keyRopeAntiquantScaleOptional, "quantised keys with rope apart"); \
  in.query_rope = queryRopeOptional, in.key_rope = keyRopeOptional;
#define WITH_SINK                                         \
  refuse(dequantScaleQueryOptional, "a quantised query"); \
  in.sink = learnableSinkOptional;
FUSED_INFER_WITH_MORE(aclnnFusedInferAttentionScoreV2)
FUSED_INFER_WITH_MORE(aclnnFusedInferAttentionScoreV3, WITH_ROPE)
FUSED_INFER_WITH_MORE(aclnnFusedInferAttentionScoreV4, WITH_ROPE WITH_SINK)
FUSED_INFER_WITH_MORE(aclnnFusedInferAttentionScoreV5,
                      WITH_ROPE WITH_SINK TORCH_CHECK(qStartIdxOptional.empty() && kvStartIdxOptional.empty() && pseType == 0,
                                                      "attention: start indices and pseType ", pseType, " are not supported");)
