// What the operations of Ascend's transformer library (libatb) compute: attention over sequences that lie one after the other, or
// in pages, and the steps around it.
#include "op/kernel.h"
#include "op/kernels/attention_core.h"
#include "op/kernels/common.h"
#include "op/kernels/kv_cache.h"
#include "op/kernels/pages.h"
#include "op/kernels/quantize.h"

#include "boost/boost_params.h"
#include "op/boost_masks.h"

using namespace softcann::op;

namespace {

// Rows of several sequences, one after the other, seen as [tokens, heads, size].
struct Packed {
  at::Tensor query, out;
  at::Tensor logsumexp;  // [heads, tokens] in float32, or undefined
  double scale;

  Packed(const at::Tensor& q, const at::Tensor& result, int64_t heads, double scaled, const at::Tensor& sums = {})
      : query(in_heads(q, heads)), out(in_heads(result, heads)), logsumexp(sums), scale(scaled) {}

  static at::Tensor in_heads(const at::Tensor& rows, int64_t heads) {
    return rows.view(at::IntArrayRef{rows.size(0), heads, rows.numel() / std::max<int64_t>(rows.size(0) * heads, 1)});
  }
  void check_rows(at::IntArrayRef lengths, const at::Tensor& rows, const char* what) const {
    int64_t sum = 0;
    for (const int64_t length : lengths) {
      TORCH_CHECK(length >= 0, "a sequence of ", length, " ", what);
      sum += length;
    }
    TORCH_CHECK(sum <= rows.size(0), "the sequences have ", sum, " ", what, ", the tensor ", rows.size(0));
  }
  // keys, values [rows, kv heads, size]; `bias` and `hidden` broadcast to [1, heads, length, rows], or undefined
  void attend(int64_t start, int64_t length, const at::Tensor& keys, const at::Tensor& values, const at::Tensor& hidden,
              const at::Tensor& bias = {}) const {
    if (length == 0) return;
    const auto heads_first = [](const at::Tensor& rows) { return rows.transpose(0, 1).unsqueeze(0); };
    Attention attention;
    attention.query = heads_first(query.narrow(0, start, length));
    attention.key = heads_first(keys).to(query.scalar_type()), attention.value = heads_first(values).to(query.scalar_type());
    attention.hidden = hidden, attention.bias = bias, attention.scale = scale;
    const at::Tensor sums =
        logsumexp.defined() ? at::empty({1, query.size(1), length}, at::TensorOptions().dtype(at::kFloat)) : at::Tensor();
    attention_forward(attention, heads_first(out.narrow(0, start, length)), sums);
    if (sums.defined()) logsumexp.narrow(1, start, length).copy_(sums[0]);
  }
};

// How far key j is ahead of query i, where both end together.
at::Tensor ahead(int64_t rows, int64_t columns) {
  return at::arange(columns, at::kLong).unsqueeze(0) - at::arange(columns - rows, columns, at::kLong).unsqueeze(1);
}
at::Tensor after(int64_t rows, int64_t columns) { return ahead(rows, columns).gt(0); }

// The first `length` rows of a sequence's pages, [pages, rows, heads * size] or [pages, rows, heads, size].
at::Tensor rows_of_pages(const at::Tensor& cache, const at::Tensor& table, int64_t length, int64_t heads) {
  const at::Tensor rows = pages_of(cache, table, length, cache.size(1)).flatten(0, 1).slice(0, 0, length);
  return Packed::in_heads(rows, heads);
}

// int8 rows [rows, heads, size] as numbers; `scale` has one for each of heads * size.
at::Tensor descaled(const at::Tensor& rows, const at::Tensor& scale) {
  return given(scale) ? widened(rows) * widened(scale).view({rows.size(1), -1}) : rows;
}

at::IntArrayRef one_each(at::IntArrayRef lengths, at::IntArrayRef contexts, std::vector<int64_t>& ones) {
  if (!lengths.empty()) return lengths;
  ones.assign(contexts.size(), 1);
  return ones;
}

void check_contexts(at::IntArrayRef lengths, at::IntArrayRef contexts, const at::Tensor& tables) {
  TORCH_CHECK(lengths.size() == contexts.size() && tables.size(0) >= static_cast<int64_t>(contexts.size()), "there are ",
              lengths.size(), " lengths of queries, ", contexts.size(), " of contexts and ", tables.size(0), " block tables");
  for (size_t b = 0; b < contexts.size(); ++b) {
    TORCH_CHECK(lengths[b] <= contexts[b], "a sequence of ", lengths[b], " new tokens has a context of ", contexts[b]);
  }
}

double pairs_cost(const at::Tensor& query, const at::Tensor& key) {
  return bytes(query) * static_cast<double>(key.defined() ? key.size(0) : 1);
}

// Of the tokens from `start` on a mask's rows, not 0 where a key does not count.
at::Tensor hidden_by_rows(const at::Tensor& mask, int64_t start, int64_t length, int64_t context) {
  TORCH_CHECK(mask.dim() == 2 && mask.size(0) >= start + length && mask.size(1) >= context,
              "the mask has a row for each token and a column for each key; it is ", mask.sizes());
  return mask.narrow(0, start, length).narrow(1, 0, context).ne(0).view({1, 1, length, context});
}

}  // namespace

