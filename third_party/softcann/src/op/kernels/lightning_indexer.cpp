// The lightning indexer: which keys matter most to a token, and the gradient of that.
#include <ATen/ops/bmm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <limits>

#include "op/kernel.h"
#include "op/kernels/common.h"
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
