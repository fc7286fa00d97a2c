// Copies and fills of more bytes than a cache holds.
#pragma once
#include <cstddef>
#include <cstring>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "rt/runtime.h"

namespace softcann {

// From here on the destination bypasses the cache: it would not stay there, and need not be read before it is written.
constexpr size_t kBulkBytes = size_t{16} << 20;

// Note [Fetching ahead]
// Processors follow a sequence of addresses to the end of its page (4 KiB) and wait for memory again at the start of the next.
// Loops over large ranges ask for the lines this far ahead themselves, one for each that they use: more at once than the
// processor can wait for would stop it. What two ranks have, 64 MiB, is added into a third place in 0.8 of the time (Intel Xeon).
constexpr size_t kLineBytes = 64;
constexpr size_t kAheadBytes = 4096;

// Whole lines past the cache, to a place that is aligned to one. Others may be told of them after end_stream().
inline void stream_lines(void* dst, const void* src, size_t lines) {
#ifdef __SSE2__
  auto* to = static_cast<__m128i*>(dst);
  const auto* from = static_cast<const __m128i*>(src);
  constexpr size_t parts = kLineBytes / sizeof(__m128i);
  for (; lines != 0; --lines, to += parts, from += parts) {
    const __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1), c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, a);
    _mm_stream_si128(to + 1, b);
    _mm_stream_si128(to + 2, c);
    _mm_stream_si128(to + 3, d);
  }
#else
  std::memcpy(dst, src, lines * kLineBytes);
#endif
}
inline void end_stream() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

// As memcpy: the ranges do not overlap.
SOFTCANN_API void copy_bytes(void* dst, const void* src, size_t count);

// The same past the cache whatever the size: for the pieces of something large.
SOFTCANN_API void stream_bytes(void* dst, const void* src, size_t count);

// Repeats the pattern, which starts anew at dst. dst is aligned to 16.
struct alignas(16) Pattern {
  unsigned char bytes[16];
};
SOFTCANN_API void fill_bytes(void* dst, const Pattern& pattern, size_t count);

}  // namespace softcann