OP_COST(atbPagedAttention, pairs_cost(query, keyCache)) {
  std::vector<int64_t> ones;
  const at::IntArrayRef lengths = one_each(queryLengthsOptional, contextLengths, ones);
  const Packed packed(query, out, heads, scale);
  check_contexts(lengths, contextLengths, blockTables);
  packed.check_rows(lengths, packed.query, "tokens");
  int64_t start = 0;
  for (size_t b = 0; b < lengths.size(); ++b) {
    const int64_t length = lengths[b], context = contextLengths[b], i = static_cast<int64_t>(b);
    const at::Tensor keys = descaled(rows_of_pages(keyCache, blockTables[i], context, kvHeads), keyDescaleOptional);
    const at::Tensor values =
        valueSize != 0 ? keys.narrow(-1, 0, valueSize)
                       : descaled(rows_of_pages(valueCacheOptional, blockTables[i], context, kvHeads), valueDescaleOptional);
    at::Tensor hidden = length > 1 ? after(length, context) : at::Tensor(), bias;
    switch (static_cast<PagedMask>(maskType)) {
      case PagedMask::none:
      case PagedMask::compressed:
        break;
      case PagedMask::norm:  // [batch, 1, keys]
        hidden =
            maskOptional.view({maskOptional.size(0), 1, 1, -1})[maskOptional.size(0) == 1 ? 0 : i].slice(-1, 0, context).ne(0);
        break;
      case PagedMask::alibi:  // [heads, 1, keys], also for each sequence
        bias = widened((maskOptional.dim() == 4 ? maskOptional[i] : maskOptional).slice(-1, 0, context)).unsqueeze(0);
        break;
      case PagedMask::spec:
        hidden = hidden_by_rows(maskOptional, start, length, context);
        break;
    }
    packed.attend(start, length, keys, values, hidden, bias);
    start += length;
  }
}

namespace {

// What a mask of self attention makes of one sequence.
struct Seen {
  at::Tensor hidden, bias;
};
Seen seen_by(SelfMask type, const at::Tensor& mask, const at::Tensor& slopes, bool triangular, int64_t sequence, int64_t rows,
             int64_t columns) {
  const auto part = [&](const at::Tensor& square) { return square.slice(-2, 0, rows).slice(-1, 0, columns); };
  switch (type) {
    case SelfMask::none:
      return {};
    case SelfMask::norm:  // [size, size], also for each sequence
      return {part(mask.dim() == 3 ? mask[mask.size(0) == 1 ? 0 : sequence] : mask).ne(0), {}};
    case SelfMask::alibi:  // [heads, size, size], also for each sequence
      return {triangular ? after(rows, columns) : at::Tensor(),
              widened(part(mask.dim() == 4 ? mask[mask.size(0) == 1 ? 0 : sequence] : mask)).unsqueeze(0)};
    case SelfMask::compressed:
    case SelfMask::causal:
      return {after(rows, columns), {}};
    case SelfMask::alibi_compressed:
    case SelfMask::alibi_compressed_root: {
      at::Tensor distance = ahead(rows, columns).neg().clamp_min(0).to(at::kFloat);
      if (type == SelfMask::alibi_compressed_root) distance = distance.sqrt();
      return {after(rows, columns), (-widened(slopes).view({-1, 1, 1}) * distance).unsqueeze(0)};
    }
  }
  return {};
}

}  // namespace

