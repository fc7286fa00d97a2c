// Checks for faults that nothing else notices: of a value against those of the steps before.
#include <algorithm>
#include <cmath>

#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/named.h"

using namespace softcann::op;

namespace {

// Note [Levels of a fault]
// 1 a fault that is certain, 2 one that is likely, 0 none. A certain one sets the gradient to 0, so that it does not spread, and
// leaves the state alone, unless the client only wants to know (npuAsdDetect 1).
float first_of(const at::Tensor& tensor) { return tensor.reshape({-1})[0].item<float>(); }
int level_of(bool certain, bool likely) { return certain ? 1 : likely ? 2 : 0; }

// `jump`: how far the value is from the one before, in units of the range so far.
bool over(float value, float jump, float limit, float coefficient) {
  return !std::isfinite(value) || value > limit || jump > coefficient;
}

}  // namespace

OP(aclnnSilentCheck) {
  const float value = first_of(val);
  at::Tensor& state = writable(sfdaRef);  // the value before, the least and the greatest
  const float before = state[0].item<float>(), low = state[1].item<float>(), high = state[2].item<float>();
  const int64_t steps = stepRef.reshape({-1})[0].item<int64_t>();
  const float jump = steps >= cMinSteps && high > low ? std::abs(value - before) / (high - low) : 0;
  const bool certain = over(value, jump, cThreshL1, cCoeffL1), likely = over(value, jump, cThreshL2, cCoeffL2);
  writable(result).fill_(level_of(certain, likely));
  if (certain && npuAsdDetect != 1) {
    writable(inputGradRef).zero_();
    return;
  }
  state[0].fill_(value);
  state[1].fill_(steps == 0 ? value : std::min(low, value));
  state[2].fill_(steps == 0 ? value : std::max(high, value));
  writable(stepRef).add_(1);
}

// Markov's inequality bounds how often a value is far above the average of those before.
OP(aclnnSilentCheckV2) {
  const float value = first_of(val), average = first_of(avgRef);
  const int64_t steps = stepRef.reshape({-1})[0].item<int64_t>();
  const float expected = steps > 0 ? average / std::max(1 - std::pow(beta1, static_cast<float>(steps)), 1e-30F) : average;
  const bool certain = !std::isfinite(value) || value > expected * cThreshL1;
  writable(result).fill_(level_of(certain, value > expected * cThreshL2));
  if (certain && npuAsdDetect != 1) {
    writable(inputGradRef).zero_();
    return;
  }
  writable(avgRef).fill_(beta1 * average + (1 - beta1) * value);
  writable(stepRef).add_(1);
}

// Whether c can be a @ b, by checksums of 256 columns each: a bit for each row, the lowest first, 1 correct; bits behind the last
// row are 1.
OP(aclnnMatmulAbftVerify) {
  constexpr int64_t segment = 256;
  const at::Tensor left = widened(a), right = widened(b), product = widened(c), weight = widened(checksumWeight).reshape({-1});
  const int64_t rows = c.size(0), columns = c.size(1);
  const at::Tensor bytes_out = compRow.view({(columns + segment - 1) / segment, (rows + 7) / 8});
  const at::Tensor powers = at::ones({8}, at::kLong).bitwise_left_shift(at::arange(8, at::kLong));
  for (int64_t first = 0, i = 0; first < columns; first += segment, ++i) {
    const int64_t end = std::min(first + segment, columns);
    const at::Tensor w = weight.slice(0, first, end), part = right.slice(1, first, end);
    const at::Tensor found = at::matmul(product.slice(1, first, end), w), expected = at::matmul(left, at::matmul(part, w));
    const at::Tensor size = at::matmul(left.abs(), at::matmul(part.abs(), w.abs()));
    const at::Tensor good = ((found - expected).abs() <= size * eMax).logical_and(found.isfinite()).to(at::kLong);
    put(bytes_out[i], (at::constant_pad_nd(good, {0, bytes_out.size(1) * 8 - rows}, 1).view({-1, 8}) * powers).sum({-1}));
  }
}

// By name, with a state in single numbers: the value, the gradient, the value before, the least, the greatest, the steps so far;
// the gradient, the value before, the least, the greatest and the level.
NAMED(SilentCheck) {
  const float value = first_of(call.in(0)), before = first_of(call.in(2)), low = first_of(call.in(3)),
              high = first_of(call.in(4));
  const auto steps = static_cast<int64_t>(call.number(5));
  const float jump =
      steps >= call.attribute<int64_t>("c_min_steps", 0) && high > low ? std::abs(value - before) / (high - low) : 0;
  const auto faulty = [&](const char* limit, const char* coefficient) {
    return over(value, jump, call.attribute(limit, 0.0F), call.attribute(coefficient, 0.0F));
  };
  const bool certain = faulty("c_thresh_l1", "c_coeff_l1"), likely = faulty("c_thresh_l2", "c_coeff_l2");
  put(call.out(0), certain ? at::zeros_like(call.in(1)) : call.in(1));
  const float now[] = {certain ? before : value,
                       certain      ? low
                       : steps == 0 ? value
                                    : std::min(low, value),
                       certain      ? high
                       : steps == 0 ? value
                                    : std::max(high, value)};
  for (size_t i = 0; i < 3; ++i) put(call.out(i + 1), at::full(call.out(i + 1).sizes(), now[i]));
  put(call.out(4), at::full(call.out(4).sizes(), level_of(certain, likely), at::kInt));
}

namespace {

double compared_cost(const at::Tensor& golden, const at::Tensor& real) {
  if (given(golden) && given(real) && (golden.sizes() != real.sizes() || golden.scalar_type() != real.scalar_type()))
    invalid("aclnnPrecisionCompare: golden and realdata differ in size or type");
  return bytes(golden);
}

}  // namespace

// 0 where all elements are the same, 503 where one is not; NaN is NaN.
OP_COST(aclnnPrecisionCompare, compared_cost(golden, realdata)) {
  const at::Tensor same = golden.eq(realdata).logical_or(golden.isnan().logical_and(realdata.isnan()));
  put(out, at::where(same.all(), 0, 503));
}
