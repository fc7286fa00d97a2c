#include <ATen/ExpandUtils.h>
#include <ATen/Parallel.h>
#include <ATen/native/transformers/attention.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <ATen/ops/empty.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "op/clones.h"
#include "op/kernels/attention_core.h"
#include "op/kernels/common.h"
#include "op/kernels/gemm.h"
#include "op/vector_math.h"

namespace softcann::op {
namespace {

constexpr double nothing = -std::numeric_limits<double>::infinity();

bool is_fully_given(const Attention& a) {
  return !a.kept.defined() && a.query.size(-1) == a.value.size(-1) && a.query.size(-2) && a.key.size(-2);
}
at::Tensor with_dense_rows(const at::Tensor& tensor) {
  return tensor.stride(-1) == 1 ? tensor : tensor.contiguous();
}
at::Tensor with_heads_of(const at::Tensor& tensor, int64_t heads) {
  if (tensor.size(1) == heads) return tensor;
  TORCH_CHECK(tensor.size(1) && heads % tensor.size(1) == 0, "attention: ", heads, " query heads cannot share ",
              tensor.size(1), " key heads");
  return tensor.repeat_interleave(heads / tensor.size(1), 1);
}
// Sums what with_heads_of() spread.
at::Tensor heads_summed(const at::Tensor& grad, int64_t heads) {
  if (grad.size(1) == heads) return grad;
  return grad.unflatten(1, at::IntArrayRef{heads, grad.size(1) / heads}).sum(2);
}

// Float32 throughout, unless the machine computes half types fast and no conversion is needed.
Attention prepared(const Attention& a) {
  Attention made = a;
  const at::ScalarType type = a.query.scalar_type();
  const bool widen = low_precision(type) && (better_in_float32(type) || !is_fully_given(a));
  const auto ready = [&](const at::Tensor& t) {
    return with_dense_rows(with_heads_of(widen ? widened(t) : t, a.query.size(1)));
  };
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
    scores.masked_fill_(at::ones({scores.size(-2), scores.size(-1)}, scores.options().dtype(at::kBool)).triu(1),
                        nothing);
  }
  return scores;
}
at::Tensor probabilities(const at::Tensor& scores, const at::Tensor& logsumexp) {
  // A row that sees nothing has -inf here; its probabilities shall be zero, not NaN.
  const at::Tensor finite = logsumexp.masked_fill(logsumexp == nothing, 0);
  return (scores - finite.unsqueeze(-1)).exp_();
}
at::Tensor dropped(const at::Tensor& values, const Attention& a) {
  return a.kept.defined() ? values * a.kept / a.keep_prob : values;
}

// Note [Few keys]
// ATen's flash kernel prepares blocks and calls a matrix product for each: more than all of the arithmetic of a short
// sequence, or of one new token against the keys of those before it. Such heads are computed row by row.
constexpr int64_t few_products = 1 << 16;  // multiply-adds of one product of a head
constexpr int64_t most_keys = 1024;
constexpr int64_t rows_worth_packing = 4;
constexpr int64_t most_packed = few_products / rows_worth_packing + most_keys;  // numbers, with the rest of the last lanes

constexpr int64_t head_lanes = 8;
using HeadLanes [[gnu::vector_size(head_lanes * sizeof(float)), gnu::aligned(alignof(float)), gnu::may_alias]] = float;

// A matrix of float32 whose rows are dense.
struct Rows {
  const float* data;
  int64_t stride;
};

// packed(d, j) = keys(j, d), with rows of `width` numbers, so that sixteen keys are the lanes.
SOFTCANN_CLONES void pack_keys(Rows keys, int64_t count, int64_t size, int64_t width, float* packed) {
  for (int64_t d = 0; d < size; ++d, packed += width) {
    for (int64_t j = 0; j < count; ++j) packed[j] = keys.data[j * keys.stride + d];
    std::fill(packed + count, packed + width, 0.0F);
  }
}
// scores = scale * keys @ query; there is room for `width` of them.
SOFTCANN_CLONES void score_packed(const float* query, const float* packed, int64_t count, int64_t size, int64_t width, float scale, float* scores) {
  for (int64_t j = 0; j < count; j += lane_count) {
    Lanes even{}, odd{}, key;
    int64_t d = 0;
    for (; d + 2 <= size; d += 2) {
      load(packed + d * width + j, key);
      even += query[d] * key;
      load(packed + (d + 1) * width + j, key);
      odd += query[d + 1] * key;
    }
    if (d < size) {
      load(packed + d * width + j, key);
      even += query[d] * key;
    }
    store((even + odd) * scale, scores + j);
  }
}
SOFTCANN_CLONES void score_by_key(const float* query, Rows keys, int64_t count, int64_t size, float scale, float* scores) {
  for (int64_t j = 0; j < count; ++j) {
    const float* key = keys.data + j * keys.stride;
    HeadLanes sums{};
    int64_t d = 0;
    for (; d + head_lanes <= size; d += head_lanes) sums += *reinterpret_cast<const HeadLanes*>(query + d) * *reinterpret_cast<const HeadLanes*>(key + d);
    float sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    for (; d < size; ++d) sum += query[d] * key[d];
    scores[j] = sum * scale;
  }
}
// result = softmax(scores) @ values; scores are used up. Gives the logarithm of the powers' sum.
SOFTCANN_CLONES float attend(Rows values, int64_t count, int64_t size, float* scores, float* result) {
  float largest = -std::numeric_limits<float>::infinity();
  for (int64_t j = 0; j < count; ++j) largest = scores[j] > largest ? scores[j] : largest;  // a NaN makes the sum one
  Lanes totals{}, powers;
  for (int64_t j = 0; j < count; j += lane_count) {
    const int64_t length = std::min(count - j, lane_count);
    load(scores + j, length, static_cast<float>(nothing), powers);
    powers -= largest;
    exponentiate(powers);
    totals += powers;
    std::memcpy(scores + j, &powers, static_cast<size_t>(length) * sizeof(float));
  }
  const float total = sum_of(totals), share = 1 / total;
  int64_t d = 0;
  for (; d + 2 * head_lanes <= size; d += 2 * head_lanes) {
    HeadLanes low{}, high{};
    for (int64_t j = 0; j < count; ++j) {
      const float* value = values.data + j * values.stride + d;
      low += scores[j] * *reinterpret_cast<const HeadLanes*>(value);
      high += scores[j] * *reinterpret_cast<const HeadLanes*>(value + head_lanes);
    }
    *reinterpret_cast<HeadLanes*>(result + d) = low * share;
    *reinterpret_cast<HeadLanes*>(result + d + head_lanes) = high * share;
  }
  for (; d + head_lanes <= size; d += head_lanes) {
    HeadLanes sums{};
    for (int64_t j = 0; j < count; ++j) sums += scores[j] * *reinterpret_cast<const HeadLanes*>(values.data + j * values.stride + d);
    *reinterpret_cast<HeadLanes*>(result + d) = sums * share;
  }
  for (; d < size; ++d) {
    float sum = 0;
    for (int64_t j = 0; j < count; ++j) sum += scores[j] * values.data[j * values.stride + d];
    result[d] = sum * share;
  }
  return largest + std::log(total);
}

bool has_few_keys(const Attention& a, const at::Tensor& out, const at::Tensor& logsumexp) {
  if (a.bias.defined() || a.hidden.defined() || a.query.scalar_type() != at::kFloat || out.scalar_type() != at::kFloat) return false;
  if (logsumexp.defined() && logsumexp.scalar_type() != at::kFloat) return false;
  const int64_t rows = a.query.size(2), columns = a.key.size(2);
  return columns <= most_keys && out.stride(-1) == 1 && rows * columns * a.query.size(3) <= few_products;
}

void attend_few(const Attention& a, const at::Tensor& out, const at::Tensor& logsumexp) {
  const int64_t heads = a.query.size(1), rows = a.query.size(2), columns = a.key.size(2), size = a.query.size(3);
  const auto data = [](const at::Tensor& t, int64_t b, int64_t h) { return t.data_ptr<float>() + b * t.stride(0) + h * t.stride(1); };
  at::parallel_for(0, a.query.size(0) * heads, std::max<int64_t>(1, few_products / std::max<int64_t>(1, rows * columns * size)),
                   [&](int64_t begin, int64_t end) {
    const int64_t width = (columns + lane_count - 1) / lane_count * lane_count;
    const bool pack = rows >= rows_worth_packing && width * size <= most_packed;
    float scores[most_keys + lane_count], packed[most_packed];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t b = i / heads, h = i % heads;
      const Rows keys{data(a.key, b, h), a.key.stride(2)}, values{data(a.value, b, h), a.value.stride(2)};
      const auto scale = static_cast<float>(a.scale);
      const float* query = data(a.query, b, h);
      float* result = data(out, b, h);
      if (pack) pack_keys(keys, columns, size, width, packed);
      for (int64_t row = 0; row < rows; ++row, query += a.query.stride(2)) {
        const int64_t seen = a.causal ? std::min(row + 1, columns) : columns;
        pack ? score_packed(query, packed, seen, size, width, scale, scores) : score_by_key(query, keys, seen, size, scale, scores);
        const float sum = attend(values, seen, size, scores, result + row * out.stride(2));
        if (logsumexp.defined()) data(logsumexp, b, h)[row * logsumexp.stride(2)] = sum;
      }
    }
  });
}

}  // namespace

