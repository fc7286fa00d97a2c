// Attention of each token to the keys that an index names.
#include "op/kernels/sparse_attention.h"

#include <limits>

#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/pages.h"

namespace softcann::op {

std::vector<int64_t> host_numbers(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  const at::Tensor wide = tensor.reshape({-1}).to(at::kLong).contiguous();
  return {wide.const_data_ptr<int64_t>(), wide.const_data_ptr<int64_t>() + wide.numel()};
}

Sequences::Sequences(const char* op, std::string_view query_layout, std::string_view key_layout, const at::Tensor& query,
                     std::vector<int64_t> query_lengths, std::vector<int64_t> key_lengths, const at::Tensor& table)
    : packed_(query_layout == "TND"),
      paged_(key_layout == "PA_BSND"),
      packed_keys_(key_layout == "TND"),
      query_lengths_(std::move(query_lengths)),
      key_lengths_(std::move(key_lengths)),
      table_(table) {
  TORCH_CHECK((packed_ || query_layout == "BSND") && (paged_ || packed_keys_ || key_layout == "BSND"), op, ": layouts ",
              query_layout, " and ", key_layout, " are not supported; BSND, TND and, for keys, PA_BSND are");
  TORCH_CHECK(query.dim() == (packed_ ? 3 : 4), op, ": query has ", query.dim(), " dimensions, which is not ", query_layout);
  TORCH_CHECK(!packed_ || !query_lengths_.empty(), op, ": the layout TND needs the running sums of the queries' lengths");
  TORCH_CHECK(!(packed_keys_ || paged_) || !key_lengths_.empty(), op, ": the layout ", key_layout, " needs the keys' lengths");
  TORCH_CHECK(!paged_ || table.defined(), op, ": the layout PA_BSND needs the block table");
  count_ = packed_ ? static_cast<int64_t>(query_lengths_.size()) : query.size(0);
  for (const auto* lengths : {&query_lengths_, &key_lengths_}) {
    TORCH_CHECK(lengths->empty() || static_cast<int64_t>(lengths->size()) >= count_, op, ": ", lengths->size(), " lengths of ",
                count_, " sequences");
  }
}

namespace {

at::Tensor packed_part(const at::Tensor& tensor, const std::vector<int64_t>& ends, int64_t b) {
  return rows_within(tensor, 0, b == 0 ? 0 : ends.at(static_cast<size_t>(b - 1)), ends.at(static_cast<size_t>(b)));
}
at::Tensor batch_part(const at::Tensor& tensor, const std::vector<int64_t>& lengths, int64_t b) {
  return lengths.empty() ? tensor[b] : rows_within(tensor[b], 0, 0, lengths.at(static_cast<size_t>(b)));
}

}  // namespace

at::Tensor Sequences::query(const at::Tensor& tensor, int64_t b) const {
  return packed_ ? packed_part(tensor, query_lengths_, b) : batch_part(tensor, query_lengths_, b);
}

at::Tensor Sequences::key(const at::Tensor& tensor, int64_t b) const {
  if (packed_keys_) return packed_part(tensor, key_lengths_, b);
  if (!paged_) return batch_part(tensor, key_lengths_, b);
  const int64_t length = key_lengths_.at(static_cast<size_t>(b));
  return pages_of(tensor, table_[b], length, tensor.size(1)).flatten(0, 1).slice(0, 0, length);
}

at::Tensor ChosenKeys::of(const at::Tensor& key) const {
  return key.index_select(0, places.reshape({-1})).unflatten(0, {places.size(0), places.size(1)});
}

ChosenKeys chosen_keys(const at::Tensor& index, int64_t block, int64_t keys, bool causal) {
  TORCH_CHECK(block > 0, "blocks of ", block, " keys");
  const int64_t tokens = index.size(0);
  const at::Tensor first = index.to(at::kLong).unsqueeze(-1);
  const at::Tensor places = (first * block + at::arange(block, at::kLong)).flatten(1);
  if (keys > 0 && first.numel() > 0 && first.max().item<int64_t>() > (keys - 1) / block) {
    throw Error(ErrorKind::index_out_of_range,
                c10::str("block ", first.max().item<int64_t>(), " of ", block, " keys, where there are ", keys, " keys"));
  }
  at::Tensor seen = (first >= 0).expand({-1, -1, block}).flatten(1).logical_and(places < keys);
  if (causal) seen = seen.logical_and(places <= at::arange(keys - tokens, keys, at::kLong).unsqueeze(1));
  return {at::where(seen, places, 0), seen};
}

ChosenKeys all_keys(int64_t tokens, int64_t keys, bool causal) {
  return chosen_keys(at::arange(keys, at::kLong).expand({tokens, keys}), 1, keys, causal);
}

}  // namespace softcann::op

