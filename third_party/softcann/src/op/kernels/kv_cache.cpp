// Caches of keys and values: reading sequences, and the steps before that fuse with writing tokens.
//
// Note [Cache layouts]
// A cache in pages is [pages, rows, heads, size], or in tiles ("NZ") [pages, heads * size / 16, rows, 16], 32 for one byte. Slot
// s is row s % rows of page s / rows; negative slots are left out. "Norm" is [batch, 1, rows, size], a row for each token.
#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/kv_cache.h"
#include "op/kernels/pages.h"
#include "op/kernels/quantize.h"
#include "op/kernels/storage_format.h"
#include "op/named.h"

using namespace softcann::op;

namespace softcann::op {

at::Tensor row_norm(const at::Tensor& x, const at::Tensor& gamma, double epsilon) {
  const at::Tensor wide = widened(x);
  return wide * wide.square().mean({-1}, true).add_(epsilon).rsqrt_() * widened(gamma);
}
at::Tensor rope(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, bool interleaved) {
  at::Tensor wide = widened(x);
  if (interleaved) wide = wide.unflatten(-1, {-1, 2}).transpose(-1, -2).flatten(-2);
  const int64_t half = wide.size(-1) / 2;
  const at::Tensor turned = at::cat({-wide.narrow(-1, half, half), wide.narrow(-1, 0, half)}, -1);
  return wide * widened(cos) + turned * widened(sin);
}

}  // namespace softcann::op

namespace {

bool ends_in_tiles(std::string_view mode) { return mode.size() >= 2 && mode.substr(mode.size() - 2) == "NZ"; }

int64_t lanes_of(const at::Tensor& cache) { return cache.itemsize() == 1 ? 32 : 16; }
// Caches in tiles come in their own sizes or in those that they would have without; `width` numbers a token.
int64_t rows_of_page(const at::Tensor& cache, bool tiled, int64_t width) {
  const bool as_tiles = tiled && cache.size(-1) == lanes_of(cache) && cache.size(1) * lanes_of(cache) == width;
  return cache.size(as_tiles ? 2 : 1);
}

}  // namespace

bool softcann::op::write_strided_pages(const at::Tensor& cache, const at::Tensor& slot, const at::Tensor& values) {
  if (cache.dim() != 4 || cache.is_contiguous()) return false;
  cache.index_put_({slot.floor_divide(cache.size(1)), slot.remainder(cache.size(1))}, values);
  return true;
}

void softcann::op::write_slots(const at::Tensor& cache, const at::Tensor& slots, const at::Tensor& rows, bool tiled) {
  const at::Tensor all = slots.reshape({-1}).to(at::kLong), kept = all.ge(0).nonzero().squeeze(1);
  const at::Tensor slot = all.index_select(0, kept);
  const at::Tensor value = rows.reshape({all.numel(), -1}).index_select(0, kept).to(cache.scalar_type());
  if (!tiled) {
    const at::Tensor values = value.view({slot.numel(), cache.size(2), -1});
    if (write_strided_pages(cache, slot, values)) return;
    return write_in_sizes(cache, {cache.size(0) * cache.size(1), cache.size(2), values.size(2)},
                          [&](at::Tensor& kept_rows) { kept_rows.index_copy_(0, slot, values); });
  }
  const int64_t lanes = lanes_of(cache), length = rows_of_page(cache, true, value.size(1));
  write_in_sizes(cache, {cache.size(0), -1, length, lanes}, [&](const at::Tensor& tiles) {
    tiles.transpose(1, 2).index_put_({slot.floor_divide(length), slot.remainder(length)}, value.view({slot.numel(), -1, lanes}));
  });
}

