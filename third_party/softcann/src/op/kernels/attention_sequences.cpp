// The fused attention of inference in full: sequences of their own lengths, paged and quantised caches, keys with rope apart,
// shared prefixes, sinks, quantised results. One sequence after the other, on attention_core.h.
#include <algorithm>
#include <limits>

#include "op/kernel.h"
#include "op/kernels/attention_core.h"
#include "op/kernels/attention_sequences.h"
#include "op/kernels/common.h"
#include "op/kernels/pages.h"
#include "op/kernels/parts.h"
#include "op/kernels/quantize.h"

namespace softcann::op {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

bool is_given(const at::Tensor& t) { return t.defined() && t.numel() > 0; }
bool is_packed(std::string_view layout) { return layout == "TND" || layout == "NTD"; }

// Sequence `b` of a tensor in `layout` as [heads, rows, size]; packed ones take rows [start, end).
at::Tensor sequence_of(const at::Tensor& t, std::string_view layout, int64_t heads, int64_t b, int64_t start, int64_t end) {
  if (layout == "BNSD") return rows_within(t[b], 1, start, end);
  if (layout == "BSND") return rows_within(t[b], 0, start, end).transpose(0, 1);
  if (layout == "BSH") return in_parts(rows_within(t[b], 0, start, end), -1, heads).transpose(0, 1);
  if (layout == "NBSD") return rows_within(t.select(1, b), 1, start, end);
  if (layout == "TND") return rows_within(t, 0, start, end).transpose(0, 1);
  if (layout == "NTD") return rows_within(t, 1, start, end);
  TORCH_CHECK(false, "attention: layout '", layout, "' is not one of BSH, BSND, BNSD, NBSD, TND, NTD");
}
int64_t rows_of(const at::Tensor& t, std::string_view layout) {
  if (layout == "BNSD") return t.size(2);
  return is_packed(layout) ? t.size(layout == "TND" ? 0 : 1) : t.size(1);
}

// The pages of one sequence, [rows, heads * size], [heads, rows, size] or [heads, size / 16, rows, 16] each, as [heads, rows,
// size].
at::Tensor paged(const at::Tensor& cache, const at::Tensor& table, int64_t heads, int64_t length) {
  TORCH_CHECK(cache.dim() >= 3 && cache.dim() <= 5, "attention: pages of ", cache.sizes());
  at::Tensor pages = pages_of(cache, table, length, cache.size(cache.dim() - 2));
  if (pages.dim() == 5) pages = pages.transpose(2, 3).flatten(3);
  if (pages.dim() == 3) pages = in_parts(pages, -1, heads).transpose(1, 2);
  return pages.transpose(0, 1).flatten(1, 2).slice(1, 0, length);
}

struct Length {
  int64_t start, end;
};
// Lengths of the sequences: running sums where `summed`, else one for each or one for all. None given: `rows` of all.
Length length_of(at::IntArrayRef lengths, bool summed, int64_t b, int64_t rows) {
  if (lengths.empty()) return {0, rows};
  const auto at = [&](int64_t i) { return lengths[std::min<size_t>(static_cast<size_t>(i), lengths.size() - 1)]; };
  if (!summed) return {0, at(b)};
  return {b ? at(b - 1) : 0, at(b)};
}

// Scores that do not count, [1 or heads, rows, columns]; undefined where all do. See Note [Sparse modes].
at::Tensor hidden_of(const InferRequest& in, int64_t b, int64_t rows, int64_t columns) {
  const int64_t mode = in.sparse.mode;
  TORCH_CHECK(mode >= 0 && mode <= 4, "attention: sparseMode ", mode, " is not supported");
  const auto band = [&](int64_t before, int64_t after, int64_t shift) {
    const at::Tensor distance = at::arange(columns, at::kLong).unsqueeze(0) - at::arange(rows, at::kLong).unsqueeze(1) - shift;
    return at::logical_or(distance<-before, distance> after).unsqueeze(0);
  };
  // One new token sees all keys.
  if (mode >= 2 && rows == 1 && !is_given(in.query_rope) && !is_packed(in.in_layout())) return {};
  if (mode == 2) return band(rows + columns, 0, 0);
  if (mode == 3) return band(rows + columns, 0, columns - rows);
  if (mode == 4) return band(in.sparse.before, in.sparse.after, columns - rows);
  if (!is_given(in.mask)) return {};
  at::Tensor mask = in.mask.to(at::kBool);
  if (mask.dim() == 2 && rows == 1 && mask.size(0) == in.batch()) mask = mask.unsqueeze(1);
  if (mask.dim() == 4) mask = mask.squeeze(1);
  if (mask.dim() == 3) mask = mask[mask.size(0) == 1 ? 0 : b];
  mask = mask.slice(0, 0, rows).slice(1, 0, columns).unsqueeze(0);
  const bool window = mode == 0 && rows > 1 && (in.sparse.before < rows || in.sparse.after < columns);
  return window ? at::logical_or(mask, band(in.sparse.before, in.sparse.after, 0)) : mask;
}

// (x + offset) * scale for a cache of int8, the numbers for a tensor, for each channel, or (`per_token`) for each row.
at::Tensor unquantized(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& offset, bool per_token, int64_t b) {
  if (!is_given(scale)) return x;
  const auto numbers = [&](const at::Tensor& given) {
    const at::Tensor wide = widened(given);
    if (per_token)
      return wide.reshape({-1, wide.size(-1)})[wide.numel() == wide.size(-1) ? 0 : b].slice(0, 0, x.size(1)).view({1, -1, 1});
    return wide.numel() == 1 ? wide.view({1, 1, 1}) : wide.reshape({x.size(0), 1, x.size(2)});
  };
  const at::Tensor value = is_given(offset) ? widened(x) + numbers(offset) : widened(x);
  return value * numbers(scale);
}

// Note [Attention of int8]
// Queries, keys and values of int8 have exact products. The weights become int8 as the flash algorithm has them, exponentials up
// to 1 before the division by their sum, and the sum is that of the exponentials.
void int8_forward(const Attention& a, const InferRequest& in, const at::Tensor& out, const at::Tensor& logsumexp) {
  TORCH_CHECK(is_given(in.score_scale) && is_given(in.weight_scale) && is_given(in.product_scale),
              "attention: a query of int8 needs deqScale1, quantScale1 and deqScale2");
  TORCH_CHECK(a.query.scalar_type() == at::kChar, "attention: deqScale1 is given with a query of ", a.query.scalar_type(),
              ", not of int8");
  const auto spread = [&](const at::Tensor& t) {
    return widened(t).repeat_interleave(equal_parts(a.query.size(1), t.size(1)), 1);
  };
  at::Tensor scores = at::matmul(widened(a.query), spread(a.key).mT()) * (scale_of(in.score_scale) * a.scale);
  if (a.bias.defined()) scores = scores + widened(a.bias);
  if (a.hidden.defined()) scores = scores.masked_fill(a.hidden, -infinity);
  const at::Tensor top = scores.amax({-1}, true), weights = (scores - top).exp(), total = weights.sum({-1}, true);
  const at::Tensor whole = at::clamp(at::round(weights * scale_of(in.weight_scale)), -128, 127);
  put(out, at::matmul(whole, spread(a.value)) * scale_of(in.product_scale) / total);
  put(logsumexp, (top + total.log()).squeeze(-1));
}

// The results of one sequence, out [heads, rows, size] and logsumexp [heads, rows].
struct Result {
  at::Tensor out, logsumexp;
};
Result attend(const InferRequest& in, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t b) {
  const int64_t heads = query.size(0), rows = query.size(1), columns = key.size(1);
  Result result{at::zeros({heads, rows, value.size(-1)}, at::kFloat), at::zeros({heads, rows}, at::kFloat)};
  if (rows == 0) return result;
  if (columns == 0) return result.logsumexp.fill_(infinity), result;
  Attention a;
  a.query = query.unsqueeze(0);
  a.key = key.unsqueeze(0).to(query.scalar_type());
  a.value = value.unsqueeze(0).to(query.scalar_type());
  a.scale = in.scale;
  if (is_given(in.bias)) a.bias = in.bias[in.bias.size(0) == 1 ? 0 : b].slice(1, 0, rows).slice(2, 0, columns).unsqueeze(0);
  at::Tensor hidden = hidden_of(in, b, rows, columns), nothing;
  if (hidden.defined()) {
    nothing = hidden.all(-1);  // rows that see no key
    a.hidden = at::logical_and(hidden, nothing.logical_not().unsqueeze(-1)).unsqueeze(0);
  }
  const at::Tensor out = result.out.unsqueeze(0), sums = result.logsumexp.unsqueeze(0);
  if (query.scalar_type() == at::kChar || is_given(in.score_scale)) {
    int8_forward(a, in, out, sums);
  } else {
    attention_forward(a, out, sums);
  }
  if (nothing.defined()) {
    result.out.masked_fill_(nothing.unsqueeze(-1), 0.0);
    result.logsumexp.masked_fill_(nothing, infinity);
  }
  if (is_given(in.sink)) {  // a score of its own for each head, without a value
    const at::Tensor sink = widened(in.sink).view({heads, 1});
    result.out.mul_(at::sigmoid(result.logsumexp - sink).unsqueeze(-1));
    result.logsumexp = at::logaddexp(result.logsumexp, sink);
  }
  return result;
}

at::Tensor joined(const at::Tensor& a, const at::Tensor& b, int64_t dim) {
  return is_given(b) ? at::cat({a, b.to(a.scalar_type())}, dim) : a;
}

}  // namespace

