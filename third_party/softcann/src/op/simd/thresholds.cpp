#include "op/simd/thresholds.h"

#ifdef SOFTCANN_TUNABLE
#include <string_view>

// The variable of that name in thresholds.def; null for others.
extern "C" [[gnu::visibility("default")]] int64_t* softcann_threshold(const char* name) {
#define THRESHOLD(known, value, unit, what) \
  if (std::string_view(name) == #known) return &softcann::op::threshold::known;
#include "op/simd/thresholds.def"
#undef THRESHOLD
  return nullptr;
}
#endif
