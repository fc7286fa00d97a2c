// Attention of short sequences. See Note [Few keys].
#pragma once

#include "op/kernels/attention_core.h"

namespace softcann::op {

// As attention_forward() and attention_backward() for prepared attention; false, with nothing done, for any other.
bool attend_few(const Attention& attention, const at::Tensor& out, const at::Tensor& logsumexp);
bool attend_few_backward(const Attention& attention, const at::Tensor& grad, const at::Tensor& out, const at::Tensor& logsumexp,
                         const AttentionGradients& gradients);

}  // namespace softcann::op
