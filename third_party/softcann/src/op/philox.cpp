#include "op/philox.h"

#include "op/simd/clones.h"

namespace softcann::op {
namespace {

constexpr int lanes = philox_batch / 4;

// Arrays of lanes, so that the compiler uses vectors.
SOFTCANN_CLONES void batch(uint64_t seed, uint64_t offset, uint64_t first_counter, uint32_t* out) {
  constexpr uint32_t multiplier0 = 0xD2511F53, multiplier1 = 0xCD9E8D57, weyl0 = 0x9E3779B9, weyl1 = 0xBB67AE85;
  uint32_t c0[lanes], c1[lanes], c2[lanes], c3[lanes];
  for (int i = 0; i < lanes; ++i) {
    const uint64_t counter = first_counter + static_cast<uint64_t>(i);
    c0[i] = static_cast<uint32_t>(counter);
    c1[i] = static_cast<uint32_t>(counter >> 32);
    c2[i] = static_cast<uint32_t>(offset);
    c3[i] = static_cast<uint32_t>(offset >> 32);
  }
  auto k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < lanes; ++i) {
      const uint64_t p0 = static_cast<uint64_t>(multiplier0) * c0[i], p1 = static_cast<uint64_t>(multiplier1) * c2[i];
      const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1[i] ^ k0, n2 = static_cast<uint32_t>(p0 >> 32) ^ c3[i] ^ k1;
      c0[i] = n0;
      c1[i] = static_cast<uint32_t>(p1);
      c2[i] = n2;
      c3[i] = static_cast<uint32_t>(p0);
    }
    k0 += weyl0;
    k1 += weyl1;
  }
  for (int i = 0; i < lanes; ++i) {
    out[4 * i] = c0[i];
    out[4 * i + 1] = c1[i];
    out[4 * i + 2] = c2[i];
    out[4 * i + 3] = c3[i];
  }
}

}  // namespace

void philox(PhiloxKey key, int64_t first, int64_t count, uint32_t* out) {
  for (int64_t done = 0; done < count; done += philox_batch) {
    batch(key.seed, key.offset, static_cast<uint64_t>(first + done) / 4, out + done);
  }
}

}  // namespace softcann::op
