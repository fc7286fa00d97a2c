// Attention of rows to all keys of their sequence, some of them hidden; for the kinds of attention that say which by blocks.
#pragma once

#include "op/kernels/parts.h"
#include <ATen/core/Tensor.h>

#include <functional>

namespace softcann::op {

// [rows, heads, size] as wide [heads, rows, size].
at::Tensor heads_first(const at::Tensor& tensor);

// The softmax of rows over all keys, [heads, rows, keys], and its statistics [heads, rows, 1]; a row that sees nothing has
// weights, a maximum and a sum of 0.
struct DenseSoftmax {
  at::Tensor weights, top, total;

  DenseSoftmax(const at::Tensor& query, const at::Tensor& key, double scale, const at::Tensor& hidden);
  // By the scores, given the gradient by the weights.
  at::Tensor by_scores(const at::Tensor& by_weights) const;
};

struct DenseAttention {
  struct Result {
    at::Tensor out, top, total, log_sum;  // [heads, rows, size of a value], and [heads, rows, 1]; log_sum: infinity where a row
                                          // sees nothing, as CANN has it
  };
  struct Gradients {
    at::Tensor query, key, value;
  };
  // Which keys rows start to end do not see, [heads or 1, rows, keys]; undefined: they see all.
  using Hidden = std::function<at::Tensor(int64_t start, int64_t end)>;
  using See = std::function<void(int64_t start, int64_t end, const at::Tensor& weights)>;

  at::Tensor query, key, value;  // wide: [heads, rows, size], [heads of keys, keys, size of each]
  double scale;
  Hidden hidden;

  // `see` is shown the weights of rows start to end.
  Result forward(const See& see = {}) const;
  // Nothing of the forward pass is needed: it is taken again.
  Gradients backward(const at::Tensor& by_out) const;

 private:
  at::Tensor spread(const at::Tensor& keys) const { return groups() == 1 ? keys : keys.repeat_interleave(groups(), 0); }
  int64_t groups() const { return equal_parts(query.size(0), key.size(0)); }
  int64_t numbers_each() const { return 3 * query.size(0) * key.size(1); }
};

}  // namespace softcann::op