namespace {

// rows [batch, length, size] into a cache with one head, as `mode` says.
void write_cache(const at::Tensor& cache, const at::Tensor& index, const at::Tensor& rows, std::string_view mode) {
  const int64_t batch = rows.size(0), length = rows.size(1), size = rows.size(2);
  if (mode.empty() || mode == "Norm") {
    const at::Tensor places = index.reshape({batch, length}).to(at::kLong);
    for (int64_t b = 0; b < batch; ++b) {
      const at::Tensor kept = places[b].ge(0).nonzero().squeeze(1);
      cache[b][0].index_copy_(0, places[b].index_select(0, kept), rows[b].index_select(0, kept).to(cache.scalar_type()));
    }
    return;
  }
  for (const char* known : {"PA", "PA_BNSD", "PA_BSND", "PA_NZ", "PA_BLK_BNSD", "PA_BLK_BSND", "PA_BLK_NZ"}) {
    if (mode != known) continue;
    at::Tensor slots = index;
    if (mode.substr(0, 6) == "PA_BLK") {  // the first slot of each page that is filled
      const int64_t page = rows_of_page(cache, ends_in_tiles(mode), size);
      const at::Tensor row = at::arange(length, at::kLong), first = index.reshape({batch, -1}).to(at::kLong);
      const at::Tensor start = first.index_select(1, row.floor_divide(page));
      slots = at::where(start < 0, -1, start + row.remainder(page));
    }
    return write_slots(cache, slots, rows.reshape({batch * length, 1, size}), ends_in_tiles(mode));
  }
  TORCH_CHECK(false, "cache mode '", mode,
              "' is not one of Norm, PA, PA_BNSD, PA_BSND, PA_NZ, PA_BLK_BNSD, PA_BLK_BSND, PA_BLK_NZ");
}

// round(x * scale + offset) as int8 numbers (x / scale where `divide`), x itself without a scale.
at::Tensor stored(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& offset, bool divide = false) {
  if (!given(scale)) return x;
  const at::Tensor value = divide ? widened(x) / widened(scale) : widened(x) * widened(scale);
  return rounded(given(offset) ? value + widened(offset) : value, "").clamp_(-128, 127);
}
at::Tensor rounded_to(const at::Tensor& value, const at::Tensor& like) { return value.to(like.scalar_type()); }
// A result that is there although nobody wants its numbers.
void put_or_zero(const at::Tensor& out, const at::Tensor& value, bool wanted) {
  if (wanted)
    put(out, value);
  else if (given(out))
    writable(out).zero_();
}

}  // namespace

OP(aclnnGatherPaKvCache) {
  const at::Tensor lengths = seqLens.to(at::kLong).contiguous();
  const int64_t sequences = blockTables.size(0);
  const auto number = [](const at::Tensor& t, int64_t i) { return t[i].item<int64_t>(); };
  for (const auto& [cache, out] : {std::pair(keyCache, keyRef), std::pair(valueCache, valueRef)}) {
    const int64_t width = out.numel() / std::max<int64_t>(out.size(0), 1);
    TORCH_CHECK(width > 0 && cache.dim() > 2, "aclnnGatherPaKvCache: pages of ", cache.sizes(), " into ", out.sizes());
    const bool tiled = cache.dim() == 4 && cache.size(2) * cache.size(3) != width;
    int64_t to = 0;
    for (int64_t i = 0; i < sequences; ++i) {
      const int64_t length = isSeqLensCumsum ? number(lengths, i + 1) - number(lengths, i) : number(lengths, i);
      const int64_t from = given(seqOffsetOptional) ? number(seqOffsetOptional, i) : 0;
      TORCH_CHECK(length >= 0 && from >= 0, "aclnnGatherPaKvCache: ", length, " rows from ", from);
      at::Tensor pages = pages_of(cache, blockTables[i], from + length, cache.size(tiled ? 2 : 1));
      if (tiled) pages = pages.transpose(1, 2);
      put_reshaped(rows_within(out, 0, to, to + length), rows_within(pages.reshape({-1, width}), 0, from, from + length));
      to += length;
    }
  }
}

#define KV_RMS_NORM_ROPE_CACHE                                                                                     \
  const int64_t latent = gamma.numel();                                                                            \
  const at::Tensor y = rounded_to(row_norm(kv.narrow(-1, 0, latent), gamma, epsilon), kv);                         \
  const at::Tensor k = rounded_to(rope(kv.slice(-1, latent), cos, sin, true), kv);                                 \
  write_cache(kCacheRef, index, stored(k, kRopeScaleOptional, kRopeOffsetOptional).squeeze(1), cacheModeOptional); \
  write_cache(ckvCacheRef, index, stored(y, cKvScaleOptional, cKvOffsetOptional).squeeze(1), cacheModeOptional);   \
  put_or_zero(kRopeOut, k, isOutputKv);                                                                            \
  put_or_zero(cKvOut, y, isOutputKv);
