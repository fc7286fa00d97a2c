// Native sparse attention: keys compressed in windows, the blocks of keys that matter most, attention to those blocks.
#include <limits>

#include "op/kernel.h"
#include "op/kernels/attention_inputs.h"
#include "op/kernels/common.h"
#include "op/kernels/dense_attention.h"
#include "op/kernels/dense_result.h"
#include "op/kernels/pages.h"
#include "op/kernels/parts.h"
#include "op/kernels/sparse_attention.h"

using namespace softcann::op;

namespace {

struct Span {
  int64_t start, end;
  int64_t size() const { return end - start; }
  at::Tensor of(const at::Tensor& rows) const { return rows.slice(0, start, end); }
};

// Of packed sequences: their lengths are running sums.
std::vector<Span> packed_spans(const char* what, at::IntArrayRef ends, int64_t rows) {
  TORCH_CHECK(!ends.empty(), what, " must be given, the running sums of the lengths");
  std::vector<Span> spans;
  int64_t start = 0;
  for (const int64_t end : ends) {
    TORCH_CHECK(end >= start && end <= rows, what, ": ", end, " is no running sum of lengths for ", rows, " rows");
    spans.push_back({start, end});
    start = end;
  }
  return spans;
}
std::vector<Span> spans_of_type(at::IntArrayRef lengths, int64_t type, int64_t rows) {
  if (type == 0) return packed_spans("actSeqLen", lengths, rows);
  TORCH_CHECK(type == 1, "actSeqLenType ", type, " is not one of 0, running sums, and 1, lengths");
  std::vector<int64_t> ends(lengths.begin(), lengths.end());
  for (size_t i = 1; i < ends.size(); ++i) ends[i] += ends[i - 1];
  return packed_spans("actSeqLen", ends, rows);
}

double packed_only(const char* layout, double cost) {
  if (std::string_view(layout) != "TND" && *layout != 0) invalid("layout %s is not supported, only TND", layout);
  return cost;
}

// --- Compression: weighted sums of windows

struct Windows {
  int64_t block, stride;

  int64_t count(int64_t length) const { return length < block ? 0 : (length - block) / stride + 1; }
  // Row r of each of `count` windows.
  at::Tensor row(const at::Tensor& rows, int64_t r, int64_t count) const {
    return rows.slice(0, r, r + (count - 1) * stride + 1, stride);
  }
  // Calls each(span of the rows, span of the windows, number of windows).
  template <class Each>
  void of(const std::vector<Span>& sequences, Each&& each) const {
    int64_t place = 0;
    for (const Span& span : sequences) {
      const int64_t n = count(span.size());
      if (n != 0) each(span, Span{place, place + n}, n);
      place += n;
    }
  }
};

double windows_cost(const at::Tensor& input, int64_t block, int64_t stride, const char* layout) {
  if (block <= 0 || stride <= 0) invalid("compressBlockSize and compressStride must be positive");
  return packed_only(layout, bytes(input) * static_cast<double>(block) / static_cast<double>(stride));
}

}  // namespace

OP_COST(aclnnNsaCompress, windows_cost(input, compressBlockSize, compressStride, layoutOptional)) {
  const Windows windows{compressBlockSize, compressStride};
  const at::Tensor rows = widened(input), factors = widened(weight).unsqueeze(-1);
  const at::Tensor sums = at::zeros(output.sizes(), rows.options());
  windows.of(spans_of_type(actSeqLenOptional, actSeqLenType, input.size(0)), [&](const Span& in, const Span& out, int64_t n) {
    TORCH_CHECK(out.end <= sums.size(0), "aclnnNsaCompress: output has ", sums.size(0), " rows, too few for all windows");
    for (int64_t r = 0; r < compressBlockSize; ++r) out.of(sums).add_(windows.row(in.of(rows), r, n) * factors[r]);
  });
  put(output, sums);
}

OP_COST(aclnnNsaCompressGrad, 2 * windows_cost(input, compressBlockSize, compressStride, layoutOptionalOptional)) {
  const Windows windows{compressBlockSize, compressStride};
  const at::Tensor rows = widened(input), factors = widened(weight).unsqueeze(-1), grad = widened(outputGrad);
  const at::Tensor by_rows = at::zeros_like(rows), by_factors = at::zeros(weight.sizes(), rows.options());
  const auto sequences = spans_of_type(actSeqLenOptionalOptional, actSeqLenType, input.size(0));
  windows.of(sequences, [&](const Span& in, const Span& out, int64_t n) {
    TORCH_CHECK(out.end <= grad.size(0), "aclnnNsaCompressGrad: outputGrad has ", grad.size(0), " rows, too few for all windows");
    for (int64_t r = 0; r < compressBlockSize; ++r) {
      windows.row(in.of(by_rows), r, n).add_(out.of(grad) * factors[r]);
      by_factors[r].add_((out.of(grad) * windows.row(in.of(rows), r, n)).sum(at::IntArrayRef{0, 2}));
    }
  });
  put(inputGradOut, by_rows);
  put(weightGradOut, by_factors);
}

