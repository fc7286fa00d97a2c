// What CANN's attention operators are given, as attention_core.h takes it: layouts, masks, biases.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "op/kernels/attention_core.h"

namespace softcann::op {

// What sparseMode and the token window leave out, besides the mask tensor. See Note [Sparse modes].
struct Sparse {
  int64_t mode, before, after;
};
struct AttentionSettings {
  double scale, keep_prob;
  Sparse sparse;
  int64_t heads, bias_type;
  std::string_view layout;
};
// Absent tensors are undefined.
struct AttentionExtras {
  const at::Tensor &bias, &drop_mask, &mask;
  at::Tensor sink{};  // a score of its own for each head, without a value
  at::IntArrayRef prefix{};
  int64_t drop_start = 0;  // the first of drop_mask's bits that are these scores'
  // Where the rows of queries and of keys begin, for biases of types 2 and 3: one number each, 0 where it is absent.
  at::IntArrayRef query_start{}, key_start{};
};

// The client's tensor as [batch, heads, sequence, size]. `size` is the size of a head where the layout hides it.
at::Tensor to_heads(const at::Tensor& tensor, std::string_view layout, int64_t size);
int64_t head_size(const at::Tensor& query, std::string_view layout, int64_t heads);

// Whether a bias [batches, heads, rows, keys] is the last rows of one for these queries and keys. See Note [Compressed position
// bias].
constexpr int64_t kCompressedBiasRows = 1024;
bool is_compressed_bias(const at::Tensor& bias, int64_t rows, int64_t columns);

Attention make_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const AttentionExtras& extras,
                         const AttentionSettings& settings);

// Note [Statistics of packed sequences]
// The softmax's maxima and sums of packed rows have the shape [tokens, heads, 8]. Unless a client asks for the queries' order
// they lie sequence after sequence, each as [heads, its tokens, 8].
constexpr std::string_view kStatisticsAsQueries = "same_as_input";
// Those of the tokens from `start` to `end`, [heads, tokens, 8].
at::Tensor sequence_statistics(const at::Tensor& statistics, int64_t start, int64_t end, bool as_queries = false);

// Nanoseconds, roughly.
double attention_cost(const at::Tensor& query, const at::Tensor& key);

// Throws where a tensor is given that softcann does not serve.
void refuse_attention(const at::Tensor& tensor, const char* what);

}  // namespace softcann::op
