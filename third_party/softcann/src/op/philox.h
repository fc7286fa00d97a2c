// A counter-based random number generator: number i of a stream depends on (seed, offset, i) only, so the result does
// not depend on how the work is split among threads. Philox 4x32 with 10 rounds (Salmon et al., 2011).
#pragma once

#include <cstdint>

namespace softcann::op {

struct PhiloxKey {
  uint64_t seed;
  uint64_t offset;
};

// `out` receives numbers [first, first + count) of the stream; both must be multiples of philox_batch.
constexpr int64_t philox_batch = 64;
void philox(PhiloxKey key, int64_t first, int64_t count, uint32_t* out);

}  // namespace softcann::op
