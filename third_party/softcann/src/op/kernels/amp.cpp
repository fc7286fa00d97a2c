// Loss scaling.
#include <cmath>

#include "op/kernel.h"
#include "op/kernels/common.h"

using namespace softcann::op;

OP(aclnnAmpUpdateScale) {
  put(updatedGrowthTracker, growthTracker);
  int& steps = *updatedGrowthTracker.mutable_data_ptr<int>();
  if (foundInf.to(at::kFloat).item<float>() != 0) {
    updatedScale.copy_(currentScale.to(at::kFloat) * static_cast<float>(backoffFactor));
    steps = 0;
    return;
  }
  put(updatedScale, currentScale);
  if (++steps < growthInterval) return;
  // Growing past the largest number of the type would make every later gradient infinite.
  const at::Tensor grown = (currentScale.to(at::kDouble) * growthFactor).to(updatedScale.scalar_type());
  if (std::isfinite(grown.item<double>())) put(updatedScale, grown);
  steps = 0;
}