// The window that the newest token of a sequence completes, if it does.
OP_COST(aclnnNsaCompressWithCache, windows_cost(weight, compressBlockSize, compressStride, layoutOptional)) {
  TORCH_CHECK(given(blockTableOptional), "aclnnNsaCompressWithCache: blockTable must be given: keys lie in pages");
  TORCH_CHECK(actSeqLenType == 1, "aclnnNsaCompressWithCache: actSeqLenType ", actSeqLenType,
              " is not supported, only 1, lengths");
  TORCH_CHECK(input.dim() == 4 && input.size(1) == pageBlockSize, "aclnnNsaCompressWithCache: input ", input.sizes(),
              " is not [pages, ", pageBlockSize, ", heads, size]");
  const at::Tensor slots = outputCache.view({-1, outputCache.size(-2), outputCache.size(-1)});
  const std::vector<int64_t> places = host_numbers(slotMapping);
  for (size_t b = 0; b < actSeqLenOptional.size(); ++b) {
    const int64_t first = actSeqLenOptional[b] - compressBlockSize;
    if (first < 0 || first % compressStride != 0) continue;
    const at::Tensor place = at::arange(first, first + compressBlockSize, at::kLong);
    const at::Tensor page =
        blockTableOptional[static_cast<int64_t>(b)].to(at::kLong).index_select(0, place.div(pageBlockSize, "floor"));
    const at::Tensor rows = widened(input.flatten(0, 1).index_select(0, page * pageBlockSize + place.remainder(pageBlockSize)));
    put(slots.select(0, places.at(b)), (rows * widened(weight).unsqueeze(-1)).sum({0}));
  }
}

namespace {

// --- Attention

// What `mask` hides of a sequence: a mask of 2048 by 2048 stands for "no later keys", however long it is.
at::Tensor masked(const at::Tensor& mask, int64_t rows, int64_t keys) {
  constexpr int64_t triangle = 2048;
  if (!given(mask)) return {};
  if (mask.dim() == 2 && mask.size(0) >= rows && mask.size(1) >= keys)
    return mask.slice(0, 0, rows).slice(1, 0, keys).to(at::kBool);
  TORCH_CHECK(mask.dim() == 2 && mask.size(0) == triangle && mask.size(1) == triangle, "attenMask ", mask.sizes(),
              " does not cover ", rows, " tokens and ", keys, " keys");
  return at::ones({rows, keys}, at::kBool).triu(1);
}

void put_statistic(const at::Tensor& out, const Span& span, const at::Tensor& value) {
  if (given(out)) put(span.of(out), value.transpose(0, 1).expand({-1, -1, out.size(-1)}));
}

// The blocks of keys that matter most: by the weights of the windows that overlap them.
struct Importance {
  int64_t compress_block, stride, select_block, heads;

  double checked(double cost) const {
    if (stride <= 0 || select_block <= 0 || select_block % stride != 0 || compress_block % stride != 0) {
      invalid("compressBlockSize and selectBlockSize must be multiples of compressStride");
    }
    return cost;
  }
  int64_t blocks(int64_t windows) const {
    const int64_t each = select_block / stride;
    return (windows + each - 1) / each;
  }
  // How many strides each window and each block have in common, [windows, blocks].
  at::Tensor shared(int64_t windows, int64_t blocks) const {
    const at::Tensor window = at::arange(windows, at::kLong).unsqueeze(1);
    const at::Tensor first = at::arange(blocks, at::kLong) * (select_block / stride);
    const at::Tensor ends = at::minimum(window + compress_block / stride, first + select_block / stride);
    return (ends - at::maximum(window, first)).clamp_min(0).to(at::kFloat);
  }
  // Of some rows, summed over the heads of a group: [heads of keys, rows, blocks]
  at::Tensor of(const at::Tensor& weights, const at::Tensor& shared) const {
    return at::matmul(in_parts(weights, 0, heads).sum({1}), shared.to(weights.scalar_type()));
  }
  // Best first, those of the same importance in their order, -1 behind the last: [rows, heads of keys, count].
  static at::Tensor best(const at::Tensor& importance, int64_t count) {
    const at::Tensor order = std::get<1>(at::sort(importance, /*stable=*/true, -1, /*descending=*/true)).slice(-1, 0, count);
    return at::constant_pad_nd(order, {0, count - order.size(-1)}, -1).transpose(0, 1);
  }
};

}  // namespace