OP_COST(atbSelfAttention, pairs_cost(query, key)) {
  const bool paged = given(blockTablesOptional);
  const Packed packed(query, out, heads, scale);
  const at::IntArrayRef key_lengths = keyLengthsOptional.empty() ? queryLengths : keyLengthsOptional;
  packed.check_rows(queryLengths, packed.query, "tokens");
  TORCH_CHECK(key_lengths.size() == queryLengths.size(), "there are ", queryLengths.size(), " lengths of queries and ",
              key_lengths.size(), " of keys");
  if (paged)
    check_contexts(queryLengths, key_lengths, blockTablesOptional);
  else
    packed.check_rows(key_lengths, key, "keys");
  int64_t start = 0, key_start = 0;
  for (size_t b = 0; b < queryLengths.size(); ++b) {
    const int64_t length = queryLengths[b], context = key_lengths[b], i = static_cast<int64_t>(b);
    const auto rows = [&](const at::Tensor& all) {
      return paged ? rows_of_pages(all, blockTablesOptional[i], context, kvHeads)
                   : Packed::in_heads(all.narrow(0, key_start, context), kvHeads);
    };
    const Seen seen = seen_by(static_cast<SelfMask>(maskType), maskOptional, slopesOptional, triangular, i, length, context);
    packed.attend(start, length, rows(key), rows(value), seen.hidden, seen.bias);
    start += length, key_start += context;
  }
}

OP_COST(atbMLA, pairs_cost(queryNope, latentCache)) {
  std::vector<int64_t> ones;
  const at::IntArrayRef lengths = one_each(queryLengthsOptional, contextLengths, ones);
  const at::Tensor sums =
      given(lseOptional) ? at::zeros({heads, queryNope.size(0)}, at::TensorOptions().dtype(at::kFloat)) : at::Tensor();
  const Packed packed(at::cat({queryNope, queryRope}, -1), out, heads, scale, sums);
  check_contexts(lengths, contextLengths, blockTables);
  packed.check_rows(lengths, packed.query, "tokens");
  // Caches in tiles, [pages, kv heads * size / lanes, rows, lanes], have the token's elements apart.
  const auto plain_pages = [&](const at::Tensor& cache, const at::Tensor& query) {
    const int64_t width = kvHeads * query.size(-1), lanes = cache.size(-1);
    const bool tiled =
        cache.dim() == 4 && cache.size(1) * lanes == width && (cache.size(2) != kvHeads || lanes != query.size(-1));
    return tiled ? cache.transpose(1, 2) : cache;
  };
  const at::Tensor latent = plain_pages(latentCache, queryNope), turned = plain_pages(ropeCache, queryRope);
  int64_t start = 0;
  for (size_t b = 0; b < lengths.size(); ++b) {
    const int64_t length = lengths[b], context = contextLengths[b], i = static_cast<int64_t>(b);
    const at::Tensor values = rows_of_pages(latent, blockTables[i], context, kvHeads);
    const at::Tensor keys = at::cat({values, rows_of_pages(turned, blockTables[i], context, kvHeads)}, -1);
    at::Tensor hidden;
    if (maskType == kLatentMaskSpec) hidden = hidden_by_rows(maskOptional, start, length, context);
    if (maskType == kLatentMaskFree) hidden = after(length, context);
    packed.attend(start, length, keys, values, hidden);
    start += length;
  }
  if (given(lseOptional)) put(lseOptional, sums.t().unsqueeze(-1));
}

OP_COST(atbRingMLA, pairs_cost(queryNope, keyNope)) {
  const at::Tensor query = at::cat({queryNope, queryRope}, -1), keys = at::cat({keyNope, keyRope}, -1);
  const at::Tensor sums = at::zeros(lse.sizes(), at::TensorOptions().dtype(at::kFloat));
  const at::Tensor part = at::zeros(out.sizes(), at::TensorOptions().dtype(at::kFloat));
  const Packed packed(widened(query), part, heads, scale, sums);
  TORCH_CHECK(queryLengths.size() == keyLengths.size(), "there are ", queryLengths.size(), " lengths of queries and ",
              keyLengths.size(), " of keys");
  packed.check_rows(queryLengths, query, "tokens");
  packed.check_rows(keyLengths, keys, "keys");
  int64_t start = 0, key_start = 0;
  for (size_t b = 0; b < queryLengths.size(); ++b) {
    const int64_t length = queryLengths[b], count = keyLengths[b];
    const auto rows = [&](const at::Tensor& all) { return Packed::in_heads(widened(all.narrow(0, key_start, count)), kvHeads); };
    if (count == 0) {
      sums.narrow(1, start, length).fill_(-std::numeric_limits<float>::infinity());
    } else {
      packed.attend(start, length, rows(keys), rows(value), causal ? after(length, count) : at::Tensor());
    }
    start += length, key_start += count;
  }
  if (given(outBeforeOptional)) {
    const at::Tensor before = widened(lseBeforeOptional), joined = at::logaddexp(before, sums);
    const auto share = [&](const at::Tensor& of) { return (of - joined).exp().nan_to_num().t().unsqueeze(-1); };
    put(out, widened(outBeforeOptional) * share(before) + part * share(sums));
    put(lse, joined);
    return;
  }
  put(out, part);
  put(lse, sums);
}

