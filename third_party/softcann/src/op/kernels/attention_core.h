// Attention over [batch, heads, sequence, size], whatever the client's layout.
#pragma once

#include <ATen/core/Tensor.h>

namespace softcann::op {

// All tensors may be strided views. Absent parts are undefined.
struct Attention {
  at::Tensor query, key, value;  // key and value may have fewer heads, each then serves several of query's
  at::Tensor bias;               // added to the scaled scores; broadcasts
  at::Tensor hidden;             // true where a score does not count; broadcasts
  at::Tensor kept;               // dropout: false where a probability is dropped, [batch, heads, rows, columns]
  bool causal = false;           // row i sees columns up to i
  double scale = 1;
  double keep_prob = 1;
};

// Writes out and, where defined, logsumexp [batch, heads, rows] in float32.
void attention_forward(const Attention& attention, const at::Tensor& out, const at::Tensor& logsumexp);

// Gradients that are undefined are not computed; out and logsumexp are the forward's.
struct AttentionGradients {
  at::Tensor query, key, value, bias;
};
void attention_backward(const Attention& attention, const at::Tensor& grad, const at::Tensor& out, const at::Tensor& logsumexp,
                        const AttentionGradients& gradients);

}  // namespace softcann::op