OP_COST(aclnnNsaCompressAttention, Importance{compressBlockSize, compressStride, selectBlockSize, 1}.checked(
                                       packed_only(inputLayout, bytes(query) * static_cast<double>(key.size(0))))) {
  constexpr double always = std::numeric_limits<double>::infinity();
  const auto rows = packed_spans("actualSeqQLen", actualSeqQLenOptional, query.size(0));
  const auto windows = packed_spans("actualCmpSeqKvLen", actualCmpSeqKvLenOptional, key.size(0));
  TORCH_CHECK(rows.size() == windows.size(), "aclnnNsaCompressAttention: ", rows.size(), " sequences of queries and ",
              windows.size(), " of keys");
  const Importance importance{compressBlockSize, compressStride, selectBlockSize, key.size(1)};
  const DenseResult tops(softmaxMaxOut), totals(softmaxSumOut);
  int64_t blocks_before = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    int64_t blocks = importance.blocks(windows[i].size());
    if (!actualSelSeqKvLenOptional.empty()) {
      blocks = actualSelSeqKvLenOptional[i] - blocks_before;
      blocks_before = actualSelSeqKvLenOptional[i];
    }
    const at::Tensor hidden = masked(attenMaskOptional, rows[i].size(), windows[i].size());
    const at::Tensor shared = importance.shared(windows[i].size(), blocks);
    const at::Tensor places = rows[i].of(topkIndicesOut);
    put(places, at::constant_pad_nd(at::arange(std::min(blocks, selectBlockCount), at::kLong),
                                    {0, std::max<int64_t>(0, selectBlockCount - blocks)}, -1)
                    .expand_as(places));
    const DenseAttention attention{
        heads_first(rows[i].of(query)), heads_first(windows[i].of(key)), heads_first(windows[i].of(value)), scaleValue,
        [&](int64_t start, int64_t end) { return hidden.defined() ? hidden.slice(0, start, end) : hidden; }};
    const auto result = attention.forward([&](int64_t start, int64_t end, const at::Tensor& weights) {
      at::Tensor found = importance.of(weights, shared);
      if (given(topkMaskOptional)) {
        found = found.masked_fill(topkMaskOptional.slice(0, start, end).slice(1, 0, blocks).to(at::kBool), always);
      }
      put(places.slice(0, start, end), Importance::best(found, selectBlockCount));
    });
    put(rows[i].of(attentionOutOut), result.out.transpose(0, 1));
    // The gradient is that of aclnnFlashAttentionVarLenScore: so lie the statistics. See Note [Statistics of packed sequences].
    const auto put_packed = [&](const at::Tensor& out, const at::Tensor& value) {
      if (!given(out)) return;
      const at::Tensor part = sequence_statistics(out, rows[i].start, rows[i].end);
      put(part, value.expand_as(part));
    };
    put_packed(tops.value(), result.top);
    put_packed(totals.value(), result.total);
  }
  tops.finish();
  totals.finish();
}

namespace {

// Which of `keys` do not lie in the blocks that `places` [rows, heads, count] names, -1 none: [heads of queries, rows, keys].
at::Tensor outside(const at::Tensor& places, int64_t block, int64_t keys, int64_t groups) {
  TORCH_CHECK(block > 0, "selected attention: selectBlockSize ", block);
  block = std::min(block, std::max<int64_t>(keys, 1));  // one that is longer is the only one
  const int64_t count = (keys + block - 1) / block;
  const at::Tensor wide = places.to(at::kLong), index = at::where((wide < 0).logical_or(wide >= count), count, wide);
  at::Tensor chosen = at::zeros({places.size(0), places.size(1), count + 1}, at::kBool).scatter_(-1, index, true);
  chosen = chosen.slice(-1, 0, count).repeat_interleave(block, -1).slice(-1, 0, keys).transpose(0, 1);
  return chosen.logical_not().repeat_interleave(groups, 0);
}

struct Selected {
  const at::Tensor &query, &key, &value, &places, &mask;
  at::IntArrayRef query_ends, key_ends;
  double scale;
  int64_t block;