OP(atbReshapeAndCache) {
  const auto write = [&](const at::Tensor& rows, const at::Tensor& cache) {
    const int64_t width = rows.numel() / std::max<int64_t>(rows.size(0), 1);
    const bool tiled = cache.dim() == 4 && cache.size(2) * cache.size(3) != width && cache.size(1) * cache.size(3) == width;
    write_slots(cache, slots, rows, tiled);
  };
  write(key, keyCache);
  if (given(valueOptional)) write(valueOptional, valueCacheOptional);
}

// Each head is turned in `coefficient` / 2 pieces of two halves: 2 is by halves, the head's size by neighbours.
OP(atbRope) {
  const int64_t size = cos.size(-1);
  TORCH_CHECK(coefficient >= 2 && coefficient % 2 == 0 && size % coefficient == 0, "rotaryCoeff ", coefficient,
              " does not divide a head of ", size);
  const auto turn = [&](const at::Tensor& x, const at::Tensor& to) {
    TORCH_CHECK(x.numel() % std::max<int64_t>(cos.size(0) * size, 1) == 0, "heads of ", size, " elements do not divide ",
                x.sizes());
    const at::Tensor heads = widened(x).reshape({cos.size(0), -1, size});
    const at::Tensor halves = heads.view({cos.size(0), heads.size(1), coefficient / 2, 2, size / coefficient});
    const at::Tensor turned = at::stack({-halves.select(3, 1), halves.select(3, 0)}, 3).reshape(heads.sizes());
    put_reshaped(to, heads * widened(cos).unsqueeze(1) + turned * widened(sin).unsqueeze(1));
  };
  turn(query, queryOut);
  turn(key, keyOut);
}

namespace {

// 0 for the groups of [tokens, groups, experts] that are not among the `kept` with the greatest sums of their `best` scores.
at::Tensor kept_groups(const at::Tensor& scores, int64_t groups, int64_t kept, int64_t best) {
  const at::Tensor grouped = scores.view({scores.size(0), groups, -1});
  const at::Tensor weight = std::get<0>(grouped.topk(best, -1)).sum({-1});
  return at::zeros_like(weight)
      .scatter(1, std::get<1>(weight.topk(kept, -1)), 1)
      .unsqueeze(-1)
      .expand(grouped.sizes())
      .reshape(scores.sizes());
}

}  // namespace

OP(atbGroupTopk) {
  const at::Tensor mask = kept_groups(widened(self), groups, kept, best);
  put(self, at::where(mask.gt(0), widened(self), 0));
}

OP(atbFusedAddTopkDiv) {
  const at::Tensor score = at::sigmoid(widened(x)), biased = score + widened(addNum);
  const at::Tensor mask = kept_groups(biased, groups, keptGroups, best);
  const at::Tensor chosen = std::get<1>(at::where(mask.gt(0), biased, -std::numeric_limits<float>::infinity()).topk(k, -1));
  at::Tensor weight = score.gather(1, chosen);
  if (normalized) weight = weight / weight.sum({-1}, true);
  put(y, weight * scale);
  put(indices, chosen);
}

OP(atbLinear) {
  const at::Tensor a = widened(transposeX ? x.transpose(-1, -2) : x),
                   b = widened(transposeWeight ? weight.transpose(-1, -2) : weight);
  const at::Tensor product = at::matmul(a, b);
  put(out, given(addedOptional) ? product + widened(addedOptional) : product);
}

OP(atbQuantPerChannel) {
  const at::Tensor value = widened(x) / widened(scale);
  put_quantized(out, given(zeroPointOptional) ? value + widened(zeroPointOptional) : value);
}

OP(atbQuantRmsNorm) { put_quantized(out, (row_norm(x, gamma, epsilon) + widened(beta)) / widened(scale) + widened(offset)); }