void attention_forward(const Attention& attention, const at::Tensor& out, const at::Tensor& logsumexp) {
  if (out.numel() == 0) return;
  const Attention a = prepared(attention);
  if (!is_fully_given(a)) {
    const at::Tensor scores = masked_scores(a), sums = at::logsumexp(scores, {-1});
    put(out, at::matmul(dropped(probabilities(scores, sums), a), a.value));
    put(logsumexp, sums);
    return;
  }
  if (has_few_keys(a, out, logsumexp)) return attend_few(a, out, logsumexp);
  const int64_t batch = a.query.size(0), heads = a.query.size(1), rows = a.query.size(2);
  const bool in_place = out.scalar_type() == a.query.scalar_type() && out.stride(-1) == 1;
  const at::Tensor by_row =
      in_place ? out.transpose(1, 2) : at::empty({batch, rows, heads, out.size(-1)}, a.query.options());
  const bool sums_in_place = logsumexp.defined() && logsumexp.scalar_type() == at::kFloat && logsumexp.stride(1) == 1 &&
      logsumexp.stride(2) == heads && logsumexp.stride(0) == rows * heads;
  const at::Tensor sums = sums_in_place ? logsumexp.transpose(1, 2)
                                        : at::empty({batch, rows, heads}, a.query.options().dtype(at::kFloat));
  at::native::flash_attention_kernel(at::kCPU, by_row, sums, a.query, a.key, a.value, 0.0, a.causal, additive_mask(a),
                                     a.scale);
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
  at::native::flash_attention_backward_kernel(at::kCPU, dq, dk, dv, by_row(grad), by_row(a.query), by_row(a.key),
                                              by_row(a.value), by_row(out), logsumexp.transpose(1, 2), 0.0, a.causal,
                                              additive_mask(a), a.scale);
  const auto store = [&](const at::Tensor& result, const at::Tensor& made, const at::Tensor& like) {
    if (!direct(result, like)) put(result, heads_summed(made.transpose(1, 2), result.size(1)));
  };
  store(gradients.query, dq, a.query);
  store(gradients.key, dk, a.key);
  store(gradients.value, dv, a.value);
}

}  // namespace

