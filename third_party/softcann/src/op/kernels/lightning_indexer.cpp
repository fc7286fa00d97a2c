// The lightning indexer: which keys matter most to a token, and the gradient of that.
#include <algorithm>
#include <limits>

#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/parts.h"
#include "op/kernels/sparse_attention.h"

using namespace softcann::op;

namespace {

constexpr double hidden_score = -std::numeric_limits<double>::infinity();

// Queries [tokens, heads, size], keys [keys, size]; scales of numbers of few bits may be undefined.
struct IndexerInputs {
  at::Tensor query, key, weights, query_scale, key_scale;

  IndexerInputs part(const Sequences& sequences, int64_t b) const {
    const auto of_query = [&](const at::Tensor& t) { return given(t) ? widened(sequences.query(t, b)) : t; };
    const auto of_key = [&](const at::Tensor& t) { return given(t) ? widened(sequences.key(t, b)).select(1, 0) : t; };
    return {of_query(query), of_key(key), of_query(weights), of_query(query_scale), of_key(key_scale)};
  }
  // sum over heads of weights * relu(query key^T), [tokens, keys]
  at::Tensor scores(int64_t start, int64_t end) const {
    at::Tensor dots = at::matmul(query.slice(0, start, end), key.t());
    if (given(query_scale)) dots = dots * query_scale.slice(0, start, end).unsqueeze(-1) * key_scale;
    return (at::relu(dots) * weights.slice(0, start, end).unsqueeze(-1)).sum({1});
  }
};

double indexer_cost(const char* name, const at::Tensor& query, const at::Tensor& key, int64_t mode) {
  if (mode != 0 && mode != 3) invalid("%s: sparseMode %d is not supported; 0 and 3 are", name, int(mode));
  if (key.dim() < 3 || key.size(-2) != 1) invalid("%s: keys must have one head", name);
  return static_cast<double>(query.numel()) * static_cast<double>(key.numel()) / static_cast<double>(key.size(-1));
}

// The best keys of each token, best first, those of the same score in their order; -1 and 0 behind the last.
void best_keys(const IndexerInputs& inputs, const Sequences& sequences, bool causal, const at::Tensor& indices,
               const at::Tensor& values) {
  indices.fill_(-1);
  if (given(values)) values.zero_();
  for (int64_t b = 0; b < sequences.count(); ++b) {
    const IndexerInputs in = inputs.part(sequences, b);
    const int64_t tokens = in.query.size(0), keys = in.key.size(0), count = std::min(indices.size(-1), keys);
    const at::Tensor seen = all_keys(tokens, keys, causal).seen;
    const at::Tensor places = sequences.query(indices, b).select(1, 0).narrow(-1, 0, count);
    in_chunks(tokens, keys * in.query.size(1), [&](int64_t start, int64_t end) {
      const at::Tensor total = in.scores(start, end).masked_fill(seen.slice(0, start, end).logical_not(), hidden_score);
      const auto [best, order] = at::sort(total, /*stable=*/true, -1, /*descending=*/true);
      const at::Tensor top = best.narrow(-1, 0, count), none = top == hidden_score;
      put(places.slice(0, start, end), order.narrow(-1, 0, count).masked_fill(none, -1));
      if (given(values)) put(sequences.query(values, b).select(1, 0).narrow(-1, 0, count).slice(0, start, end), top);
    });
  }
}

std::string_view indexer_layout(const char* layout) { return *layout ? layout : "BSND"; }

}  // namespace

OP_COST(aclnnLightningIndexer, indexer_cost("aclnnLightningIndexer", query, key, sparseMode)) {
  const Sequences sequences("aclnnLightningIndexer", indexer_layout(layoutQueryOptional), indexer_layout(layoutKeyOptional),
                            query, host_numbers(actualSeqLengthsQueryOptional), host_numbers(actualSeqLengthsKeyOptional),
                            blockTableOptional);
  best_keys({query, key, weights, {}, {}}, sequences, sparseMode == 3, sparseIndicesOut,
            returnValues ? sparseValuesOut : at::Tensor());
}

