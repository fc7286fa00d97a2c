#include "op/kernels/attention_few.h"

#include <ATen/Parallel.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>

#include "op/clones.h"
#include "op/vector_math.h"

namespace softcann::op {
namespace {

// Note [Few keys]
// ATen's flash kernels prepare blocks and call a matrix product for each: more than all of the arithmetic of a short
// sequence, or of one new token against the keys of those before it. Such heads are computed row by row, and so are their
// gradients, from the logarithms of the sums that the forward left.
constexpr int64_t few_products = 1 << 16;  // multiply-adds of one product of a head
constexpr int64_t most_few_keys = 1024;
constexpr int64_t rows_worth_packing = 4;
constexpr int64_t most_packed = few_products / rows_worth_packing + most_few_keys;  // numbers, with the rest of the last lanes

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
// result = share * weights @ values.
SOFTCANN_CLONES void add_up(Rows values, const float* weights, int64_t count, int64_t size, float share, float* result) {
  int64_t d = 0;
  for (; d + 2 * head_lanes <= size; d += 2 * head_lanes) {
    HeadLanes low{}, high{};
    for (int64_t j = 0; j < count; ++j) {
      const float* value = values.data + j * values.stride + d;
      low += weights[j] * *reinterpret_cast<const HeadLanes*>(value);
      high += weights[j] * *reinterpret_cast<const HeadLanes*>(value + head_lanes);
    }
    *reinterpret_cast<HeadLanes*>(result + d) = low * share;
    *reinterpret_cast<HeadLanes*>(result + d + head_lanes) = high * share;
  }
  for (; d + head_lanes <= size; d += head_lanes) {
    HeadLanes sums{};
    for (int64_t j = 0; j < count; ++j) sums += weights[j] * *reinterpret_cast<const HeadLanes*>(values.data + j * values.stride + d);
    *reinterpret_cast<HeadLanes*>(result + d) = sums * share;
  }
  for (; d < size; ++d) {
    float sum = 0;
    for (int64_t j = 0; j < count; ++j) sum += weights[j] * values.data[j * values.stride + d];
    result[d] = sum * share;
  }
}
// result = softmax(scores) @ values; scores are used up. Gives the logarithm of the powers' sum.
SOFTCANN_CLONES float attend(Rows values, int64_t count, int64_t size, float* scores, float* result) {
  float largest = -std::numeric_limits<float>::infinity();
  for (int64_t j = 0; j < count; ++j) largest = scores[j] > largest ? scores[j] : largest;  // a NaN makes the sum one
  Lanes totals{}, powers;
  for (int64_t j = 0; j < count; j += lane_count) {
    const int64_t length = std::min(count - j, lane_count);
    load(scores + j, length, -std::numeric_limits<float>::infinity(), powers);
    powers -= largest;
    exponentiate(powers);
    totals += powers;
    std::memcpy(scores + j, &powers, static_cast<size_t>(length) * sizeof(float));
  }
  const float total = sum_of(totals);
  add_up(values, scores, count, size, 1 / total, result);
  return largest + std::log(total);
}
// Of scores become probabilities, of by_probability the gradients of the products behind the scores. What the probabilities
// have in common is taken from these very numbers, not from the output: then rounding cancels as they do.
SOFTCANN_CLONES void differentiate(float* scores, float* by_probability, int64_t count, float logsumexp, float scale) {
  Lanes p, slope, common{};
  for (int64_t j = 0; j < count; j += lane_count) {
    const int64_t length = std::min(count - j, lane_count);
    load(scores + j, length, -std::numeric_limits<float>::infinity(), p);
    load(by_probability + j, length, 0, slope);
    p -= logsumexp;
    exponentiate(p);
    common += p * slope;
    std::memcpy(scores + j, &p, static_cast<size_t>(length) * sizeof(float));
  }
  const float mean = sum_of(common);
  for (int64_t j = 0; j < count; ++j) by_probability[j] = scores[j] * (by_probability[j] - mean) * scale;
}
// rows(j, :) += weights[j] * vector.
SOFTCANN_CLONES void add_multiples(float* rows, int64_t stride, const float* weights, int64_t count, const float* vector, int64_t size) {
  int64_t d = 0;
  for (; d + head_lanes <= size; d += head_lanes) {
    const HeadLanes part = *reinterpret_cast<const HeadLanes*>(vector + d);
    for (int64_t j = 0; j < count; ++j) *reinterpret_cast<HeadLanes*>(rows + j * stride + d) += weights[j] * part;
  }
  for (; d < size; ++d) {
    for (int64_t j = 0; j < count; ++j) rows[j * stride + d] += weights[j] * vector[d];
  }
}
bool suits(const at::Tensor& tensor) { return tensor.scalar_type() == at::kFloat && tensor.stride(-1) == 1; }
bool has_few_keys(const Attention& a) {
  if (a.bias.defined() || a.hidden.defined() || !suits(a.query) || !suits(a.key) || !suits(a.value)) return false;
  const int64_t rows = a.query.size(2), columns = a.key.size(2);
  return columns <= most_few_keys && rows * columns * a.query.size(3) <= few_products;
}
float* head(const at::Tensor& tensor, int64_t batch, int64_t head) {
  return tensor.data_ptr<float>() + batch * tensor.stride(0) + head * tensor.stride(1);
}
Rows rows_of(const at::Tensor& tensor, int64_t batch, int64_t number) { return {head(tensor, batch, number), tensor.stride(2)}; }

// Products of a row with all keys.
class Keys {
 public:
  Keys(Rows keys, int64_t count, int64_t size, bool pack) : keys_(keys), size_(size), packed_here_(pack) {
    if (pack) pack_keys(keys, count, size, width_ = (count + lane_count - 1) / lane_count * lane_count, packed_);
  }
  static bool worth_packing(int64_t rows, int64_t count, int64_t size) {
    return rows >= rows_worth_packing && (count + lane_count - 1) / lane_count * lane_count * size <= most_packed;
  }
  // There is room for whole lanes in `products`.
  void times(const float* row, int64_t count, float scale, float* products) const {
    packed_here_ ? score_packed(row, packed_, count, size_, width_, scale, products) : score_by_key(row, keys_, count, size_, scale, products);
  }