OP(aclnnKvRmsNormRopeCache){KV_RMS_NORM_ROPE_CACHE} OP(aclnnKvRmsNormRopeCacheV2) {
  TORCH_CHECK(!given(vOptional), "aclnnKvRmsNormRopeCacheV2: v is not supported");
  KV_RMS_NORM_ROPE_CACHE
}

OP(aclnnQkvRmsNormRopeCache) {
  TORCH_CHECK(qkvSize.size() == 4 && headNums.size() == 3, "aclnnQkvRmsNormRopeCache: qkvSize has ", qkvSize.size(),
              " and headNums ", headNums.size(), " numbers, not 4 and 3");
  const int64_t tokens = qkvSize[0] * qkvSize[1], size = qkvSize[3];
  const at::Tensor all = qkv.reshape({tokens, qkvSize[2], size}), c = cos.reshape({tokens, 1, -1}),
                   s = sin.reshape({tokens, 1, -1});
  const at::Tensor q = rounded_to(rope(row_norm(all.narrow(1, 0, headNums[0]), qGamma, epsilon), c, s, false), qkv);
  const at::Tensor k = rounded_to(rope(row_norm(all.narrow(1, headNums[0], headNums[1]), kGamma, epsilon), c, s, false), qkv);
  const at::Tensor v = all.narrow(1, headNums[0] + headNums[1], headNums[2]);
  put_reshaped(qOut, q);
  const auto heads = [&](const at::Tensor& t) { return given(t) ? widened(t).reshape({-1, size}) : t; };
  const bool tiled = ends_in_tiles(cacheModeOptional);
  write_slots(kCache, index, stored(k, heads(kScaleOptional), heads(kOffsetOptional), true), tiled);
  write_slots(vCache, index, stored(v, heads(vScaleOptional), heads(vOffsetOptional), true), tiled);
  for (const auto& [out, value] : {std::pair(qOutBeforeQuant, q), std::pair(kOutBeforeQuant, k), std::pair(vOutBeforeQuant, v)}) {
    if (given(out) && out.numel() == value.numel()) put_reshaped(out, value);
  }
}

OP(aclnnDequantRopeQuantKvcache) {
  const std::string_view mode = quantModeOptional, layout = layoutOptional, cache_mode = cacheModeOptional;
  TORCH_CHECK(mode.empty() || mode == "static", "aclnnDequantRopeQuantKvcache: quantMode '", mode, "' is not supported");
  TORCH_CHECK(layout.empty() || layout == "BSND", "aclnnDequantRopeQuantKvcache: layout '", layout, "' is not supported");
  TORCH_CHECK(cache_mode == "contiguous" || cache_mode == "page" || cache_mode.empty(),
              "aclnnDequantRopeQuantKvcache: cacheMode '", cache_mode, "' is not one of contiguous, page");
  std::vector<int64_t> lead = x.sizes().slice(0, static_cast<size_t>(x.dim() - 1)).vec();
  at::Tensor rows = widened(x);
  const bool whole = given(biasOptional) && biasOptional.scalar_type() == at::kInt;
  if (x.scalar_type() == at::kInt) {
    if (whole) rows = rows + widened(biasOptional);
    if (given(weightScaleOptional)) rows = rows * widened(weightScaleOptional);
    lead.push_back(1);
    if (given(activationScaleOptional)) rows = rows * widened(activationScaleOptional).reshape(lead);
    lead.pop_back();
  }
  if (given(biasOptional) && !whole) rows = rows + widened(biasOptional);
  rows = rounded_to(rows, cos);
  const int64_t size = kCacheRef.size(-1), heads = kCacheRef.size(-2);
  const auto part = [&](int64_t start, int64_t width) { return rows.narrow(-1, start, width).unflatten(-1, {-1, size}); };
  lead.insert(lead.end(), {1, -1});
  const at::Tensor c = cos.reshape(lead), s = sin.reshape(lead);
  const at::Tensor q = rope(part(0, sizeSplits[0]), c, s, false);
  const at::Tensor k = rounded_to(rope(part(sizeSplits[0], sizeSplits[1]), c, s, false), cos);
  const at::Tensor v = part(sizeSplits[0] + sizeSplits[1], sizeSplits[2]);
  put_reshaped(qOut, q);
  put(kOut, k, kvOutput);
  put(vOut, v, kvOutput);
  const auto write = [&](const at::Tensor& cache, const at::Tensor& value) {
    if (cache_mode == "page") return write_slots(cache, indices, value.reshape({-1, heads, size}), false);
    for (int64_t b = 0; b < value.size(0); ++b) {
      put(cache[b].narrow(0, indices.reshape({-1})[b].item<int64_t>(), value.dim() == 4 ? value.size(1) : 1), value[b]);
    }
  };
  write(kCacheRef, stored(k, scaleK, offsetKOptional, true));
  write(vCacheRef, stored(v, scaleV, offsetVOptional, true));
}

