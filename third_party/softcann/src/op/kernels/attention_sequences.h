// What the fused attention of inference takes, whatever the version of its interface.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "op/kernels/attention_inputs.h"

namespace softcann::op {

// Absent tensors are undefined.
struct InferRequest {
  at::Tensor query;
  at::TensorList key, value;  // one, or one for each sequence
  at::Tensor bias, mask, block_table;
  at::IntArrayRef query_lengths, key_lengths;  // running sums in the packed layouts, the keys' only without pages
  int64_t heads, kv_heads;
  Sparse sparse;
  double scale;
  std::string_view layout;  // of the inputs, or INPUTS_RESULT
  at::Tensor query_rope{}, key_rope{}, sink{};
  at::Tensor key_prefix{}, value_prefix{};
  at::IntArrayRef prefix_length{};
  at::Tensor key_scale{}, key_offset{}, value_scale{}, value_offset{};  // of caches in int8
  bool key_per_token = false, value_per_token = false;
  at::Tensor out_scale{}, out_offset{};  // of a result in int8
  // int8 all through: of the scores, of the weights when they become int8, and of their product. See Note [Attention of int8].
  at::Tensor score_scale{}, weight_scale{}, product_scale{};

  int64_t batch() const;
  std::string_view in_layout() const;
  std::string_view out_layout() const;
};

// Whether a batch can be computed at once, with what inference_attention.cpp has.
bool is_plain(const InferRequest& request);
// logsumexp: [batch, heads, rows, 1], [tokens, heads, 1] in the packed layouts, or undefined.
void infer_sequences(const InferRequest& request, const at::Tensor& out, const at::Tensor& logsumexp);

}  // namespace softcann::op
