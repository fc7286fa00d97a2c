#include <ATen/ExpandUtils.h>
#include <ATen/native/transformers/attention.h>
#include <array>
#include <cstring>
#include <limits>

#include "op/kernels/attention_core.h"
#include "op/kernels/attention_few.h"
#include "op/kernels/common.h"
#include "op/kernels/gemm.h"
#include "op/kernels/parts.h"

namespace softcann::op {
namespace {

constexpr double nothing = -std::numeric_limits<double>::infinity();

bool is_fully_given(const Attention& a) {
  return !a.kept.defined() && a.query.size(-1) == a.value.size(-1) && a.query.size(-2) && a.key.size(-2);
}
at::Tensor with_dense_rows(const at::Tensor& tensor) { return tensor.stride(-1) == 1 ? tensor : tensor.contiguous(); }
at::Tensor with_heads_of(const at::Tensor& tensor, int64_t heads) {
  if (tensor.size(1) == heads) return tensor;
  TORCH_CHECK(tensor.size(1) && heads % tensor.size(1) == 0, "attention: ", heads, " query heads cannot share ", tensor.size(1),
              " key heads");
  return tensor.repeat_interleave(heads / tensor.size(1), 1);
}
// Sums what with_heads_of() spread.
at::Tensor heads_summed(const at::Tensor& grad, int64_t heads) {
  if (grad.size(1) == heads) return grad;
  return in_parts(grad, 1, heads).sum(2);
}

// Float32 throughout, unless the machine computes half types fast and no conversion is needed; of gradients always, for ATen's
// kernel is slow in them.
Attention prepared(const Attention& a, bool gradient = false) {
  Attention made = a;
  const at::ScalarType type = a.query.scalar_type();
  const bool mixed = a.key.scalar_type() != type || a.value.scalar_type() != type;
  const bool widen = mixed || (low_precision(type) && (gradient || better_in_float32(type) || !is_fully_given(a)));
  const auto ready = [&](const at::Tensor& t) { return with_dense_rows(with_heads_of(widen ? widened(t) : t, a.query.size(1))); };
  made.query = ready(a.query);
  made.key = ready(a.key);
  made.value = ready(a.value);
  return made;
}

// One additive mask out of bias and hidden, in the type the flash kernels take.
std::optional<at::Tensor> additive_mask(const Attention& a) {
  if (!a.bias.defined() && !a.hidden.defined()) return std::nullopt;
  at::Tensor mask = a.bias.defined() ? a.bias.to(a.query.scalar_type()) : at::zeros({}, a.query.options());
  if (a.hidden.defined()) mask = mask.masked_fill(a.hidden, nothing);
  while (mask.dim() < 4) mask = mask.unsqueeze(0);
  return with_dense_rows(mask);
}

// Scores of all pairs, masked: what flash attention avoids to keep. For dropout and uneven sizes.
at::Tensor masked_scores(const Attention& a) {
  at::Tensor scores = at::matmul(a.query, a.key.transpose(-1, -2)).mul_(a.scale);
  if (a.bias.defined()) scores.add_(widened(a.bias));
  if (a.hidden.defined()) scores.masked_fill_(a.hidden, nothing);
  if (a.causal) {
    scores.masked_fill_(at::ones({scores.size(-2), scores.size(-1)}, scores.options().dtype(at::kBool)).triu(1), nothing);
  }
  return scores;
}
at::Tensor probabilities(const at::Tensor& scores, const at::Tensor& logsumexp) {
  // A row that sees nothing has -inf here; its probabilities shall be zero, not NaN.
  const at::Tensor finite = logsumexp.masked_fill(logsumexp == nothing, 0);
  return (scores - finite.unsqueeze(-1)).exp_();
}
// The kernels do not look.
void require_sizes(const char* what, const at::Tensor& tensor, at::IntArrayRef sizes) {
  TORCH_CHECK(tensor.sizes() == sizes, "attention: ", what, " has the sizes ", tensor.sizes(), ", not ", sizes,
              " of [batch, heads, rows, size]");
}
std::array<int64_t, 4> result_sizes(const Attention& a) {
  return {a.query.size(0), a.query.size(1), a.query.size(2), a.value.size(3)};
}
at::Tensor dropped(const at::Tensor& values, const Attention& a) {
  return a.kept.defined() ? values * a.kept / a.keep_prob : values;
}

}  // namespace

void attention_forward(const Attention& attention, const at::Tensor& out, const at::Tensor& logsumexp) {
  const auto sizes = result_sizes(attention);
  require_sizes("the result", out, sizes);
  if (logsumexp.defined()) require_sizes("the softmax's logarithm", logsumexp, at::IntArrayRef(sizes).slice(0, 3));
  if (out.numel() == 0) return;
  const Attention a = prepared(attention);
  if (!is_fully_given(a)) {
    const at::Tensor scores = masked_scores(a), sums = at::logsumexp(scores, {-1});
    put(out, at::matmul(dropped(probabilities(scores, sums), a), a.value));
    put(logsumexp, sums.masked_fill(sums == nothing, 0));  // as the flash kernel says of rows that see no key
    return;
  }
  if (attend_few(a, out, logsumexp)) return;
  const int64_t batch = a.query.size(0), heads = a.query.size(1), rows = a.query.size(2);
  const bool in_place = out.scalar_type() == a.query.scalar_type() && out.stride(-1) == 1;
  const at::Tensor by_row = in_place ? out.transpose(1, 2) : at::empty({batch, rows, heads, out.size(-1)}, a.query.options());
  const bool sums_in_place = logsumexp.defined() && logsumexp.scalar_type() == at::kFloat && logsumexp.stride(1) == 1 &&
                             logsumexp.stride(2) == heads && logsumexp.stride(0) == rows * heads;
  const at::Tensor sums =
      sums_in_place ? logsumexp.transpose(1, 2) : at::empty({batch, rows, heads}, a.query.options().dtype(at::kFloat));
  at::native::flash_attention_kernel(at::kCPU, by_row, sums, a.query, a.key, a.value, 0.0, a.causal, additive_mask(a), a.scale);
  if (!in_place) put(out, by_row.transpose(1, 2));
  if (!sums_in_place) put(logsumexp, sums.transpose(1, 2));
}

namespace {

void flash_backward(const Attention& a, const at::Tensor& grad, const at::Tensor& out, const at::Tensor& logsumexp,
                    const AttentionGradients& gradients) {
  // The kernel adds up in its results: straight in the client's memory where layout and type allow.
  const auto direct = [&](const at::Tensor& result, const at::Tensor& like) {
    return result.scalar_type() == like.scalar_type() && result.stride(-1) == 1 && result.size(1) == like.size(1) &&
           result.is_non_overlapping_and_dense();
  };
  const auto accumulator = [&](const at::Tensor& result, const at::Tensor& like) {
    if (!direct(result, like)) return at::zeros({like.size(0), like.size(2), like.size(1), like.size(3)}, like.options());
    std::memset(result.mutable_data_ptr(), 0, result.nbytes());
    return result.transpose(1, 2);
  };
  const at::Tensor dq = accumulator(gradients.query, a.query), dk = accumulator(gradients.key, a.key),
                   dv = accumulator(gradients.value, a.value);
  const auto by_row = [&](const at::Tensor& t) {
    return with_dense_rows(t.scalar_type() == a.query.scalar_type() ? t : t.to(a.query.scalar_type())).transpose(1, 2);
  };
  at::native::flash_attention_backward_kernel(at::kCPU, dq, dk, dv, by_row(grad), by_row(a.query), by_row(a.key), by_row(a.value),
                                              by_row(out), logsumexp.transpose(1, 2), 0.0, a.causal, additive_mask(a), a.scale);
  const auto store = [&](const at::Tensor& result, const at::Tensor& made, const at::Tensor& like) {
    if (!direct(result, like)) put(result, heads_summed(made.transpose(1, 2), result.size(1)));
  };
  store(gradients.query, dq, a.query);
  store(gradients.key, dk, a.key);
  store(gradients.value, dv, a.value);
}

}  // namespace

void attention_backward(const Attention& attention, const at::Tensor& grad, const at::Tensor& out, const at::Tensor& logsumexp,
                        const AttentionGradients& gradients) {
  const auto sizes = result_sizes(attention);
  require_sizes("the result", out, sizes);
  require_sizes("the result's gradient", grad, sizes);
  require_sizes("the softmax's logarithm", logsumexp, at::IntArrayRef(sizes).slice(0, 3));
  require_sizes("the gradient of query", gradients.query, attention.query.sizes());
  require_sizes("the gradient of key", gradients.key, attention.key.sizes());
  require_sizes("the gradient of value", gradients.value, attention.value.sizes());
  if (attention.query.numel() == 0 || attention.key.numel() == 0) {
    for (const at::Tensor& result : {gradients.query, gradients.key, gradients.value, gradients.bias}) {
      if (result.defined()) result.zero_();
    }
    return;
  }
  const Attention a = prepared(attention, true);
  if (is_fully_given(a) && !gradients.bias.defined()) {
    if (!attend_few_backward(a, grad, out, logsumexp, gradients)) flash_backward(a, grad, out, logsumexp, gradients);
    return;
  }
  const at::Tensor wide_grad = widened(grad), p = probabilities(masked_scores(a), logsumexp);
  put(gradients.value, heads_summed(at::matmul(dropped(p, a).transpose(-1, -2), wide_grad), gradients.value.size(1)));
  const at::Tensor by_p = dropped(at::matmul(wide_grad, widened(a.value).transpose(-1, -2)), a);
  // From these very numbers, so that rounding cancels; the keys may be a part of all (a ring of ranks), which only the output
  // knows.
  const at::Tensor common =
      at::where(p.sum(-1, true) < 1 - 1e-5, (wide_grad * widened(out)).sum(-1, true), (by_p * p).sum(-1, true));
  const at::Tensor by_score = p * (by_p - common);
  put(gradients.query, at::matmul(by_score, widened(a.key)).mul_(a.scale));
  put(gradients.key, heads_summed(at::matmul(by_score.transpose(-1, -2), widened(a.query)).mul_(a.scale), gradients.key.size(1)));
  if (gradients.bias.defined()) put(gradients.bias, at::sum_to(by_score, gradients.bias.sizes()));
}

}  // namespace softcann::op