OP_COST(aclnnQuantLightningIndexer, indexer_cost("aclnnQuantLightningIndexer", query, key, sparseMode)) {
  TORCH_CHECK(queryQuantMode == 0 && keyQuantMode == 0, "aclnnQuantLightningIndexer: quant modes ", queryQuantMode, " and ",
              keyQuantMode, " are not supported; 0, a scale for each head of a token, is");
  const Sequences sequences("aclnnQuantLightningIndexer", indexer_layout(layoutQueryOptional), indexer_layout(layoutKeyOptional),
                            query, host_numbers(actualSeqLengthsQueryOptional), host_numbers(actualSeqLengthsKeyOptional),
                            blockTableOptional);
  best_keys({query, key, weights, queryDequantScale, keyDequantScale}, sequences, sparseMode == 3, out, {});
}

OP_COST(aclnnLightningIndexerGrad, 3 * indexer_cost("aclnnLightningIndexerGrad", query, key, sparseMode)) {
  const std::string_view layout = indexer_layout(inputLayout);
  const Sequences sequences("aclnnLightningIndexerGrad", layout, layout, query, host_numbers(actualSeqQLenOptional),
                            host_numbers(actualSeqKvLenOptional), {});
  const IndexerInputs inputs{query, key, weights, {}, {}};
  const at::Tensor by_queries = at::zeros_like(widened(query)), by_keys = at::zeros_like(widened(key));
  const at::Tensor by_weights = at::zeros_like(widened(weights));
  for (int64_t b = 0; b < sequences.count(); ++b) {
    const IndexerInputs in = inputs.part(sequences, b);
    const int64_t tokens = in.query.size(0), keys = in.key.size(0);
    if (keys == 0) continue;
    const ChosenKeys all = chosen_keys(sequences.query(sparseIndices, b).select(1, 0), 1, keys, false);
    const at::Tensor grad = widened(sequences.query(dy, b).select(1, 0)) * all.seen;
    at::Tensor by_key = sequences.key(by_keys, b).select(1, 0);
    const int64_t numbers_each = all.places.size(1) * (in.key.size(1) + 3 * in.query.size(1));
    in_chunks(tokens, numbers_each, [&](int64_t start, int64_t end) {
      const ChosenKeys chosen = all.slice(start, end);
      const at::Tensor q = in.query.slice(0, start, end), k = chosen.of(in.key), g = grad.slice(0, start, end).unsqueeze(1);
      const at::Tensor dots = at::relu(at::bmm(q, k.transpose(1, 2)));
      const at::Tensor by_dots = g * in.weights.slice(0, start, end).unsqueeze(-1) * (dots > 0);
      put(sequences.query(by_weights, b).slice(0, start, end), (g * dots).sum({-1}));
      put(sequences.query(by_queries, b).slice(0, start, end), at::bmm(by_dots, k));
      by_key.index_add_(0, chosen.places.reshape({-1}), at::bmm(by_dots.transpose(1, 2), q).flatten(0, 1));
    });
  }
  put(dqOut, by_queries);
  put(dkOut, by_keys);
  put(dweightsOut, by_weights);
}

OP_COST(aclnnDenseLightningIndexerSoftmaxLse,
        indexer_cost("aclnnDenseLightningIndexerSoftmaxLse", queryIndex, keyIndex, sparseMode)) {
  TORCH_CHECK(sparseMode == 3, "aclnnDenseLightningIndexerSoftmaxLse: sparseMode ", sparseMode, " is not supported; 3 is");
  const std::string_view layout = indexer_layout(layoutOptional);
  const Sequences sequences("aclnnDenseLightningIndexerSoftmaxLse", layout, layout, queryIndex,
                            actualSeqLengthsQueryOptional.vec(), actualSeqLengthsKeyOptional.vec(), {});
  const IndexerInputs inputs{queryIndex, keyIndex, weight, {}, {}};
  const int64_t heads = sequences.packed() ? 0 : 1;  // [1, tokens] or [batch, 1, tokens]
  const at::Tensor tops = softmaxMaxOut.zero_().select(heads, 0), totals = softmaxSumOut.zero_().select(heads, 0);
  for (int64_t b = 0; b < sequences.count(); ++b) {
    const IndexerInputs in = inputs.part(sequences, b);
    const int64_t tokens = in.query.size(0), keys = in.key.size(0);
    if (keys == 0) continue;
    const at::Tensor seen = all_keys(tokens, keys, true).seen;
    in_chunks(tokens, keys * in.query.size(1), [&](int64_t start, int64_t end) {
      const at::Tensor scores = in.scores(start, end).masked_fill(seen.slice(0, start, end).logical_not(), hidden_score);
      const at::Tensor highest = scores.amax({-1}), top = at::where(highest == hidden_score, 0.0, highest);
      put(sequences.query(tops, b).slice(0, start, end), top);
      put(sequences.query(totals, b).slice(0, start, end), (scores - top.unsqueeze(-1)).exp().sum({-1}));
    });
  }
}