 private:
  Rows keys_;
  int64_t size_, width_ = 0;
  bool packed_here_;
  float packed_[most_packed];
};

template <class Head>
void each_head(const Attention& a, Head&& compute) {
  const int64_t heads = a.query.size(1), products = a.query.size(2) * a.key.size(2) * a.query.size(3);
  at::parallel_for(0, a.query.size(0) * heads, std::max<int64_t>(1, few_products / std::max<int64_t>(1, products)),
                   [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) compute(i / heads, i % heads);
  });
}

}  // namespace

bool attend_few(const Attention& a, const at::Tensor& out, const at::Tensor& logsumexp) {
  if (!has_few_keys(a) || !suits(out) || (logsumexp.defined() && logsumexp.scalar_type() != at::kFloat)) return false;
  const int64_t rows = a.query.size(2), columns = a.key.size(2), size = a.query.size(3);
  each_head(a, [&](int64_t b, int64_t h) {
    const Keys keys(rows_of(a.key, b, h), columns, size, Keys::worth_packing(rows, columns, size));
    const Rows values = rows_of(a.value, b, h);
    float scores[most_few_keys + lane_count];
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t seen = a.causal ? std::min(row + 1, columns) : columns;
      keys.times(head(a.query, b, h) + row * a.query.stride(2), seen, static_cast<float>(a.scale), scores);
      const float sum = attend(values, seen, size, scores, head(out, b, h) + row * out.stride(2));
      if (logsumexp.defined()) head(logsumexp, b, h)[row * logsumexp.stride(2)] = sum;
    }
  });
  return true;
}

bool attend_few_backward(const Attention& a, const at::Tensor& grad, const at::Tensor& logsumexp, const AttentionGradients& gradients) {
  if (!has_few_keys(a) || !suits(grad) || logsumexp.scalar_type() != at::kFloat) return false;
  for (const auto& [result, like] : {std::tie(gradients.query, a.query), std::tie(gradients.key, a.key), std::tie(gradients.value, a.value)}) {
    if (!result.defined() || !suits(result) || result.size(1) != like.size(1)) return false;
  }
  const int64_t rows = a.query.size(2), columns = a.key.size(2), size = a.query.size(3);
  const auto scale = static_cast<float>(a.scale);
  each_head(a, [&](int64_t b, int64_t h) {
    const bool pack = Keys::worth_packing(rows, columns, size);
    const Keys keys(rows_of(a.key, b, h), columns, size, pack), values(rows_of(a.value, b, h), columns, size, pack);
    float *by_key = head(gradients.key, b, h), *by_value = head(gradients.value, b, h);
    for (int64_t j = 0; j < columns; ++j) {
      std::fill_n(by_key + j * gradients.key.stride(2), size, 0.0F);
      std::fill_n(by_value + j * gradients.value.stride(2), size, 0.0F);
    }
    float scores[most_few_keys + lane_count], slopes[most_few_keys + lane_count];
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t seen = a.causal ? std::min(row + 1, columns) : columns;
      const float *query = head(a.query, b, h) + row * a.query.stride(2), *by_out = head(grad, b, h) + row * grad.stride(2);
      keys.times(query, seen, scale, scores);
      values.times(by_out, seen, 1, slopes);
      differentiate(scores, slopes, seen, head(logsumexp, b, h)[row * logsumexp.stride(2)], scale);
      add_up(rows_of(a.key, b, h), slopes, seen, size, 1, head(gradients.query, b, h) + row * gradients.query.stride(2));
      add_multiples(by_key, gradients.key.stride(2), slopes, seen, query, size);
      add_multiples(by_value, gradients.value.stride(2), scores, seen, by_out, size);
    }
  });
  return true;
}

}  // namespace softcann::op
