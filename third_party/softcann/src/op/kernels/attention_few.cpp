#include "op/kernels/attention_few.h"

#include <ATen/Parallel.h>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "op/simd/clones.h"
#include "op/simd/lanes.h"

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

// Probabilities of all keys of a row sum up to one, but for rounding.
constexpr float whole_row = 1 - 1e-5F;
constexpr float nothing = -std::numeric_limits<float>::infinity();

// A matrix of float32 whose rows are dense.
template <class Number>
struct HeadMatrix {
  Number* data;
  int64_t stride;
  [[gnu::always_inline]] Number* operator[](int64_t row) const { return data + row * stride; }
};
using Rows = HeadMatrix<const float>;
using Results = HeadMatrix<float>;

// One head's share of the work.
struct Head {
  Rows query, key, value;
  int64_t rows, columns, size;
  bool causal, pack;
  float scale;
  [[gnu::always_inline]] int64_t seen_by(int64_t row) const { return causal ? std::min(row + 1, columns) : columns; }
};

// What is written here is compiled into each of the clones below.
#define INLINE [[gnu::always_inline]] inline

// packed(d, j) = keys(j, d), with rows of whole lanes, so that sixteen keys are the lanes.
struct Packed {
  float numbers[most_packed];
  int64_t width;
};
INLINE void pack(Rows keys, int64_t count, int64_t size, Packed& packed) {
  packed.width = (count + lane_count - 1) / lane_count * lane_count;
  float* row = packed.numbers;
  for (int64_t d = 0; d < size; ++d, row += packed.width) {
    for (int64_t j = 0; j < count; ++j) row[j] = keys[j][d];
    std::fill(row + count, row + packed.width, 0.0F);
  }
}
INLINE void multiply_packed(const float* query, const Packed& packed, int64_t count, int64_t size, float scale, float* products) {
  for (int64_t j = 0; j < count; j += lane_count) {
    const float* keys = packed.numbers + j;
    Lanes even{}, odd{}, key;
    int64_t d = 0;
    for (; d + 2 <= size; d += 2, keys += 2 * packed.width) {
      load(keys, key);
      even += query[d] * key;
      load(keys + packed.width, key);
      odd += query[d + 1] * key;
    }
    if (d < size) {
      load(keys, key);
      even += query[d] * key;
    }
    store((even + odd) * scale, products + j);
  }
}
INLINE void multiply_by_key(const float* query, Rows keys, int64_t count, int64_t size, float scale, float* products) {
  for (int64_t j = 0; j < count; ++j) {
    const float* key = keys[j];
    HeadLanes sums{};
    int64_t d = 0;
    for (; d + head_lanes <= size; d += head_lanes)
      sums += *reinterpret_cast<const HeadLanes*>(query + d) * *reinterpret_cast<const HeadLanes*>(key + d);
    float sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    for (; d < size; ++d) sum += query[d] * key[d];
    products[j] = sum * scale;
  }
}
// products = scale * keys @ row; there is room for whole lanes, and what the last ones hold beyond `count` is not said.
INLINE void multiply(const float* row, Rows keys, bool packed_here, const Packed& packed, int64_t count, int64_t size,
                     float scale, float* products) {
  packed_here ? multiply_packed(row, packed, count, size, scale, products)
              : multiply_by_key(row, keys, count, size, scale, products);
}
// Lanes from `count` on become `rest`.
INLINE void cut(Lanes& lanes, int64_t count, float rest) {
  constexpr IntLanes number = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  lanes = number < static_cast<int32_t>(count) ? lanes : Lanes{} + rest;
}
// result = share * weights @ values.
INLINE void add_up(Rows values, const float* weights, int64_t count, int64_t size, float share, float* result) {
  int64_t d = 0;
  for (; d + 2 * head_lanes <= size; d += 2 * head_lanes) {
    HeadLanes low{}, high{};
    for (int64_t j = 0; j < count; ++j) {
      const float* value = values[j] + d;
      low += weights[j] * *reinterpret_cast<const HeadLanes*>(value);
      high += weights[j] * *reinterpret_cast<const HeadLanes*>(value + head_lanes);
    }
    *reinterpret_cast<HeadLanes*>(result + d) = low * share;
    *reinterpret_cast<HeadLanes*>(result + d + head_lanes) = high * share;
  }
  for (; d + head_lanes <= size; d += head_lanes) {
    HeadLanes even{}, odd{};
    int64_t j = 0;
    for (; j + 2 <= count; j += 2) {
      even += weights[j] * *reinterpret_cast<const HeadLanes*>(values[j] + d);
      odd += weights[j + 1] * *reinterpret_cast<const HeadLanes*>(values[j + 1] + d);
    }
    if (j < count) even += weights[j] * *reinterpret_cast<const HeadLanes*>(values[j] + d);
    *reinterpret_cast<HeadLanes*>(result + d) = (even + odd) * share;
  }
  for (; d < size; ++d) {
    float sum = 0;
    for (int64_t j = 0; j < count; ++j) sum += weights[j] * values[j][d];
    result[d] = sum * share;
  }
}
// scores become their powers over the largest; gives that and their sum.
INLINE float exponentiate_row(float* scores, int64_t count, float& sum) {
  const int64_t last = (count - 1) / lane_count * lane_count;
  Lanes largest, part;
  load(scores + last, largest);
  cut(largest, count - last, nothing);
  store(largest, scores + last);
  for (int64_t j = 0; j < last; j += lane_count) {
    load(scores + j, part);
    largest = part > largest ? part : largest;
  }
  const float most = largest_of(largest);  // a NaN makes the sum one, whether it is found here or not
  Lanes totals{};
  for (int64_t j = 0; j < count; j += lane_count) {
    load(scores + j, part);
    part -= most;
    exponentiate(part);
    totals += part;
    store(part, scores + j);
  }
  sum = sum_of(totals);
  return most;
}
// Of scores become probabilities, of by_probability the gradients of the products behind the scores. What the probabilities
// have in common is taken from these very numbers, not from the output: then rounding cancels as they do. Where they are a part
// of all, as in a ring of ranks that each hold some keys, only the output knows it.
INLINE void differentiate_row(float* scores, float* by_probability, int64_t count, float logsumexp, float scale, Rows by_out,
                              Rows out, int64_t row, int64_t size) {
  Lanes p, slope, common{}, all{};
  for (int64_t j = 0; j < count; j += lane_count) {
    load(scores + j, p);
    load(by_probability + j, slope);
    cut(p, count - j, nothing);
    cut(slope, count - j, 0);
    p -= logsumexp;
    exponentiate(p);
    common += p * slope;
    all += p;
    store(p, scores + j);
    store(slope, by_probability + j);
  }
  float mean = sum_of(common);
  if (sum_of(all) < whole_row) mean = std::inner_product(by_out[row], by_out[row] + size, out[row], 0.0F);
  for (int64_t j = 0; j < count; j += lane_count) {
    load(scores + j, p);
    load(by_probability + j, slope);
    store(p * (slope - mean) * scale, by_probability + j);
  }
}
// rows(j, :) += weights[j] * vector.
INLINE void add_multiples(Results rows, const float* weights, int64_t count, const float* vector, int64_t size) {
  int64_t d = 0;
  for (; d + head_lanes <= size; d += head_lanes) {
    const HeadLanes part = *reinterpret_cast<const HeadLanes*>(vector + d);
    for (int64_t j = 0; j < count; ++j) *reinterpret_cast<HeadLanes*>(rows[j] + d) += weights[j] * part;
  }
  for (; d < size; ++d) {
    for (int64_t j = 0; j < count; ++j) rows[j][d] += weights[j] * vector[d];
  }
}
#undef INLINE