namespace {

// Training: the indexer's softmax is to be that of the attention, whose statistics are given.
struct IndexerLesson {
  const char* op;
  const Sequences& sequences;
  IndexerInputs indexer;
  at::Tensor query, key, top, total;  // of the attention: with ropes; statistics [batch, heads of keys, tokens, group] or packed
  double scale;

  at::Tensor statistic(const at::Tensor& t, int64_t b) const {
    return widened(sequences.query(sequences.packed() ? t.transpose(0, 1) : t.transpose(1, 2), b));
  }
  // The attention's weights at the chosen keys, summed over the heads and normalised: [tokens, keys].
  at::Tensor target(int64_t b, const ChosenKeys& chosen, int64_t start, int64_t end) const {
    const at::Tensor q = widened(sequences.query(query, b)).slice(0, start, end), keys = widened(sequences.key(key, b));
    const at::Tensor highest = statistic(top, b).slice(0, start, end), sums = statistic(total, b).slice(0, start, end);
    const int64_t groups = equal_parts(q.size(1), keys.size(1));
    at::Tensor summed = at::zeros(chosen.places.sizes(), q.options());
    for (int64_t head = 0; head < keys.size(1); ++head) {
      const at::Tensor scores =
          at::bmm(q.narrow(1, head * groups, groups), chosen.of(keys.select(1, head)).transpose(1, 2)) * scale;
      const at::Tensor weights = (scores - highest.select(1, head).unsqueeze(-1)).exp() / sums.select(1, head).unsqueeze(-1);
      summed = summed + weights.masked_fill(chosen.seen.logical_not().unsqueeze(1), 0.0).sum({1});
    }
    const at::Tensor whole = summed.sum({-1}, true);
    return summed / at::where(whole == 0, 1.0, whole);
  }

  struct Results {
    at::Tensor by_query, by_key, by_weights, loss;
  };
  // chosen(b, tokens, keys): the keys that count; log_sum(b, start, end): the logarithm of the sum of exponentials of all scores,
  // undefined: of those of the chosen keys.
  template <class Chosen, class LogSum>
  void run(Chosen&& chosen_of, LogSum&& log_sum_of, const Results& results) const {
    const at::Tensor by_queries = at::zeros_like(widened(indexer.query)), by_keys = at::zeros_like(widened(indexer.key));
    const at::Tensor by_weights = at::zeros_like(widened(indexer.weights)), loss = at::zeros({1}, at::kFloat);
    for (int64_t b = 0; b < sequences.count(); ++b) {
      const IndexerInputs in = indexer.part(sequences, b);
      const int64_t tokens = in.query.size(0), keys = in.key.size(0);
      if (keys == 0) continue;
      const ChosenKeys all = chosen_of(b, tokens, keys);
      at::Tensor by_key = sequences.key(by_keys, b).select(1, 0);
      const int64_t numbers_each = all.places.size(1) * (in.key.size(1) + 3 * in.query.size(1) + query.size(-1) + query.size(-2));
      in_chunks(tokens, numbers_each, [&](int64_t start, int64_t end) {
        const ChosenKeys chosen = all.slice(start, end);
        const at::Tensor q = in.query.slice(0, start, end), k = chosen.of(in.key),
                         w = in.weights.slice(0, start, end).unsqueeze(-1);
        const at::Tensor dots = at::relu(at::bmm(q, k.transpose(1, 2))), scores = (dots * w).sum({1});
        const at::Tensor hidden = chosen.seen.logical_not();
        at::Tensor log_sum = log_sum_of(b, start, end);
        if (!log_sum.defined()) log_sum = at::logsumexp(scores.masked_fill(hidden, hidden_score), {-1}, true);
        const at::Tensor log_found = (scores - log_sum).masked_fill(hidden, 0.0), wanted = target(b, chosen, start, end);
        loss.add_(at::where(wanted > 0, wanted * (wanted.clamp_min(1e-38).log() - log_found), 0.0).sum());
        const at::Tensor g = (log_found.exp() - wanted).masked_fill(hidden, 0.0).unsqueeze(1), by_dots = g * w * (dots > 0);
        put(sequences.query(by_weights, b).slice(0, start, end), (g * dots).sum({-1}));
        put(sequences.query(by_queries, b).slice(0, start, end), at::bmm(by_dots, k));
        by_key.index_add_(0, chosen.places.reshape({-1}), at::bmm(by_dots.transpose(1, 2), q).flatten(0, 1));
      });
    }
    put(results.by_query, by_queries);
    put(results.by_key, by_keys);
    put(results.by_weights, by_weights);
    put(results.loss, loss);
  }
};

at::Tensor with_rope(const at::Tensor& tensor, const at::Tensor& rope) {
  return given(rope) ? at::cat({widened(tensor), widened(rope)}, -1) : tensor;
}
// Whether the sums that clients give count a sink is not known.
const at::Tensor& without_sinks(const at::Tensor& weight, const at::Tensor& sinks) {
  TORCH_CHECK(!given(sinks), "aclnnSparseLightningIndexerGradKLLossV2: sinks are not supported");
  return weight;
}
double lesson_cost(const char* name, const at::Tensor& query, const at::Tensor& key, const at::Tensor& index_key, int64_t mode) {
  if (mode != 3) invalid("%s: sparseMode %d is not supported; 3 is", name, int(mode));
  return 3 * indexer_cost(name, query, index_key, mode) + bytes(query) * static_cast<double>(key.size(-3));
}

}  // namespace

