#include "op/kernels/dense_attention.h"

#include <limits>

#include "op/kernels/common.h"
#include "op/kernels/sparse_attention.h"

namespace softcann::op {
namespace {

constexpr double no_score = -std::numeric_limits<double>::infinity();

}  // namespace

at::Tensor heads_first(const at::Tensor& tensor) { return widened(tensor).transpose(0, 1); }

DenseSoftmax::DenseSoftmax(const at::Tensor& query, const at::Tensor& key, double scale, const at::Tensor& hidden) {
  at::Tensor scores = at::bmm(query, key.transpose(1, 2)) * scale;
  if (hidden.defined()) scores = scores.masked_fill(hidden, no_score);
  top = scores.amax({-1}, true);
  top = at::where(top == no_score, 0.0, top);
  weights = (scores - top).exp();
  total = weights.sum({-1}, true);
  weights = weights / at::where(total == 0, 1.0, total);
}

at::Tensor DenseSoftmax::by_scores(const at::Tensor& by_weights) const {
  return weights * (by_weights - (weights * by_weights).sum({-1}, true));
}

DenseAttention::Result DenseAttention::forward(const See& see) const {
  const int64_t heads = query.size(0), rows = query.size(1);
  Result result{at::zeros({heads, rows, value.size(-1)}, query.options()), at::zeros({heads, rows, 1}, query.options()),
                at::zeros({heads, rows, 1}, query.options()), at::full({heads, rows, 1}, -no_score, query.options())};
  if (key.size(1) == 0) return result;
  const at::Tensor keys = spread(key), values = spread(value);
  in_chunks(rows, numbers_each(), [&](int64_t start, int64_t end) {
    const DenseSoftmax softmax(query.slice(1, start, end), keys, scale, hidden ? hidden(start, end) : at::Tensor());
    result.out.slice(1, start, end).copy_(at::bmm(softmax.weights, values));
    result.top.slice(1, start, end).copy_(softmax.top);
    result.total.slice(1, start, end).copy_(softmax.total);
    result.log_sum.slice(1, start, end).copy_(at::where(softmax.total == 0, -no_score, softmax.top + softmax.total.log()));
    if (see) see(start, end, softmax.weights);
  });
  return result;
}

DenseAttention::Gradients DenseAttention::backward(const at::Tensor& by_out) const {
  const at::Tensor by_query = at::zeros_like(query);
  if (key.size(1) == 0) return {by_query, at::zeros_like(key), at::zeros_like(value)};
  const at::Tensor keys = spread(key), values = spread(value);
  const at::Tensor by_keys = at::zeros_like(keys), by_values = at::zeros_like(values);
  in_chunks(query.size(1), numbers_each(), [&](int64_t start, int64_t end) {
    const at::Tensor q = query.slice(1, start, end), grad = by_out.slice(1, start, end);
    const DenseSoftmax softmax(q, keys, scale, hidden ? hidden(start, end) : at::Tensor());
    const at::Tensor by_scores = softmax.by_scores(at::bmm(grad, values.transpose(1, 2))) * scale;
    by_query.slice(1, start, end).copy_(at::bmm(by_scores, keys));
    by_keys.add_(at::bmm(by_scores.transpose(1, 2), q));
    by_values.add_(at::bmm(softmax.weights.transpose(1, 2), grad));
  });
  const auto summed = [&](const at::Tensor& t) { return t.unflatten(0, {key.size(0), groups()}).sum({1}); };
  return {by_query, summed(by_keys), summed(by_values)};
}

}  // namespace softcann::op