using namespace softcann::op;

namespace {

struct SparseAttention {
  at::Tensor query, key, value, query_rope, key_rope, sinks;
  double scale;
  int64_t block;
  bool causal;
};

at::Tensor joined(const at::Tensor& tensor, const at::Tensor& rope) {
  return given(rope) ? at::cat({widened(tensor), widened(rope)}, -1) : widened(tensor);
}

// One sequence of it; keys and values [keys, size], queries [tokens, heads, size].
struct SparseSequence {
  at::Tensor query, key, value;
  ChosenKeys chosen;

  SparseSequence(const SparseAttention& a, const Sequences& sequences, const at::Tensor& index, int64_t b) {
    const auto part = [&](const at::Tensor& t, bool of_query) {
      return !given(t) ? t : of_query ? sequences.query(t, b) : sequences.key(t, b);
    };
    query = joined(part(a.query, true), part(a.query_rope, true));
    key = joined(part(a.key, false), part(a.key_rope, false)).select(1, 0);
    value = widened(part(a.value, false)).select(1, 0);
    chosen = chosen_keys(sequences.query(index, b).select(1, 0), a.block, key.size(0), a.causal);
  }
  int64_t numbers_each() const { return chosen.places.size(1) * (key.size(1) + value.size(1) + 2 * query.size(1)); }
};

// The softmax of some tokens, [tokens, heads, keys], and its statistics [tokens, heads].
struct SparseSoftmax {
  at::Tensor weights, top, total;

  SparseSoftmax(const at::Tensor& query, const at::Tensor& keys, const at::Tensor& seen, const at::Tensor& sinks, double scale) {
    const double hidden = -std::numeric_limits<double>::infinity();
    const at::Tensor scores = (at::bmm(query, keys.transpose(1, 2)) * scale).masked_fill(seen.unsqueeze(1).logical_not(), hidden);
    top = scores.amax({-1});
    top = at::where(top == hidden, 0.0, top);
    weights = (scores - top.unsqueeze(-1)).exp();
    total = weights.sum({-1});
    if (given(sinks)) total = total + (widened(sinks) - top).exp();
    weights = weights / at::where(total == 0, 1.0, total).unsqueeze(-1);
  }
};

double sparse_cost(const char* name, const at::Tensor& query, const at::Tensor& key, const at::Tensor& index, int64_t mode) {
  if (mode != 0 && mode != 3) invalid("%s: sparseMode %d is not supported; 0 and 3 are", name, int(mode));
  if (key.dim() < 3 || key.size(-2) != 1) invalid("%s: keys must have one head", name);
  return static_cast<double>(query.numel()) * static_cast<double>(index.size(-1));
}

struct SparseResults {
  at::Tensor out, top, total;  // statistics may be undefined
};

void sparse_attention(const SparseAttention& a, const Sequences& sequences, const at::Tensor& index,
                      const SparseResults& results) {
  results.out.zero_();
  // [batch, 1, tokens, heads] or [1, tokens, heads]
  const auto statistic = [&](const at::Tensor& t) { return given(t) ? t.zero_().select(sequences.packed() ? 0 : 1, 0) : t; };
  const at::Tensor tops = statistic(results.top), totals = statistic(results.total);
  for (int64_t b = 0; b < sequences.count(); ++b) {
    const SparseSequence s(a, sequences, index, b);
    if (s.key.size(0) == 0) continue;
    const at::Tensor out = sequences.query(results.out, b);
    in_chunks(s.query.size(0), s.numbers_each(), [&](int64_t start, int64_t end) {
      const ChosenKeys chosen = s.chosen.slice(start, end);
      const SparseSoftmax softmax(s.query.slice(0, start, end), chosen.of(s.key), chosen.seen, a.sinks, a.scale);
      put(out.slice(0, start, end), at::bmm(softmax.weights, chosen.of(s.value)));
      if (given(tops)) put(sequences.query(tops, b).slice(0, start, end), softmax.top);
      if (given(totals)) put(sequences.query(totals, b).slice(0, start, end), softmax.total);
    });
  }
}

std::string_view layout_or_default(const char* layout) { return *layout ? layout : "BSND"; }

}  // namespace