constexpr int64_t room = most_few_keys + lane_count;

// out = softmax(scores) @ values, row by row; by_row takes the logarithms of the powers' sums, where there is one.
SOFTCANN_CLONES void attend(const Head& head, Results out, Results by_row) {
  Packed packed;
  alignas(Lanes) float scores[room];
  if (head.pack) pack(head.key, head.columns, head.size, packed);
  for (int64_t row = 0; row < head.rows; ++row) {
    const int64_t seen = head.seen_by(row);
    multiply(head.query[row], head.key, head.pack, packed, seen, head.size, head.scale, scores);
    float sum;
    const float largest = exponentiate_row(scores, seen, sum);
    add_up(head.value, scores, seen, head.size, 1 / sum, out[row]);
    if (by_row.data) *by_row[row] = largest + std::log(sum);
  }
}
struct HeadGradients {
  Results query, key, value;
};
SOFTCANN_CLONES void differentiate(const Head& head, Rows by_out, Rows out, Rows logsumexp, const HeadGradients& gradients) {
  Packed keys, values;
  alignas(Lanes) float scores[room], slopes[room];
  if (head.pack) {
    pack(head.key, head.columns, head.size, keys);
    pack(head.value, head.columns, head.size, values);
  }
  for (int64_t j = 0; j < head.columns; ++j) {
    std::fill_n(gradients.key[j], head.size, 0.0F);
    std::fill_n(gradients.value[j], head.size, 0.0F);
  }
  for (int64_t row = 0; row < head.rows; ++row) {
    const int64_t seen = head.seen_by(row);
    multiply(head.query[row], head.key, head.pack, keys, seen, head.size, head.scale, scores);
    multiply(by_out[row], head.value, head.pack, values, seen, head.size, 1, slopes);
    differentiate_row(scores, slopes, seen, *logsumexp[row], head.scale, by_out, out, row, head.size);
    add_up(head.key, slopes, seen, head.size, 1, gradients.query[row]);
    add_multiples(gradients.key, slopes, seen, head.query[row], head.size);
    add_multiples(gradients.value, scores, seen, by_out[row], head.size);
  }
}