namespace {

// A step of decoding; the slot of a token at `position`, out of the sequence's pages.
at::Tensor slot_of(const at::Tensor& position, const at::Tensor& tables, int64_t page_rows) {
  const at::Tensor page = tables.to(at::kLong).gather(1, position.floor_divide(page_rows).unsqueeze(1)).squeeze(1);
  return page * page_rows + position.remainder(page_rows);
}

void advance_one(const at::Tensor& tokens, const at::Tensor& sampled, const at::Tensor& positions, const at::Tensor& lengths,
                 const at::Tensor& slots, const at::Tensor& tables, int64_t queries, int64_t page_rows) {
  const auto first = [&](const at::Tensor& t) { return rows_within(t.view({-1}), 0, 0, queries); };
  const at::Tensor position = first(lengths).to(at::kLong);
  put(first(tokens), first(sampled.reshape({-1})));
  put(first(positions), position);
  put(first(lengths), position + 1);
  put(first(slots), slot_of(position, rows_within(tables, 0, 0, queries), page_rows));
}

}  // namespace

OP(aclnnAdvanceStep) {
  advance_one(inputTokens, sampledTokenIds, inputPositions, seqLens, slotMapping, blockTables, numQueries, blockSize);
}

// Several tokens of each sequence: the last one that was sampled (those behind it are negative), then the speculative ones.
OP(aclnnAdvanceStepV2) {
  if (!given(specToken)) {
    return advance_one(inputTokens, sampledTokenIds, inputPositions, seqLens, slotMapping, blockTables, numQueries, blockSize);
  }
  TORCH_CHECK(specToken.dim() == 2, "aclnnAdvanceStepV2: specToken", specToken.sizes(), " where [sequences, tokens] is expected");
  const int64_t each = 1 + specToken.size(1);
  const at::Tensor last = (sampledTokenIds >= 0).sum({1}, true).clamp_min(1) - 1;
  put(inputTokens.view({-1, each}), at::cat({sampledTokenIds.gather(1, last), specToken.to(sampledTokenIds.scalar_type())}, 1));
  at::Tensor position = inputPositions.view({-1, each}).to(at::kLong) + 1;
  if (given(acceptedNum)) position = position + acceptedNum.view({-1, 1});
  const at::Tensor page = blockTables.to(at::kLong).gather(1, position.floor_divide(blockSize));
  put(inputPositions, position.view({-1}));
  put(seqLens, position.view({-1}) + 1);
  put(slotMapping, (page * blockSize + position.remainder(blockSize)).view({-1}));
}

namespace {

// x @ weight in float32; int8 ones times their scales, one for each row and for each column.
at::Tensor project(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& x_scale, const at::Tensor& weight_scale) {
  const at::Tensor product = quantized_matmul(x, weight);
  if (weight.scalar_type() != at::kChar) return product;
  return product * widened(x_scale).reshape({-1, 1}) * widened(weight_scale).reshape({1, -1});
}

// Note [Latent attention's projections]
// c = row_norm(x @ dq) * correction; (q, r) = c @ uq for each head; queries are q @ uk and rope(r). (k, t) = x @ dkv: row_norm(k)
// goes to one cache, rope(t) to the other. What is int8 carries scales.
struct Prolog {
  at::Tensor x, cos, sin, x_scale;
  at::ScalarType type;

