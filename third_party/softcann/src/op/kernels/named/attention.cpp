// Operators that clients name: attention of older networks.
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
  put(call.out(0), result.transpose(1, 2).reshape(call.out(0).sizes()));
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
  put(call.out(4), mean.reshape(call.out(4).sizes()));
  put(call.out(5), variance.reshape(call.out(5).sizes()));
}
