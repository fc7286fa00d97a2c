// The gated delta rule: what CANN's operators need and PyTorch's callers may leave out.
#include <ATen/Functions.h>

#include "aten/custom/shapes.h"
#include "aten/factory.h"
#include "generated/torch_npu_custom_functions.h"
#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnChunkGatedDeltaRule);
NPU_OPERATOR(aclnnRecurrentGatedDeltaRule);

namespace {

// [tokens, value heads] of ones.
at::Tensor beta_or_ones(const std::optional<at::Tensor>& beta, const at::Tensor& value) {
  return given(beta) ? *beta : at::ones({value.size(0), value.size(1)}, value.options());
}

}  // namespace

at::Tensor npu_recurrent_gated_delta_rule(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                          at::Tensor& state, const std::optional<at::Tensor>& beta, std::optional<double> scale,
                                          const std::optional<at::Tensor>& actual_seq_lengths,
                                          const std::optional<at::Tensor>& ssm_state_indices,
                                          const std::optional<at::Tensor>& num_accepted_tokens,
                                          const std::optional<at::Tensor>& g, const std::optional<at::Tensor>& gk) {
  const auto integers = value.options().dtype(at::kInt);
  // Without them each token is a sequence with a slot of its own.
  const at::Tensor lengths = given(actual_seq_lengths) ? *actual_seq_lengths : at::ones({value.size(0)}, integers);
  const at::Tensor slots = given(ssm_state_indices) ? *ssm_state_indices : at::arange(value.size(0), integers);
  auto out = at::zeros(value.sizes(), value.options().dtype(at::kBFloat16));  // of tokens that no sequence has
  op::run(aclnnRecurrentGatedDeltaRule, query, key, value, beta_or_ones(beta, value), state, lengths, slots, g, gk,
          num_accepted_tokens, scale.value_or(1), out);
  return out;
}

std::tuple<at::Tensor, at::Tensor> npu_chunk_gated_delta_rule(const at::Tensor& query, const at::Tensor& key,
                                                              const at::Tensor& value, const std::optional<at::Tensor>& beta,
                                                              const std::optional<at::Tensor>& initial_state,
                                                              const std::optional<at::Tensor>& actual_seq_lengths,
                                                              std::optional<double> scale, const std::optional<at::Tensor>& g) {
  // Without them all tokens are one sequence, which begins with zeros.
  const at::Tensor lengths =
      given(actual_seq_lengths) ? *actual_seq_lengths : at::full({1}, value.size(0), value.options().dtype(at::kInt));
  const at::Tensor initial = given(initial_state)
                                 ? *initial_state
                                 : at::zeros({lengths.numel(), value.size(1), value.size(2), key.size(2)}, value.options());
  auto out = at::zeros(value.sizes(), value.options().dtype(at::kBFloat16)), last = empty_like_with(initial, initial.sizes());
  op::run(aclnnChunkGatedDeltaRule, query, key, value, beta_or_ones(beta, value), initial, lengths, g, scale.value_or(1), out,
          last);
  return {out, last};
}

}  // namespace torch_npu::native
