// Choosing the next token out of the likeliest, or drawing it.
#include <ATen/Functions.h>

#include "aten/custom/shapes.h"
#include "aten/factory.h"
#include "generated/torch_npu_custom_functions.h"
#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnTopKTopPSampleV2);

std::tuple<at::Tensor, at::Tensor> npu_top_k_top_p_sample(
    const at::Tensor& logits, const at::Tensor& top_k, const at::Tensor& top_p, const std::optional<at::Tensor>& q,
    std::optional<double> eps, std::optional<bool> is_need_logits, std::optional<int64_t> top_k_guess,
    const std::optional<at::Tensor>& min_ps, std::optional<int64_t> ks_max, std::optional<bool> input_is_logits,
    std::optional<std::string_view> post_sample, std::optional<at::Generator> generator) {
  const auto sample = post_sample.value_or("None");
  TORCH_CHECK_VALUE(sample == "None" || sample == "qSample" || sample == "multiNomial", "npu_top_k_top_p_sample: post_sample '",
                    sample, "' is not one of None, qSample, multiNomial");
  const bool draws = sample == "multiNomial", wanted = is_need_logits.value_or(false);
  TORCH_CHECK_NOT_IMPLEMENTED(!draws || !given(q) || q->is_floating_point(),
                              "npu_top_k_top_p_sample: q of seeds and offsets is not supported; give a generator");
  constexpr double kEpsilon = 1e-8;
  constexpr int64_t kGuess = 32, kMost = 1024;
  auto tokens = empty_like_with(logits, logits.sizes().slice(0, logits.dim() - 1), at::kLong);
  auto kept = wanted ? empty_like_with(logits, logits.sizes(), at::kFloat)
                     : at::zeros(logits.sizes(), logits.options().dtype(at::kFloat));
  // What is drawn from: the probabilities of those that stay, the likeliest first, and where they were.
  auto order = empty_like_with(logits, logits.sizes(), at::kLong), sorted = empty_like_with(logits, logits.sizes(), at::kFloat);
  op::run(aclnnTopKTopPSampleV2, logits, top_k, top_p, sample == "qSample" ? q : std::nullopt, min_ps, eps.value_or(kEpsilon),
          wanted, top_k_guess.value_or(kGuess), ks_max.value_or(kMost), input_is_logits.value_or(true), draws, tokens, kept,
          order, sorted);
  if (!draws) return {tokens, kept};
  const at::Tensor place = at::multinomial(sorted, 1, /*replacement=*/true, std::move(generator));
  return {order.gather(-1, place).squeeze(-1), kept};
}

}  // namespace torch_npu::native