  struct Queries {
    at::Tensor latent, turned, norm, norm_scale;
  };
  Queries queries(const at::Tensor& dq, const at::Tensor& uq, const at::Tensor& uk, const at::Tensor& gamma, double epsilon,
                  const at::Tensor& dq_scale, const at::Tensor& uq_scale, const at::Tensor& smooth, double correction) const {
    Queries result;
    TORCH_CHECK(cos.sizes() == sin.sizes() && cos.size(0) == x.size(0), "latent attention: ropeCos ", cos.sizes(),
                " and ropeSin ", sin.sizes(), " of ", x.size(0), " tokens");
    TORCH_CHECK(dq.dim() == 2 && gamma.numel() == dq.size(1), "latent attention: rmsnormGammaCq ", gamma.sizes(),
                " for weightDq ", dq.sizes());
    at::Tensor c = (row_norm(project(x, dq, x_scale, dq_scale).to(type), gamma, epsilon) * correction).to(type);
    if (uq.scalar_type() == at::kChar) {
      const at::Tensor value = given(smooth) ? widened(c) * widened(smooth).reshape({-1}) : widened(c);
      c = at::zeros(value.sizes(), at::kChar);
      result.norm_scale = at::zeros({value.size(0)}, at::kFloat);
      quantize_rows(value, c, result.norm_scale);
    }
    const at::Tensor q = project(c, uq, result.norm_scale, uq_scale).to(type).unflatten(-1, {uk.size(0), -1});
    const int64_t width = uk.size(1);
    TORCH_CHECK(q.size(-1) - width == cos.size(-1), "latent attention: queries of ", width, " and ", q.size(-1) - width,
                " numbers, ropeCos ", cos.sizes());
    result.latent = at::matmul(widened(q.narrow(-1, 0, width)).transpose(0, 1), widened(uk)).transpose(0, 1).to(type);
    result.turned = rope(q.slice(-1, width), cos.unsqueeze(1), sin.unsqueeze(1), true).to(type);
    result.norm = c;
    return result;
  }
  struct Keys {
    at::Tensor latent, turned;
  };
  Keys keys(const at::Tensor& weight, const at::Tensor& gamma, double epsilon, const at::Tensor& weight_scale,
            double correction) const {
    const at::Tensor both = project(x, weight, x_scale, weight_scale).to(type);
    const int64_t latent = gamma.numel();
    return {(row_norm(both.narrow(-1, 0, latent), gamma, epsilon) * correction).to(type),
            rope(both.slice(-1, latent), cos, sin, true).to(type)};
  }
};
void store(const at::Tensor& cache, const at::Tensor& rows, const at::Tensor& scale, const at::Tensor& index,
           std::string_view mode) {
  const at::Tensor value = cache.scalar_type() == at::kChar ? stored(rows, scale.reshape({-1}), {}) : rows;
  if (mode == "BSND" || mode == "TND") return put_reshaped(cache, value);
  write_cache(cache, index, value.unsqueeze(0), mode.empty() ? "PA_BSND" : mode);
}
at::Tensor by_rows(const at::Tensor& t) { return t.reshape({-1, t.size(-1)}); }

}  // namespace

#define MLA_PROLOG(QUANTIZED_QUERIES, QC, KC, INDEX)                                                                           \
  const Prolog prolog{by_rows(tokenX), by_rows(ropeCos), by_rows(ropeSin), dequantScaleXOptional, ropeCos.scalar_type()};      \
  const auto q =                                                                                                               \
      prolog.queries(in_base_format(weightDq), in_base_format(weightUqQr), weightUk, rmsnormGammaCq, rmsnormEpsilonCq,         \
                     dequantScaleWDqOptional, dequantScaleWUqQrOptional, smoothScalesCqOptional, QC);                          \
  const auto k = prolog.keys(in_base_format(weightDkvKr), rmsnormGammaCkv, rmsnormEpsilonCkv, dequantScaleWDkvKrOptional, KC); \
  store(kvCacheRef, k.latent, quantScaleCkvOptional, INDEX, cacheModeOptional);                                                \
  store(krCacheRef, k.turned, quantScaleCkrOptional, INDEX, cacheModeOptional);                                                \
  if (QUANTIZED_QUERIES) {                                                                                                     \
    write_in_sizes(queryOut, q.latent.sizes(),                                                                                 \
                   [&](at::Tensor& rows) { quantize_rows(widened(q.latent), rows, dequantScaleQNopeOutOptional); });           \
  } else {                                                                                                                     \
    put_reshaped(queryOut, q.latent);                                                                                          \
    put_or_zero(dequantScaleQNopeOutOptional, {}, false);                                                                      \
  }                                                                                                                            \
  put_reshaped(queryRopeOut, q.turned);

#define MLA_PROLOG_TWO(NAME) \
  OP(NAME) { MLA_PROLOG(tokenX.scalar_type() == at::kChar && kvCacheRef.scalar_type() == at::kChar, 1, 1, cacheIndex) }