#define SPARSE_ATTENTION(NAME, SINKS)                                                                                          \
  OP_COST(NAME, sparse_cost(#NAME, query, key, sparseIndices, sparseMode)) {                                                   \
    const at::Tensor none;                                                                                                     \
    const Sequences sequences(#NAME, layout_or_default(layoutQueryOptional), layout_or_default(layoutKvOptional), query,       \
                              host_numbers(actualSeqLengthsQueryOptional), host_numbers(actualSeqLengthsKvOptional),           \
                              blockTableOptional);                                                                             \
    sparse_attention(                                                                                                          \
        {query, key, value, queryRopeOptional, keyRopeOptional, SINKS, scaleValue, sparseBlockSizeOptional, sparseMode == 3},  \
        sequences, sparseIndices, {attentionOut, returnSoftmaxLse ? softmaxMax : none, returnSoftmaxLse ? softmaxSum : none}); \
  }
SPARSE_ATTENTION(aclnnSparseFlashAttention, none)
SPARSE_ATTENTION(aclnnSparseFlashAttentionV2, sinksOptional)

// The softmax is taken again, in float32: the client's statistics and result are rounded.
OP_COST(aclnnSparseFlashAttentionGrad, 3 * sparse_cost("aclnnSparseFlashAttentionGrad", query, key, sparseIndices, sparseMode)) {
  const std::string_view layout = layout_or_default(layoutOptional);
  const Sequences sequences("aclnnSparseFlashAttentionGrad", layout, layout, query, host_numbers(actualSeqLengthsQueryOptional),
                            host_numbers(actualSeqLengthsKvOptional), {});
  const SparseAttention a{query, key,        value,           queryRopeOptional, keyRopeOptional,
                          {},    scaleValue, sparseBlockSize, sparseMode == 3};
  const auto store = [&](const at::Tensor& whole, const at::Tensor& out, const at::Tensor& rope_out) {
    put(out, whole.narrow(-1, 0, out.size(-1)));
    if (given(rope_out)) put(rope_out, whole.slice(-1, out.size(-1)));
  };
  const at::Tensor by_queries = at::zeros_like(joined(query, queryRopeOptional)),
                   by_keys = at::zeros_like(joined(key, keyRopeOptional));
  const at::Tensor by_values = at::zeros_like(widened(value));
  for (int64_t b = 0; b < sequences.count(); ++b) {
    const SparseSequence s(a, sequences, sparseIndices, b);
    if (s.key.size(0) == 0) continue;
    const at::Tensor by_out = widened(sequences.query(dOut, b)), by_query = sequences.query(by_queries, b);
    at::Tensor by_key = sequences.key(by_keys, b).select(1, 0), by_value = sequences.key(by_values, b).select(1, 0);
    in_chunks(s.query.size(0), 2 * s.numbers_each(), [&](int64_t start, int64_t end) {
      const ChosenKeys chosen = s.chosen.slice(start, end);
      const at::Tensor q = s.query.slice(0, start, end), grad = by_out.slice(0, start, end), keys = chosen.of(s.key);
      const at::Tensor weights = SparseSoftmax(q, keys, chosen.seen, {}, scaleValue).weights;
      const at::Tensor by_weights = at::bmm(grad, chosen.of(s.value).transpose(1, 2));
      const at::Tensor by_scores = weights * (by_weights - (weights * by_weights).sum({-1}, true)) * scaleValue;
      put(by_query.slice(0, start, end), at::bmm(by_scores, keys));
      const at::Tensor places = chosen.places.reshape({-1});
      by_key.index_add_(0, places, at::bmm(by_scores.transpose(1, 2), q).flatten(0, 1));
      by_value.index_add_(0, places, at::bmm(weights.transpose(1, 2), grad).flatten(0, 1));
    });
  }
  store(by_queries, dQueryOut, dQueryRopeOutOptional);
  store(by_keys, dKeyOut, dKeyRopeOutOptional);
  put(dValueOut, by_values);
}

namespace {

// A row of a quantised latent cache: int8 numbers, a rope in bfloat16, a float32 scale for each `tile` numbers, all as bytes.
struct LatentRows {
  at::Tensor latent, rope;

  LatentRows(const at::Tensor& rows, int64_t rope_size, int64_t tile) {
    const int64_t row = rows.size(-1);
    int64_t size = tile;
    while (size < row && size + 2 * rope_size + 4 * (size / tile) != row) size += tile;
    TORCH_CHECK(size < row, "aclnnKvQuantSparseFlashAttention: rows of ", row, " bytes are not numbers, a rope of ", rope_size,
                " and a scale for each ", tile, " numbers");
    const at::Tensor scales = rows.slice(-1, size + 2 * rope_size).contiguous().view(at::kFloat);
    latent = rows.slice(-1, 0, size).to(at::kFloat) * scales.repeat_interleave(tile, -1);
    rope = rows.slice(-1, size, size + 2 * rope_size).contiguous().view(at::kBFloat16);
  }
};

double latent_cost(const at::Tensor& query, const at::Tensor& key, const at::Tensor& index, int64_t mode, int64_t key_mode,
                   int64_t value_mode, int64_t scales_in_rows) {
  if (key_mode != 2 || value_mode != 2 || scales_in_rows != 1 || key.scalar_type() != at::kChar) {
    invalid("aclnnKvQuantSparseFlashAttention: only int8 caches with quant modes 2 and quantScaleRepoMode 1 are supported");
  }
  return sparse_cost("aclnnKvQuantSparseFlashAttention", query, key, index, mode);
}

}  // namespace

// The values are the latent parts of the keys.
OP_COST(aclnnKvQuantSparseFlashAttention,
        latent_cost(query, key, sparseIndices, sparseModeOptional, keyQuantMode, valueQuantMode, quantScaleRepoModeOptional)) {
  TORCH_CHECK(!given(keyDequantScaleOptional) && !given(valueDequantScaleOptional) && tileSizeOptional > 0,
              "aclnnKvQuantSparseFlashAttention: scales beside the cache are not supported: they lie in its rows");
  const LatentRows rows(key, ropeHeadDimOptional, tileSizeOptional);
  const int64_t size = query.size(-1) - ropeHeadDimOptional;
  const Sequences sequences("aclnnKvQuantSparseFlashAttention", layout_or_default(layoutQueryOptional),
                            layout_or_default(layoutKvOptional), query, host_numbers(actualSeqLengthsQueryOptional),
                            host_numbers(actualSeqLengthsKvOptional), blockTableOptional);
  sparse_attention({query.slice(-1, 0, size),
                    rows.latent,
                    rows.latent,
                    query.slice(-1, size),
                    rows.rope,
                    {},
                    scaleValue,
                    sparseBlockSizeOptional,
                    sparseModeOptional == 3},
                   sequences, sparseIndices, {attentionOutOut, {}, {}});
}