  // Calls each(span of the queries, span of the keys, their attention).
  template <class Each>
  void of_sequences(Each&& each) const {
    const auto rows = packed_spans("actualSeqQLen", query_ends, query.size(0));
    const auto keys = packed_spans("actualSeqKvLen", key_ends, key.size(0));
    TORCH_CHECK(rows.size() == keys.size(), rows.size(), " sequences of queries and ", keys.size(), " of keys");
    const int64_t groups = equal_parts(query.size(1), key.size(1));
    for (size_t i = 0; i < rows.size(); ++i) {
      const at::Tensor later = masked(mask, rows[i].size(), keys[i].size()), chosen = rows[i].of(places);
      const DenseAttention attention{heads_first(rows[i].of(query)), heads_first(keys[i].of(key)), heads_first(keys[i].of(value)),
                                     scale, [&](int64_t start, int64_t end) {
                                       const at::Tensor out = outside(chosen.slice(0, start, end), block, keys[i].size(), groups);
                                       return later.defined() ? out.logical_or(later.slice(0, start, end)) : out;
                                     }};
      each(rows[i], keys[i], attention);
    }
  }
};

double selected_cost(const at::Tensor& query, const at::Tensor& key, const at::Tensor& places, int64_t block, int64_t count,
                     const char* layout) {
  if (block <= 0) invalid("selectedBlockSize %d is not positive", static_cast<int>(block));
  if (places.defined() && places.size(-1) != count) {
    invalid("topkIndices names %d blocks of each token, not %d", static_cast<int>(places.size(-1)), static_cast<int>(count));
  }
  return packed_only(layout, bytes(query) * static_cast<double>(key.size(0)));
}

}  // namespace

OP_COST(aclnnNsaSelectedAttention, selected_cost(query, key, topkIndices, selectedBlockSize, selectedBlockCount, inputLayout)) {
  const Selected selected{query,
                          key,
                          value,
                          topkIndices,
                          attenMaskOptional,
                          actualSeqQLenOptional,
                          actualSeqKvLenOptional,
                          scaleValue,
                          selectedBlockSize};
  selected.of_sequences([&](const Span& rows, const Span&, const DenseAttention& attention) {
    const auto result = attention.forward();
    put(rows.of(attentionOut), result.out.transpose(0, 1));
    put_statistic(softmaxMaxOut, rows, result.top);
    put_statistic(softmaxSumOut, rows, result.total);
  });
}

// The softmax is taken again, in float32: the client's statistics and result are rounded.
OP_COST(aclnnNsaSelectedAttentionGrad,
        3 * selected_cost(query, key, topkIndices, selectedBlockSize, selectedBlockCount, inputLayout)) {
  const Selected selected{query,
                          key,
                          value,
                          topkIndices,
                          attenMaskOptional,
                          actualSeqQLenOptional,
                          actualSeqKvLenOptional,
                          scaleValue,
                          selectedBlockSize};
  selected.of_sequences([&](const Span& rows, const Span& keys, const DenseAttention& attention) {
    const auto found = attention.backward(heads_first(rows.of(attentionOutGrad)));
    put(rows.of(dqOut), found.query.transpose(0, 1));
    put(keys.of(dkOut), found.key.transpose(0, 1));
    put(keys.of(dvOut), found.value.transpose(0, 1));
  });
}

namespace {

// --- Inference: keys in pages, the newest tokens of each sequence

struct Newest {
  at::Tensor query;  // [batch, tokens, heads, size]
  const at::Tensor &key, &value, &table;
  at::IntArrayRef lengths;
  int64_t key_heads;

