// The softmax of rows of float32 that lie one after the other, also in place. See Note [Softmax of rows].
#pragma once

#include <cstdint>

namespace softcann::op {

void softmax_rows(const float* from, float* to, int64_t rows, int64_t columns);

}  // namespace softcann::op
