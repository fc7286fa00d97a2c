// Operators that clients name: attention of older networks.
#include <cmath>

#include "op/kernels/common.h"
#include "op/named.h"

using namespace softcann::op;

namespace {

at::Tensor input(const Named& call, size_t i, const char* transposed) {
  const at::Tensor given = widened(call.in(i));
  return call.attribute(transposed, false) ? given.transpose(-2, -1) : given;
}
// What a dropout leaves, by a mask of a byte for each element.
at::Tensor dropped(const at::Tensor& value, const at::Tensor& mask, double share) {
  return mask.defined() && mask.numel() == value.numel() ? value * mask.reshape(value.sizes()) / share : value;
}

}  // namespace

// query, key, value [B, N, S, D], what is added to the scores, the scale, a mask; the result [B * S, N * D], and the softmax.
NAMED(AttentionScore) {
  const at::Tensor query = input(call, 0, "query_transpose"), key = input(call, 1, "key_transpose");
  const at::Tensor scores = at::matmul(query, key.transpose(-2, -1)) * call.number(4) + widened(call.in(3));
  const at::Tensor softmax = at::softmax(scores, -1);
  at::Tensor weights = dropped(softmax, call.in(5), call.attribute("keep_prob", 1.0F));
  if (call.attribute("bmm_score_transpose_a", false)) weights = weights.transpose(-2, -1);
  const at::Tensor result = at::matmul(weights, input(call, 2, "bmm_score_transpose_b"));
  put_reshaped(call.out(0), result.transpose(1, 2));
  put(call.out(1), softmax);
}

namespace {

// x [B * S, hidden] times a matrix, and what is added, as [B, N, S, D].
void put_heads(const at::Tensor& out, const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias) {
  at::Tensor rows = at::matmul(x, widened(kernel));
  if (bias.defined()) rows = rows + widened(bias);
  put(out, rows.reshape({out.size(0), out.size(2), out.size(1), out.size(3)}).transpose(1, 2));
}

}  // namespace

// x, the matrices of query, key and value, gamma, beta, what is added to each; layer norm, query, key, value, mean and variance.
NAMED(AttentionLnQKV) {
  const at::Tensor x = widened(call.in(0));
  const auto [variance, mean] = at::var_mean(x, {-1}, /*correction=*/0, /*keepdim=*/true);
  const at::Tensor scaled = (x - mean) * (variance + call.attribute("epsilon", 1e-7F)).rsqrt() * widened(call.in(4));
  const at::Tensor normal = (scaled + widened(call.in(5))).to(call.out(0).scalar_type());
  put(call.out(0), normal);
  for (size_t i = 1; i < 4; ++i) put_heads(call.out(i), widened(normal), call.in(i), call.in(i + 5));
  put_reshaped(call.out(4), mean);
  put_reshaped(call.out(5), variance);
}

namespace {

// A whole layer of attention: `tokens` rows of each batch as [B, N, tokens, D], and back.
struct Layer {
  explicit Layer(const Named& call)
      : heads(call.attribute<int64_t>("attn_head_num", 0)),
        size(call.attribute<int64_t>("attn_dim_per_head", 0)),
        source(call.attribute<int64_t>("src_len", 0)),
        target(call.attribute<int64_t>("tgt_len", 0)),
        share(call.attribute("keep_prob", 1.0F)) {}

  at::Tensor split(const at::Tensor& rows, int64_t tokens) const {
    return rows.reshape({-1, tokens, heads, size}).transpose(1, 2);
  }
  at::Tensor joined(const at::Tensor& parts) const { return parts.transpose(1, 2).reshape({-1, heads * size}); }
  double scale() const { return 1 / std::sqrt(static_cast<double>(size)); }

  int64_t heads, size, source, target;
  double share;
};
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const at::Tensor rows = at::matmul(x, widened(weight).t());
  return bias.defined() ? rows + widened(bias) : rows;
}
at::Tensor sized_as(const at::Tensor& mask, const at::Tensor& scores) {
  return mask.numel() == scores.numel() ? widened(mask).reshape(scores.sizes()) : widened(mask);
}

}  // namespace

// query, key, value [B * tokens, N * D], their matrices, what is added to the scores, the last matrix, biases of all four, a mask
// of a dropout; the result, the mask, projected query, key and value, the softmax before and after the dropout, and what the last
// matrix multiplies.
NAMED(MultiHeadAttention) {
  const Layer layer(call);
  const auto projected = [&](size_t i) {
    return layer.split(linear(widened(call.in(i)), call.in(i + 3), call.in(i + 8)), i == 0 ? layer.target : layer.source);
  };
  const at::Tensor query = projected(0), key = projected(1), value = projected(2);
  at::Tensor scores = at::matmul(query, key.transpose(-2, -1)) * layer.scale();
  if (call.in(6).defined()) scores = scores + sized_as(call.in(6), scores);
  const at::Tensor softmax = at::softmax(scores, -1);
  const at::Tensor kept = layer.share < 1 ? dropped(softmax, call.in(12), layer.share) : softmax;
  const at::Tensor context = layer.joined(at::matmul(kept, value));
  put_reshaped(call.out(0), linear(context, call.in(7), call.in(11)));
  if (call.in(12).defined() && call.out(1).numel() == call.in(12).numel()) put_reshaped(call.out(1), call.in(12));
  size_t i = 2;
  for (const at::Tensor& part : {query, key, value, softmax, kept, context}) {
    put_reshaped(call.out(i), part);
    ++i;
  }
}
// query, key, value, the four matrices, what the layer gave behind its mask, the gradient, the mask; gradients of the matrices,
// of query, key and value, and of the biases.
NAMED(MultiHeadAttentionGrad) {
  const Layer layer(call);
  const auto as_heads = [&](size_t i, int64_t tokens) {
    return widened(call.in(i)).reshape({-1, layer.heads, tokens, layer.size});
  };
  const at::Tensor query = as_heads(7, layer.target), key = as_heads(8, layer.source), value = as_heads(9, layer.source);
  const at::Tensor softmax = widened(call.in(10)).reshape({-1, layer.heads, layer.target, layer.source});
  const at::Tensor kept = widened(call.in(11)).reshape(softmax.sizes()),
                   by = widened(call.in(13)).reshape({-1, layer.heads * layer.size});
  const at::Tensor rows = layer.split(at::matmul(by, widened(call.in(6))), layer.target);
  at::Tensor weights = at::matmul(rows, value.transpose(-2, -1));
  if (layer.share < 1) weights = dropped(weights, call.in(14), layer.share);
  const at::Tensor scores = softmax * (weights - (weights * softmax).sum({-1}, true)) * layer.scale();
  const at::Tensor parts[] = {layer.joined(at::matmul(scores, key)), layer.joined(at::matmul(scores.transpose(-2, -1), query)),
                              layer.joined(at::matmul(kept.transpose(-2, -1), rows))};
  const auto store = [&](size_t i, const at::Tensor& grad) {
    if (i < call.outputs() && call.out(i).defined()) put_reshaped(call.out(i), grad);
  };
  for (size_t i = 0; i < 3; ++i) {
    store(i, at::matmul(parts[i].t(), widened(call.in(i))));
    store(i + 4, at::matmul(parts[i], widened(call.in(i + 3))));
    store(i + 7, parts[i].sum(0));
  }
  store(3, at::matmul(by.t(), widened(call.in(12)).reshape(by.sizes())));
  store(10, by.sum(0));
}
