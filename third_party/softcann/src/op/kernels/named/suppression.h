// Which boxes stay beside better ones.
#pragma once

#include <ATen/core/Tensor.h>
#include <algorithm>

#include "op/named.h"

namespace softcann::op {

// Which of boxes, best first, overlap none of those before them that stay by more than the threshold.
inline std::vector<bool> suppressed(const at::Tensor& ratio, double threshold) {
  const at::Tensor rows = ratio.contiguous();
  const auto count = rows.size(0);
  const auto* values = rows.const_data_ptr<float>();
  std::vector<bool> stays(static_cast<size_t>(count), true);
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < i && stays[i]; ++j) stays[i] = !(stays[j] && values[i * count + j] > threshold);
  }
  return stays;
}

// The numbers of the boxes with a score above `least`, best first; of equal ones the first.
inline Integers by_score(const at::Tensor& scores, double least) {
  const at::Tensor values = scores.to(at::kFloat).contiguous();
  const auto* score = values.const_data_ptr<float>();
  Integers order;
  for (int64_t i = 0; i < values.numel(); ++i) {
    if (score[i] > least) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return score[a] > score[b]; });
  return order;
}

}  // namespace softcann::op
