// Scaled dot-product attention on the fused kernel.
//
// Note [What attention keeps for its backward]
// FlashAttentionScore leaves, for each row, the maximum and the sum of its softmax. PyTorch's operator has no
// result for them, so they travel in cum_seq_q and cum_seq_k, which only sequences of packed lengths would use;
// logsumexp is the real one, made from the two.
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/EmptyTensor.h>
#include <array>

#include <ATen/ops/as_strided_native.h>
#include <ATen/Functions.h>

#include "aten/custom/dropout.h"
#include "aten/factory.h"
#include "aten/fused_attention.h"
#include "aten/device_constant.h"
#include "core/compat.h"
#include "core/error.h"
#include "core/generator.h"
#include "generated/torch_npu_native_functions.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnLog);
NPU_OPERATOR(aclnnInplaceAdd);

at::Tensor compressed_causal_mask(at::Device device) {
  constexpr int64_t side = 2048;
  static DeviceConstant mask;
  return mask.of(device.index(), [&] { return at::ones({side, side}, at::device(device).dtype(at::kBool)).triu_(1); });
}

namespace {

constexpr int64_t kSparseNone = 0, kSparseCausal = 2;
constexpr int64_t kAllTokens = 2147483647;
constexpr int64_t kHighPrecision = 0;
constexpr int64_t kAddAfterScale = 0;  // as PyTorch does; the first version of the operator adds before it scales

// The mask as the kernel wants it: either added to the scores, or a bool tensor where true hides.
struct Mask {
  at::Tensor added, hidden;
  int64_t sparse_mode = kSparseNone;
};

Mask make_mask(const at::Tensor& query, const at::Tensor& key, const std::optional<at::Tensor>& bias, bool causal) {
  Mask mask;
  const auto rows = query.size(2), columns = key.size(2);
  if (causal) {
    mask.hidden = compressed_causal_mask(query.device());
    mask.sparse_mode = kSparseCausal;
  } else if (bias && bias->defined()) {
    if (bias->scalar_type() == at::kBool) {
      mask.hidden = bias->logical_not().expand({query.size(0), bias->dim() == 4 ? bias->size(1) : 1, rows, columns}).contiguous();
    } else {
      mask.added = bias->to(query.scalar_type()).expand({query.size(0), query.size(1), rows, columns}).contiguous();
    }
  }
  return mask;
}

int64_t scores(const at::Tensor& query, const at::Tensor& key) {
  return query.size(0) * query.size(1) * query.size(2) * key.size(2);
}

at::Tensor host_number(int64_t value) {
  auto number = at::detail::empty_cpu({}, at::kLong);
  *number.mutable_data_ptr<int64_t>() = value;
  return number;
}

// What the backward needs to draw the same mask again: on the host, but for the draws of a graph.
std::pair<at::Tensor, at::Tensor> philox_tensors(const core::Draws& d) {
  if (!d.captured()) return {host_number(d.signed_seed()), host_number(d.signed_offset())};
  return {d.seed_tensor.select(0, 0), d.offset_tensor.add(d.signed_offset()).select(0, 0)};
}

core::Draws draws_of(const at::Tensor& seed, const at::Tensor& offset) {
  if (!seed.is_cpu()) return {0, 0, seed.unsqueeze(0), offset.unsqueeze(0)};
  const auto number = [](const at::Tensor& t) { return static_cast<uint64_t>(t.item<int64_t>()); };
  return {number(seed), number(offset), {}, {}};
}

// max + log(sum), of the first of each row's equal numbers.
at::Tensor logsumexp_of(const at::Tensor& softmax_max, const at::Tensor& softmax_sum) {
  const auto sizes = softmax_max.sizes().slice(0, 3), strides = softmax_max.strides().slice(0, 3);
  const auto first = [&](const at::Tensor& stats) { return at::native::as_strided_tensorimpl(stats, sizes, strides); };
  auto result = empty_like_with(softmax_sum, sizes);
  op::run(aclnnLog, first(softmax_sum), result);
  op::run(aclnnInplaceAdd, result, first(softmax_max), at::Scalar(1));
  return result;
}

double scale_or_default(const at::Tensor& query, std::optional<double> scale) {
  return scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(-1))));
}

// By torch.func. Its transforms ask for rules that the fused operator has only in part: none for vmap, which calls an operator
// once for each example only if all its results are tensors, no forward derivative, no second one.
bool is_transformed(const at::Tensor& tensor) {
  constexpr c10::DispatchKeySet wrappers({c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper});
  return tensor.key_set().has_any(wrappers);
}

// The kernel trusts its caller with the shapes. What fits in another way, by broadcasting, or not at all is for the unfused way
// to compute or to refuse.
bool shapes_fit(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, bool grouped) {
  if (query.dim() != 4 || key.dim() != 4 || value.dim() != 4) return false;
  if (query.size(0) != key.size(0) || key.size(0) != value.size(0)) return false;
  if (key.size(1) != value.size(1) || key.size(2) != value.size(2)) return false;
  if (query.size(3) != key.size(3) || query.size(3) != value.size(3)) return false;
  return grouped ? key.size(1) != 0 && query.size(1) % key.size(1) == 0 : query.size(1) == key.size(1);
}

bool fused_kernel_takes(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                        const std::optional<at::Tensor>& mask, double dropout, bool grouped) {
  const auto dtype = query.scalar_type();
  if (dtype != at::kHalf && dtype != at::kBFloat16 && dtype != at::kFloat) return false;
  if (query.numel() == 0 || key.numel() == 0) return false;
  if (key.scalar_type() != dtype || value.scalar_type() != dtype) return false;
  if (!shapes_fit(query, key, value, grouped) || query.size(-1) > 512) return false;
  if (dropout >= 1.0) return false;
  if (is_transformed(query) || is_transformed(key) || is_transformed(value) || (mask && is_transformed(*mask))) return false;
  // The kernel gives no gradient for a mask of fewer dims than the scores.
  return !mask || !mask->defined() || !mask->requires_grad();
}

}  // namespace