  Newest(const char* op, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& block_table,
         at::IntArrayRef key_lengths, std::string_view layout, int64_t heads, int64_t of_keys)
      : key(k), value(v), table(block_table), lengths(key_lengths), key_heads(of_keys) {
    TORCH_CHECK(given(table) && !lengths.empty(), op, ": blockTable and the lengths of the keys must be given");
    const auto batch = static_cast<int64_t>(lengths.size());
    equal_parts(heads, key_heads);
    TORCH_CHECK(
        table.dim() == 2 && table.size(0) == batch && key.dim() > 2 && key.size(1) > 0 && value.dim() > 2 && value.size(1) > 0,
        op, ": pages of ", key.sizes(), " and ", value.sizes(), " by a table of ", table.sizes(), " for ", batch, " sequences");
    for (const int64_t length : lengths) {
      TORCH_CHECK(length >= 0 && length <= table.size(1) * key.size(1), op, ": ", length, " keys in ", table.size(1),
                  " pages of ", key.size(1));
    }
    if (layout == "BSH") {
      query = in_parts(q, -1, heads);
    } else if (layout == "TND") {
      TORCH_CHECK(q.size(0) % batch == 0, op, ": ", q.size(0), " tokens of ", batch,
                  " sequences; each must have the same number");
      query = in_parts(q, 0, batch);
    } else {
      TORCH_CHECK(layout == "BSND", op, ": the layout ", layout, " is not supported; BSND, BSH and TND are");
      query = q;
    }
    TORCH_CHECK(query.dim() == 4 && query.size(0) == batch, op, ": a query of ", q.dim(), " dimensions in the layout ", layout);
  }
  int64_t tokens() const { return query.size(1); }
  int64_t width() const { return equal_parts(value.flatten(2).size(-1), key_heads); }
  // [heads of keys, length, size]
  at::Tensor pages(const at::Tensor& cache, int64_t b) const {
    const int64_t length = lengths[static_cast<size_t>(b)], rows = cache.size(1);
    const at::Tensor flat = pages_of(cache, table[b], length, rows).flatten(2).flatten(0, 1).slice(0, 0, length);
    return heads_first(in_parts(flat, -1, key_heads));
  }
  DenseAttention attention(int64_t b, double scale, DenseAttention::Hidden hidden) const {
    return {heads_first(query[b]), pages(key, b), pages(value, b), scale, std::move(hidden)};
  }
  // `out` as [batch, tokens, heads, size]
  at::Tensor view_of(const at::Tensor& out) const { return out.view({query.size(0), tokens(), query.size(2), width()}); }
};

}  // namespace

OP_COST(aclnnNsaCompressAttentionInfer,
        Importance{compressBlockSize, compressBlockStride, selectBlockSize, 1}.checked(bytes(query) + bytes(key))) {
  TORCH_CHECK(!given(attentionMaskOptional) && !given(topKMaskOptional),
              "aclnnNsaCompressAttentionInfer: masks are not supported: the newest token sees all keys");
  const Newest newest("aclnnNsaCompressAttentionInfer", query, key, value, blockTableOptional, actualCmpKvSeqLenOptional,
                      *layoutOptional ? layoutOptional : "BSND", numHeads, numKeyValueHeads);
  TORCH_CHECK(newest.tokens() == 1, "aclnnNsaCompressAttentionInfer: ", newest.tokens(),
              " tokens of each sequence are not supported, one is");
  const Importance importance{compressBlockSize, compressBlockStride, selectBlockSize, numKeyValueHeads};
  const at::Tensor out = newest.view_of(output), chosen = topKOutput.view({-1, numKeyValueHeads, selectBlockCount});
  for (int64_t b = 0; b < out.size(0); ++b) {
    const int64_t length = actualCmpKvSeqLenOptional[static_cast<size_t>(b)];
    const at::Tensor shared = importance.shared(length, importance.blocks(length));
    chosen[b].fill_(-1);
    const auto result = newest.attention(b, scaleValue, {}).forward([&](int64_t, int64_t, const at::Tensor& weights) {
      put(chosen[b], Importance::best(importance.of(weights, shared), selectBlockCount).squeeze(0));
    });
    put(out[b], result.out.transpose(0, 1));
  }
}

OP_COST(aclnnNsaSelectedAttentionInfer, bytes(query) + bytes(key)) {
  TORCH_CHECK(!given(attenMaskOptional),
              "aclnnNsaSelectedAttentionInfer: attenMask is not supported: a token sees keys up to its own");
  const Newest newest("aclnnNsaSelectedAttentionInfer", query, key, value, blockTableOptional, actualKvSeqLenOptional,
                      *layoutOptional ? layoutOptional : "BSND", numHeads, numKeyValueHeads);
  const int64_t rows = newest.tokens(), groups = numHeads / numKeyValueHeads;
  const at::Tensor out = newest.view_of(output);
  const at::Tensor places = topkIndices.reshape({out.size(0), rows, numKeyValueHeads, selectBlockCount});
  for (int64_t b = 0; b < out.size(0); ++b) {
    const int64_t keys = actualKvSeqLenOptional[static_cast<size_t>(b)];
    const at::Tensor later = at::ones({rows, keys}, at::kBool).triu(keys - rows + 1);
    const auto hidden = [&](int64_t start, int64_t end) {
      return outside(places[b].slice(0, start, end), selectBlockSize, keys, groups).logical_or(later.slice(0, start, end));
    };
    put(out[b], newest.attention(b, scaleValue, hidden).forward().out.transpose(0, 1));
  }
}