MLA_PROLOG_TWO(aclnnMlaPrologV2)
MLA_PROLOG_TWO(aclnnMlaPrologV2WeightNz)
OP(aclnnMlaProlog) {
  const at::Tensor dequantScaleQNopeOutOptional;
  MLA_PROLOG(false, 1, 1, cacheIndex)
}

namespace {

void refuse_tiled_caches(const char* op, int64_t cache_mode, int64_t weight_mode, int64_t merged, int64_t merged_scales) {
  TORCH_CHECK(cache_mode <= 2 && weight_mode <= 2 && merged == 0 && merged_scales == 0, op,
              ": caches quantised in tiles, merged caches and MX weights are not supported");
}

}  // namespace

OP(aclnnMlaPrologV3WeightNz) {
  TORCH_CHECK(!given(actualSeqLenOptional) && !given(kNopeClipAlphaOptional),
              "aclnnMlaPrologV3WeightNz: actualSeqLen and kNopeClipAlpha are not supported");
  refuse_tiled_caches("aclnnMlaPrologV3WeightNz", kvCacheQuantMode, weightQuantMode, ckvkrRepoMode, quantScaleRepoMode);
  MLA_PROLOG(queryQuantMode == 1, qcQrScale, kcScale, cacheIndexOptional)
  if (given(queryNormOutOptional) && queryNormOutOptional.numel() == q.norm.numel()) put_reshaped(queryNormOutOptional, q.norm);
  if (given(dequantScaleQNormOutOptional) && q.norm_scale.defined()) put_reshaped(dequantScaleQNormOutOptional, q.norm_scale);
}
// kNopeClipAlpha is for caches in tiles.
OP(aclnnMlaPrologV3) {
  TORCH_CHECK(!given(actualSeqLenOptional), "aclnnMlaPrologV3: actualSeqLen is not supported");
  refuse_tiled_caches("aclnnMlaPrologV3", kvCacheQuantMode, weightQuantMode, ckvkrRepoMode, quantScaleRepoMode);
  const at::Tensor& dequantScaleQNopeOutOptional = dequantScaleQNopeOut;
  MLA_PROLOG(queryQuantMode == 1, qcQrScale, kcScale, cacheIndexOptional)
  if (!queryNormFlag) return;
  put_reshaped(queryNormOut, q.norm);
  if (given(dequantScaleQNormOut) && q.norm_scale.defined()) put_reshaped(dequantScaleQNormOut, q.norm_scale);
}
// By name: the inputs of the first interface up to the scales, those left out absent; queries, turned queries and the two caches.
NAMED(MlaProlog) {
  enum : size_t {
    x,
    dq,
    uq,
    uk,
    dkv,
    gamma_q,
    gamma_kv,
    sine,
    cosine,
    index,
    kv,
    kr,
    scale_x,
    scale_dq,
    scale_uq,
    scale_dkv,
    by_kv,
    by_kr,
    smooth
  };
  const at::Tensor &cos = call.in(cosine), &caches = call.in(kv), &keys = call.in(kr);
  const Prolog prolog{by_rows(call.in(x)), by_rows(cos), by_rows(call.in(sine)), call.in(scale_x), cos.scalar_type()};
  const auto q =
      prolog.queries(call.in(dq), call.in(uq), call.in(uk), call.in(gamma_q), call.attribute("rmsnorm_epsilon_cq", 1e-5F),
                     call.in(scale_dq), call.in(scale_uq), call.in(smooth), 1);
  const auto k =
      prolog.keys(call.in(dkv), call.in(gamma_kv), call.attribute("rmsnorm_epsilon_ckv", 1e-5F), call.in(scale_dkv), 1);
  const auto mode = call.attribute<std::string>("cache_mode", "PA_BSND");
  store(caches, k.latent, call.in(by_kv), call.in(index), mode);
  store(keys, k.turned, call.in(by_kr), call.in(index), mode);
  put(call.out(0), q.latent.reshape(call.out(0).sizes()));
  put(call.out(1), q.turned.reshape(call.out(1).sizes()));
  // The client may have given the same memory twice: the cache is its own result then.
  if (!call.out(2).is_alias_of(caches)) put(call.out(2), caches);
  if (!call.out(3).is_alias_of(keys)) put(call.out(3), keys);
}