OP_COST(aclnnDenseLightningIndexerGradKLLoss,
        lesson_cost("aclnnDenseLightningIndexerGradKLLoss", query, key, keyIndex, sparseMode)) {
  const char* const op = "aclnnDenseLightningIndexerGradKLLoss";
  const std::string_view of = indexer_layout(layout);
  const Sequences sequences(op, of, of, query, actualSeqLengthsQuery.vec(), actualSeqLengthsKey.vec(), {});
  const IndexerLesson lesson{op,
                             sequences,
                             {queryIndex, keyIndex, weights, {}, {}},
                             with_rope(query, queryRope),
                             with_rope(key, keyRope),
                             softmaxMax,
                             softmaxSum,
                             scaleValue};
  const at::Tensor sums = widened(softmaxMaxIndex) + widened(softmaxSumIndex).log();
  lesson.run([](int64_t, int64_t tokens, int64_t keys) { return all_keys(tokens, keys, true); },
             [&](int64_t b, int64_t start, int64_t end) { return lesson.statistic(sums, b).slice(0, start, end); },
             {dQueryIndex, dKeyIndex, dWeights, loss});
}

#define SPARSE_LESSON(NAME, LENGTHS, KEY_LENGTHS, QUERY_ROPE, KEY_ROPE, WEIGHTS, BY_WEIGHTS)                             \
  OP_COST(NAME, lesson_cost(#NAME, query, key, keyIndex, sparseMode)) {                                                  \
    const std::string_view of = indexer_layout(layout);                                                                  \
    const Sequences sequences(#NAME, of, of, query, LENGTHS.vec(), KEY_LENGTHS.vec(), {});                               \
    const IndexerLesson lesson{#NAME,                                                                                    \
                               sequences,                                                                                \
                               {queryIndex, keyIndex, WEIGHTS, {}, {}},                                                  \
                               with_rope(query, QUERY_ROPE),                                                             \
                               with_rope(key, KEY_ROPE),                                                                 \
                               softmaxMax,                                                                               \
                               softmaxSum,                                                                               \
                               scaleValue};                                                                              \
    lesson.run([&](int64_t b, int64_t,                                                                                   \
                   int64_t keys) { return chosen_keys(sequences.query(sparseIndices, b).select(1, 0), 1, keys, true); }, \
               [](int64_t, int64_t, int64_t) { return at::Tensor(); }, {dQueryIndex, dKeyIndex, BY_WEIGHTS, loss});      \
  }
SPARSE_LESSON(aclnnSparseLightningIndexerGradKLLoss, actualSeqLengthsQuery, actualSeqLengthsKey, queryRope, keyRope, weights,
              dWeights)
SPARSE_LESSON(aclnnSparseLightningIndexerGradKLLossV2, actualSeqLengthsQueryOptional, actualSeqLengthsKeyOptional,
              queryRopeOptional, keyRopeOptional, without_sinks(weight, sinksOptional), dWeight)
