// Attention of float8 tensors with a scale for each block of tokens.
#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/dense_attention.h"
#include "op/kernels/parts.h"
#include "op/kernels/quantize.h"
#include "op/kernels/sparse_attention.h"

using namespace softcann::op;

namespace {

// Tokens that share a scale.
constexpr int64_t query_block = 128, key_block = 256, value_block = 512;

struct QuantAttention {
  std::string_view layout;
  at::ScalarType type;
  at::Tensor query, key, value;  // wide, times their scales: [batch, heads, tokens, size]
  double p_scale, scale;

  static at::Tensor heads_second(const at::Tensor& t, std::string_view layout) {
    return layout == "BNSD" ? t : t.transpose(1, 2);
  }
  at::Tensor unscaled(const at::Tensor& tensor, const at::Tensor& scales, int64_t block) const {
    const at::Tensor x = heads_second(widened(tensor), layout);
    const at::Tensor spread = widened(scales).repeat_interleave(block, 2).slice(2, 0, x.size(2));
    TORCH_CHECK(spread.dim() == 4 && spread.size(0) == x.size(0) && spread.size(1) == x.size(1) && spread.size(2) == x.size(2),
                "scales ", scales.sizes(), " of ", tensor.sizes(), " are not [batch, heads, blocks of ", block, " tokens, 1]");
    return x * spread;
  }
  QuantAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& q_scale,
                 const at::Tensor& k_scale, const at::Tensor& v_scale, const at::Tensor& weights_scale, double factor,
                 std::string_view in_layout)
      : layout(in_layout), type(q.scalar_type()), scale(factor) {
    query = unscaled(q, q_scale, query_block);
    key = unscaled(k, k_scale, key_block);
    value = unscaled(v, v_scale, value_block);
    p_scale = given(weights_scale) ? weights_scale.to(at::kFloat).item<double>() : 1;
  }
  int64_t batches() const { return query.size(0); }
  int64_t groups() const { return equal_parts(query.size(1), key.size(1)); }
  // As the product with the values takes them: in the inputs' format.
  at::Tensor rounded(const at::Tensor& weights) const {
    const double limit = type == at::kFloat8_e4m3fn ? 448 : 57344;
    return (weights * p_scale).clamp_max(limit).to(type).to(weights.scalar_type()) / p_scale;
  }
  // Calls each(first row, last row, queries, softmax) of batch b.
  template <class Each>
  void of_rows(int64_t b, const at::Tensor& keys, Each&& each) const {
    in_chunks(query.size(2), 3 * query.size(1) * keys.size(1), [&](int64_t start, int64_t end) {
      const at::Tensor q = query[b].slice(1, start, end);
      each(start, end, q, DenseSoftmax(q, keys, scale, {}));
    });
  }
  at::Tensor spread(const at::Tensor& t) const { return t.repeat_interleave(groups(), 0); }
  at::Tensor summed(const at::Tensor& t) const { return t.unflatten(0, at::IntArrayRef{key.size(1), groups()}).sum({1}); }
};

double quant_attention_cost(const char* op, const at::Tensor& query, const at::Tensor& key, const at::Tensor& mask, int64_t heads,
                            std::string_view layout, int64_t sparse_mode) {
  if (layout != "BSND" && layout != "BNSD") invalid("%s: the layout %s is not supported; BSND and BNSD are", op, layout.data());
  if (query.scalar_type() != at::kFloat8_e4m3fn && query.scalar_type() != at::kFloat8_e5m2) {
    invalid("%s: only float8_e4m3fn and float8_e5m2 are supported", op);
  }
  if (given(mask) || sparse_mode != 0) invalid("%s: attenMask and sparseMode %d are not supported", op, int(sparse_mode));
  if (query.dim() != 4 || query.size(layout == "BSND" ? 2 : 1) != heads) invalid("%s: query has not %d heads", op, int(heads));
  return bytes(query) * 4 * static_cast<double>(key.size(layout == "BSND" ? 1 : 2));
}

}  // namespace

OP_COST(aclnnQuantFlashAttentionScore,
        quant_attention_cost("aclnnQuantFlashAttentionScore", query, key, attenMaskOptional, headNum, inputLayout, sparseMode)) {
  const QuantAttention attention(query, key, value, dScaleQ, dScaleK, dScaleV, pScale, scaleValue, inputLayout);
  const at::Tensor out = QuantAttention::heads_second(attentionOutOut, inputLayout);
  for (int64_t b = 0; b < attention.batches(); ++b) {
    const at::Tensor keys = attention.spread(attention.key[b]), values = attention.spread(attention.value[b]);
    attention.of_rows(b, keys, [&](int64_t start, int64_t end, const at::Tensor&, const DenseSoftmax& softmax) {
      put(out[b].slice(1, start, end), at::bmm(attention.rounded(softmax.weights), values));
      const auto statistic = [&](const at::Tensor& into, const at::Tensor& found) {
        put(into[b].slice(1, start, end), found.expand({-1, -1, into.size(-1)}));
      };
      statistic(softmaxMaxOut, softmax.top);
      statistic(softmaxSumOut, softmax.total);
    });
  }
}

// Of the numbers that query, key and value stand for; roundings pass gradients on as they are.
OP_COST(aclnnQuantFlashAttentionScoreGrad, 3 * quant_attention_cost("aclnnQuantFlashAttentionScoreGrad", query, keyIn,
                                                                    attenMaskOptional, headNum, inputLayout, sparseMode)) {
  const QuantAttention attention(query, keyIn, value, dScaleQ, dScaleK, dScaleV, pScale, scaleValue, inputLayout);
  const at::Tensor grads = attention.unscaled(dy, dScaleDy, query_block);
  const auto part = [&](const at::Tensor& t, int64_t b) { return QuantAttention::heads_second(t, inputLayout)[b]; };
  for (int64_t b = 0; b < attention.batches(); ++b) {
    const at::Tensor keys = attention.spread(attention.key[b]), values = attention.spread(attention.value[b]);
    const at::Tensor by_keys = at::zeros_like(keys), by_values = at::zeros_like(values);
    attention.of_rows(b, keys, [&](int64_t start, int64_t end, const at::Tensor& q, const DenseSoftmax& softmax) {
      const at::Tensor grad = grads[b].slice(1, start, end);
      const at::Tensor by_scores = softmax.by_scores(at::bmm(grad, values.transpose(1, 2))) * scaleValue;
      put(part(dqOut, b).slice(1, start, end), at::bmm(by_scores, keys));
      by_keys.add_(at::bmm(by_scores.transpose(1, 2), q));
      by_values.add_(at::bmm(attention.rounded(softmax.weights).transpose(1, 2), grad));
    });
    put(part(dkOut, b), attention.summed(by_keys));
    put(part(dvOut, b), attention.summed(by_values));
  }
}
