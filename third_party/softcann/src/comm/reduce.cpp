#include "comm/reduce.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "comm/control.h"
#include "rt/base/half.h"
#include "rt/base/streaming_copy.h"

namespace softcann {
namespace {

struct Half {
  uint16_t bits;
};
struct Bfloat {
  uint16_t bits;
};
__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 UInt128;

// The type in which sums and products of T wrap around instead of being undefined.
template <class T>
struct Wrapping {
  using type = std::conditional_t<(sizeof(T) < sizeof(uint32_t)), uint32_t, std::make_unsigned_t<T>>;
};
template <>
struct Wrapping<float> {
  using type = float;
};
template <>
struct Wrapping<double> {
  using type = double;
};
template <>
struct Wrapping<Int128> {
  using type = UInt128;
};

using Kernel = void (*)(const char* const* from, uint32_t sources, char* const* to, uint32_t targets, uint64_t count);

// The results are more than a cache holds, in whole lines, and none lies where a source does, whose lines would be in the
// cache anyway.
bool is_bulk(const char* const* from, uint32_t sources, char* const* to, uint32_t targets, uint64_t bytes) {
  if (bytes < kBulkBytes) return false;
  return std::none_of(to, to + targets, [&](const char* target) {
    return reinterpret_cast<uintptr_t>(target) % kLineBytes != 0 || std::find(from, from + sources, target) != from + sources;
  });
}

namespace portable {
#include "comm/reduce_kernels.inl"
}

// Everything the kernels use is declared above: what a header defines must not be compiled for one instruction set.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define SOFTCANN_AVX2
#pragma GCC push_options
#pragma GCC target("avx2,f16c")
namespace avx2 {
#include "comm/reduce_kernels.inl"
}
#pragma GCC pop_options
#endif

Kernel find_kernel(HcclDataType type, HcclReduceOp op) {
#ifdef SOFTCANN_AVX2
  static const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  if (has_avx2) return avx2::find_kernel(type, op);
#endif
  return portable::find_kernel(type, op);
}

}  // namespace

bool can_reduce(HcclDataType type) { return portable::find_kernel(type, HCCL_REDUCE_SUM) != nullptr; }

void reduce(HcclDataType type, HcclReduceOp op, const char* const* from, uint32_t sources, char* const* to, uint32_t targets,
            uint64_t count) {
  if (sources > 1) return find_kernel(type, op)(from, sources, to, targets, count);
  for (uint32_t j = 0; j < targets; ++j) {
    if (count != 0 && to[j] != from[0]) std::memmove(to[j], from[0], count * bytes_of(type));
  }
}

}  // namespace softcann