int64_t InferRequest::batch() const {
  if (is_packed(in_layout())) return static_cast<int64_t>(query_lengths.size());
  return query.size(0);
}
std::string_view InferRequest::in_layout() const { return layout.substr(0, layout.find('_')); }
std::string_view InferRequest::out_layout() const {
  const auto bar = layout.find('_');
  return bar == std::string_view::npos ? layout : layout.substr(bar + 1);
}

bool is_plain(const InferRequest& in) {
  for (const at::Tensor* more :
       {&in.query_rope, &in.key_rope, &in.key_scale, &in.value_scale, &in.key_prefix, &in.sink, &in.out_scale, &in.score_scale}) {
    if (is_given(*more)) return false;
  }
  const std::string_view layout = in.layout;
  const bool common = layout == "BSH" || layout == "BSND" || layout == "BNSD" || layout == "BNSD_BSND";
  return common && in.key.size() == 1 && in.key[0].dim() <= 4 && in.sparse.mode < 2 && in.query_lengths.empty();
}

void infer_sequences(const InferRequest& in, const at::Tensor& out, const at::Tensor& logsumexp) {
  const std::string_view layout = in.in_layout();
  const bool packed = is_packed(layout), pages = is_given(in.block_table);
  TORCH_CHECK(!packed || !in.key_lengths.empty(), "attention: layout ", in.layout,
              " needs actualSeqLengths and actualSeqLengthsKv");
  const int64_t kv_heads = in.kv_heads ? in.kv_heads : in.heads, query_rows = rows_of(in.query, layout);
  const bool list = in.key.size() > 1;
  const auto sequences = static_cast<size_t>(in.batch());
  TORCH_CHECK(!in.key.empty() && in.key.size() == in.value.size() && (!list || in.key.size() == sequences),
              "attention: ", in.key.size(), " tensors of keys and ", in.value.size(), " of values for ", sequences, " sequences");
  const auto told = [&](at::IntArrayRef lengths, bool summed) {
    return lengths.size() < (summed ? 1 : 2) || lengths.size() >= sequences;
  };
  TORCH_CHECK(told(in.query_lengths, packed) && told(in.key_lengths, packed && !pages), "attention: ", in.query_lengths.size(),
              " lengths of queries and ", in.key_lengths.size(), " of keys for ", sequences, " sequences");
  TORCH_CHECK(!pages || !in.key_lengths.empty(), "attention: keys in pages need actualSeqLengthsKv");
  writable(out).zero_();
  if (logsumexp.defined()) writable(logsumexp).zero_();
  for (int64_t b = 0; b < in.batch(); ++b) {
    const Length q = length_of(in.query_lengths, packed, b, query_rows);
    const auto from = [&](const at::Tensor& t) {
      if (pages) return paged(t, in.block_table[b], kv_heads, length_of(in.key_lengths, false, b, 0).end);
      const Length k = length_of(in.key_lengths, packed, b, rows_of(t, layout));
      return sequence_of(t, layout, kv_heads, list ? 0 : b, k.start, k.end);
    };
    const auto prefix = [&](const at::Tensor& t, const at::Tensor& shared) {
      if (!is_given(shared)) return t;
      const int64_t length = in.prefix_length.empty() ? rows_of(shared, layout) : in.prefix_length[0];
      return at::cat({sequence_of(shared, layout, kv_heads, 0, 0, length), t}, 1);
    };
    TORCH_CHECK(layout != "BNSD" || in.query.size(1) == in.heads, "attention: ", in.heads, " heads, and a query of ",
                in.query.sizes(), " in ", layout);
    const size_t place = list ? static_cast<size_t>(b) : 0;
    at::Tensor query = sequence_of(in.query, layout, in.heads, b, q.start, q.end), key = from(in.key[place]);
    key = unquantized(prefix(key, in.key_prefix), in.key_scale, in.key_offset, in.key_per_token, b);
    const at::Tensor value =
        unquantized(prefix(from(in.value[place]), in.value_prefix), in.value_scale, in.value_offset, in.value_per_token, b);
    if (is_given(in.query_rope)) {
      query = joined(query, sequence_of(in.query_rope, layout, in.heads, b, q.start, q.end), -1);
      key = joined(key, from(in.key_rope), -1);
    }
    Result result = attend(in, query, key, value, b);
    if (is_given(in.out_scale)) {
      const auto channels = [&](const at::Tensor& t) {
        return t.numel() == 1 ? widened(t).view({1, 1, 1}) : widened(t).reshape({in.heads, 1, -1});
      };
      result.out = result.out * channels(in.out_scale);
      if (is_given(in.out_offset)) result.out = result.out + channels(in.out_offset);
      result.out = at::clamp(at::round(result.out), -128, 127);
    }
    const std::string_view to = in.out_layout();
    put(sequence_of(out, to, in.heads, b, q.start, q.end), result.out);
    if (logsumexp.defined())
      put(sequence_of(logsumexp, packed ? "TND" : "BNSD", in.heads, b, q.start, q.end).squeeze(-1), result.logsumexp);
  }
}

}  // namespace softcann::op