void attention_backward(const Attention& attention, const at::Tensor& grad, const at::Tensor& out,
                        const at::Tensor& logsumexp, const AttentionGradients& gradients) {
  if (attention.query.numel() == 0 || attention.key.numel() == 0) {
    for (const at::Tensor& result : {gradients.query, gradients.key, gradients.value, gradients.bias}) {
      if (result.defined()) result.zero_();
    }
    return;
  }
  const Attention a = prepared(attention);
  if (is_fully_given(a) && !gradients.bias.defined()) {
    return flash_backward(a, grad, out, logsumexp, gradients);
  }
  const at::Tensor wide_grad = widened(grad), p = probabilities(masked_scores(a), logsumexp);
  put(gradients.value, heads_summed(at::matmul(dropped(p, a).transpose(-1, -2), wide_grad), gradients.value.size(1)));
  const at::Tensor by_p = dropped(at::matmul(wide_grad, widened(a.value).transpose(-1, -2)), a);
  const at::Tensor by_score = p * (by_p - (by_p * p).sum(-1, true));
  put(gradients.query, at::matmul(by_score, widened(a.key)).mul_(a.scale));
  put(gradients.key,
      heads_summed(at::matmul(by_score.transpose(-1, -2), widened(a.query)).mul_(a.scale), gradients.key.size(1)));
  if (gradients.bias.defined()) put(gradients.bias, at::sum_to(by_score, gradients.bias.sizes()));
}

}  // namespace softcann::op
