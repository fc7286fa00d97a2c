// Checks for faults that nothing else notices: of a value against those of the steps before.
#include <algorithm>
#include <cmath>

#include "op/kernel.h"
#include "op/kernels/common.h"

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
