// Operators that clients name: attention of older networks.
#include <ATen/ATen.h>

#include "op/kernels/common.h"
#include "op/named.h"

using namespace softcann::op;

namespace {

at::Tensor turned(const Named& call, size_t i, const char* whether) {
  const at::Tensor given = widened(call.in(i));
  return call.attribute(whether, false) ? given.transpose(-2, -1) : given;
}
// What a dropout leaves, by a mask of a byte for each element.
at::Tensor dropped(const at::Tensor& value, const at::Tensor& mask, double share) {
  return mask.defined() && mask.numel() == value.numel() ? value * mask.reshape(value.sizes()) / share : value;
}

}  // namespace

// query, key, value [B, N, S, D], what is added to the scores, the scale, a mask; the result [B * S, N * D], and the softmax.
NAMED(AttentionScore) {
  const at::Tensor query = turned(call, 0, "query_transpose"), key = turned(call, 1, "key_transpose");
  const at::Tensor scores = at::matmul(query, key.transpose(-2, -1)) * call.number(4) + widened(call.in(3));
  const at::Tensor softmax = at::softmax(scores, -1);
  at::Tensor weights = dropped(softmax, call.in(5), call.attribute("keep_prob", 1.0F));
  if (call.attribute("bmm_score_transpose_a", false)) weights = weights.transpose(-2, -1);
  const at::Tensor result = at::matmul(weights, turned(call, 2, "bmm_score_transpose_b"));
  put(call.out(0), result.transpose(1, 2).reshape(call.out(0).sizes()));
  put(call.out(1), softmax);
}