int64_t _fused_sdp_choice(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const std::optional<at::Tensor>& attn_mask, double dropout_p, bool is_causal,
                          std::optional<double> scale, bool enable_gqa) {
  // Programs name the fused kernels that CUDA has; the NPU's stands for each of them.
  const auto& user = at::globalContext();
  const bool named = user.userEnabledFlashSDP() || user.userEnabledMemEfficientSDP() || user.userEnabledCuDNNSDP();
  // Where sdpa_kernel(MATH) leaves the overrideable kernel on, MATH alone is what a program names.
  const bool only_math = !TORCH_NPU_SDPA_KERNEL_HAS_OVERRIDEABLE && user.userEnabledMathSDP();
  const bool wanted = named || (user.userEnabledOverrideableSDP() && !only_math);
  const bool fused = wanted && fused_kernel_takes(query, key, value, attn_mask, dropout_p, enable_gqa);
  return static_cast<int64_t>(fused ? sdp::SDPBackend::overrideable : sdp::SDPBackend::math);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor, at::Tensor, at::Tensor>
_scaled_dot_product_fused_attention_overrideable(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                                 const std::optional<at::Tensor>& attn_bias, double dropout_p, bool is_causal,
                                                 bool return_debug_mask, std::optional<double> scale) {
  TORCH_CHECK(!return_debug_mask, "the NPU's fused attention keeps no debug mask");
  TORCH_CHECK(shapes_fit(query, key, value, /*grouped=*/true),
              "the NPU's fused attention takes query, key and value of [batch, heads, tokens, head size] that agree in all but "
              "query's tokens, and whose heads are those of key or a multiple; got ",
              query.sizes(), ", ", key.sizes(), " and ", value.sizes());
  const auto mask = make_mask(query, key, attn_bias, is_causal);
  const auto stats = {query.size(0), query.size(1), query.size(2), kSoftmaxLanes};
  auto softmax_max = empty_like_with(query, stats, at::kFloat);
  auto softmax_sum = empty_like_with(query, stats, at::kFloat);
  auto softmax_out = empty_like_with(query, {0});
  auto output = empty_dense_like(query);
  core::Draws draws;
  at::Tensor drop;
  if (dropout_p > 0) {
    draws = core::draw(std::nullopt, scores(query, key));
    drop = dropout_mask(query, scores(query, key), dropout_p, draws);
  }
  const auto [seed, offset] = philox_tensors(draws);
  op::run(aclnnFlashAttentionScoreV2, query, key, value, mask.added, drop, at::Tensor(), mask.hidden, at::IntArrayRef(),
          at::IntArrayRef(), at::IntArrayRef(), scale_or_default(query, scale), 1.0 - dropout_p, kAllTokens,
          mask.sparse_mode == kSparseCausal ? 0 : kAllTokens, query.size(1), "BNSD", kHighPrecision, mask.sparse_mode,
          kAddAfterScale, softmax_max, softmax_sum, softmax_out, output);
  return {output,      logsumexp_of(softmax_max, softmax_sum), softmax_max, softmax_sum, query.size(2), key.size(2), seed, offset,
          at::Tensor()};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> _scaled_dot_product_fused_attention_overrideable_backward(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& attn_bias, std::array<bool, 4> grad_input_mask, const at::Tensor& out, const at::Tensor& logsumexp,
    const at::Tensor& cum_seq_q, const at::Tensor& cum_seq_k, int64_t max_q, int64_t max_k, double dropout_p, bool is_causal,
    const at::Tensor& philox_seed, const at::Tensor& philox_offset, std::optional<double> scale) {
  TORCH_CHECK(!grad_input_mask[3], "the NPU's fused attention gives no gradient for the mask");
  const auto mask = make_mask(query, key, attn_bias, is_causal);
  at::Tensor drop;
  if (dropout_p > 0) drop = dropout_mask(query, scores(query, key), dropout_p, draws_of(philox_seed, philox_offset));
  // torch.compile knows this operator by torch's own description, which has no such results, and drops them: the exponents
  // relative to logsumexp then stand for those relative to the largest, and their sum is one.
  const bool kept = cum_seq_q.defined() && cum_seq_k.defined();
  const auto softmax_max = kept ? cum_seq_q : logsumexp.unsqueeze(-1).expand({-1, -1, -1, kSoftmaxLanes}).contiguous();
  const auto softmax_sum = kept ? cum_seq_k : at::ones_like(softmax_max);
  auto grad_query = empty_dense_like(query), grad_key = empty_dense_like(key), grad_value = empty_dense_like(value);
  op::run(aclnnFlashAttentionScoreGradV2, query, key, value, grad_out, mask.added, drop, at::Tensor(), mask.hidden, softmax_max,
          softmax_sum, at::Tensor(), out, at::IntArrayRef(), at::IntArrayRef(), at::IntArrayRef(), scale_or_default(query, scale),
          1.0 - dropout_p, kAllTokens, mask.sparse_mode == kSparseCausal ? 0 : kAllTokens, query.size(1), "BNSD", kHighPrecision,
          mask.sparse_mode, kAddAfterScale, grad_query, grad_key, grad_value, at::Tensor());
  return {grad_query, grad_key, grad_value, at::Tensor()};
}

}  // namespace torch_npu::native

// scaled_dot_product_attention asks this stub, not the operator, and takes the unfused way where it is empty.
namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &torch_npu::native::_fused_sdp_choice)
}  // namespace at::native