bool suits(const at::Tensor& tensor) { return tensor.scalar_type() == at::kFloat && tensor.stride(-1) == 1; }
bool has_few_keys(const Attention& a) {
  if (a.bias.defined() || a.hidden.defined() || !suits(a.query) || !suits(a.key) || !suits(a.value)) return false;
  const int64_t rows = a.query.size(2), columns = a.key.size(2);
  return columns <= most_few_keys && rows * columns * a.query.size(3) <= few_products;
}
bool worth_packing(int64_t rows, int64_t columns, int64_t size) {
  return rows >= rows_worth_packing && (columns + lane_count - 1) / lane_count * lane_count * size <= most_packed;
}

// The matrices of a tensor [batch, heads, rows, ...], one for each head.
template <class Number>
class HeadsOf {
 public:
  explicit HeadsOf(const at::Tensor& tensor)
      : data_(tensor.defined() ? tensor.data_ptr<float>() : nullptr),
        batch_(data_ ? tensor.stride(0) : 0),
        head_(data_ ? tensor.stride(1) : 0),
        row_(data_ ? tensor.stride(2) : 0) {}
  HeadMatrix<Number> of(int64_t batch, int64_t head) const {
    return {data_ ? data_ + batch * batch_ + head * head_ : nullptr, row_};
  }

 private:
  Number* data_;
  int64_t batch_, head_, row_;
};

// Calls compute(head, number of the batch, of the head).
template <class Compute>
void each_head(const Attention& a, Compute&& compute) {
  const int64_t heads = a.query.size(1), rows = a.query.size(2), columns = a.key.size(2), size = a.query.size(3);
  const HeadsOf<const float> query(a.query), key(a.key), value(a.value);
  const int64_t grain = std::max<int64_t>(1, few_products / std::max<int64_t>(1, rows * columns * size));
  const bool pack = worth_packing(rows, columns, size);
  at::parallel_for(0, a.query.size(0) * heads, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t b = i / heads, h = i % heads;
      compute(
          Head{query.of(b, h), key.of(b, h), value.of(b, h), rows, columns, size, a.causal, pack, static_cast<float>(a.scale)}, b,
          h);
    }
  });
}

}  // namespace

bool attend_few(const Attention& a, const at::Tensor& out, const at::Tensor& logsumexp) {
  if (!has_few_keys(a) || !suits(out) || (logsumexp.defined() && logsumexp.scalar_type() != at::kFloat)) return false;
  const HeadsOf<float> results(out), sums(logsumexp);
  each_head(a, [&](const Head& head, int64_t b, int64_t h) { attend(head, results.of(b, h), sums.of(b, h)); });
  return true;
}

bool attend_few_backward(const Attention& a, const at::Tensor& grad, const at::Tensor& out, const at::Tensor& logsumexp,
                         const AttentionGradients& gradients) {
  if (!has_few_keys(a) || !suits(grad) || !suits(out) || logsumexp.scalar_type() != at::kFloat) return false;
  for (const auto& [result, like] :
       {std::tie(gradients.query, a.query), std::tie(gradients.key, a.key), std::tie(gradients.value, a.value)}) {
    if (!result.defined() || !suits(result) || result.size(1) != like.size(1)) return false;
  }
  const HeadsOf<const float> by_out(grad), outs(out), sums(logsumexp);
  const HeadsOf<float> by_query(gradients.query), by_key(gradients.key), by_value(gradients.value);
  each_head(a, [&](const Head& head, int64_t b, int64_t h) {
    differentiate(head, by_out.of(b, h), outs.of(b, h), sums.of(b, h), {by_query.of(b, h), by_key.of(b, h), by_value.of(b, h)});
  });
  return true;
}

}  // namespace softcann::op
