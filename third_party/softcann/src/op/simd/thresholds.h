// From which size on a path of our own is taken: the table thresholds.def. Built with SOFTCANN_TUNABLE, libopapi has them as
// variables, which benchmarks/thresholds.py finds by softcann_threshold(name).
#pragma once

#include <cstdint>

namespace softcann::op::threshold {

#ifdef SOFTCANN_TUNABLE
#define THRESHOLD(name, value, unit, what) inline int64_t name = value;
#else
#define THRESHOLD(name, value, unit, what) inline constexpr int64_t name = value;
#endif
#include "op/simd/thresholds.def"
#undef THRESHOLD

}  // namespace softcann::op::threshold
