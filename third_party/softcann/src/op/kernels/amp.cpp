// Loss scaling.
#include <cmath>

#include "op/kernel.h"
#include "op/kernels/common.h"

using namespace softcann::op;

OP(aclnnAmpUpdateScale) {
  put(updatedScale, currentScale);
  put(updatedGrowthTracker, growthTracker);
  float& scale = *updatedScale.mutable_data_ptr<float>();
  int& steps = *updatedGrowthTracker.mutable_data_ptr<int>();
  if (foundInf.item<float>() != 0) {
    scale *= static_cast<float>(backoffFactor);
    steps = 0;
    return;
  }
  if (++steps < growthInterval) return;
  // Growing past the largest float would make every later gradient infinite.
  const auto grown = static_cast<float>(static_cast<double>(scale) * growthFactor);
  if (std::isfinite(grown)) scale = grown;
  steps = 0;
}
