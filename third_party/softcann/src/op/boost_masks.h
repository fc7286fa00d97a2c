// The masks of ATB's attention that are served, between libatb and the kernels, with ATB's values.
#pragma once

#include <cstdint>

namespace softcann::op {

enum class PagedMask : int64_t { none = 0, norm = 1, alibi = 2, spec = 3, compressed = 5 };
// causal: without a mask tensor, in the functions of C only.
enum class SelfMask : int64_t {
  none = 0,
  norm = 1,
  alibi = 2,
  compressed = 3,
  alibi_compressed = 4,
  alibi_compressed_root = 5,
  causal = 9
};
constexpr int64_t kLatentMaskSpec = 1, kLatentMaskFree = 2;

}  // namespace softcann::op
