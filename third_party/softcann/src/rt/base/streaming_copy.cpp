#include "rt/base/streaming_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__) && defined(__GNUC__)
#define SOFTCANN_STREAMS
#include <immintrin.h>
#endif

// Note [Whole lines]
// What goes past the cache is gathered into lines on its way. Written by one instruction a line is whole at once; by four, others
// may come between, and a fill of 64 MiB takes 1.2 times as long, a copy 1.1 times (Intel Xeon). So both are compiled for
// each width of vector and the widest that the processor has is taken.
namespace softcann {
namespace {

using CopyLines = void (*)(char* dst, const char* src, size_t lines);
using FillLines = void (*)(char* dst, const Pattern& pattern, size_t lines);
struct Stores {
  CopyLines copy;
  FillLines fill;
};

#ifdef SOFTCANN_STREAMS
void copy_sse2(char* dst, const char* src, size_t lines) {
  for (; lines != 0; --lines, dst += kLineBytes, src += kLineBytes) {
    __builtin_prefetch(src + kAheadBytes);
    auto* to = reinterpret_cast<__m128i*>(dst);
    const auto* from = reinterpret_cast<const __m128i*>(src);
    const __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1), c = _mm_loadu_si128(from + 2),
                  d = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, a);
    _mm_stream_si128(to + 1, b);
    _mm_stream_si128(to + 2, c);
    _mm_stream_si128(to + 3, d);
  }
}
void fill_sse2(char* dst, const Pattern& pattern, size_t lines) {
  const __m128i value = _mm_load_si128(reinterpret_cast<const __m128i*>(&pattern));
  for (char* end = dst + lines * kLineBytes; dst != end; dst += sizeof value)
    _mm_stream_si128(reinterpret_cast<__m128i*>(dst), value);
}

[[gnu::target("avx")]] void copy_avx(char* dst, const char* src, size_t lines) {
  for (; lines != 0; --lines, dst += kLineBytes, src += kLineBytes) {
    __builtin_prefetch(src + kAheadBytes);
    auto* to = reinterpret_cast<__m256i*>(dst);
    const auto* from = reinterpret_cast<const __m256i*>(src);
    const __m256i a = _mm256_loadu_si256(from), b = _mm256_loadu_si256(from + 1);
    _mm256_stream_si256(to, a);
    _mm256_stream_si256(to + 1, b);
  }
}
[[gnu::target("avx")]] void fill_avx(char* dst, const Pattern& pattern, size_t lines) {
  const __m256 value = _mm256_broadcast_ps(reinterpret_cast<const __m128*>(&pattern));
  for (char* end = dst + lines * kLineBytes; dst != end; dst += sizeof value)
    _mm256_stream_ps(reinterpret_cast<float*>(dst), value);
}

[[gnu::target("avx512f")]] void copy_avx512(char* dst, const char* src, size_t lines) {
  for (; lines != 0; --lines, dst += kLineBytes, src += kLineBytes) {
    __builtin_prefetch(src + kAheadBytes);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(dst), _mm512_loadu_si512(src));
  }
}
[[gnu::target("avx512f")]] void fill_avx512(char* dst, const Pattern& pattern, size_t lines) {
  const __m512i value = _mm512_maskz_broadcast_i32x4(0xffff, _mm_load_si128(reinterpret_cast<const __m128i*>(&pattern)));
  for (char* end = dst + lines * kLineBytes; dst != end; dst += sizeof value)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(dst), value);
}

const Stores& stores() {
  static const Stores chosen = __builtin_cpu_supports("avx512f") ? Stores{copy_avx512, fill_avx512}
                               : __builtin_cpu_supports("avx")   ? Stores{copy_avx, fill_avx}
                                                                 : Stores{copy_sse2, fill_sse2};
  return chosen;
}
#else
void copy_portable(char* dst, const char* src, size_t lines) {
  for (; lines != 0; --lines, dst += kLineBytes, src += kLineBytes) {
    __builtin_prefetch(src + kAheadBytes);
    std::memcpy(dst, src, kLineBytes);
  }
}
void fill_portable(char* dst, const Pattern& pattern, size_t lines) {
  for (char* end = dst + lines * kLineBytes; dst != end; dst += sizeof pattern) std::memcpy(dst, &pattern, sizeof pattern);
}

const Stores& stores() {
  static const Stores chosen = {copy_portable, fill_portable};
  return chosen;
}
#endif

// Before others are told of what was written.
void end_stream() {
#ifdef SOFTCANN_STREAMS
  _mm_sfence();
#endif
}

// As far as the first line that begins at or after `at`.
size_t before_line(const char* at, size_t count) {
  return std::min<size_t>(count, -reinterpret_cast<uintptr_t>(at) % kLineBytes);
}

}  // namespace

void stream_bytes(void* dst, const void* src, size_t count) {
  auto* to = static_cast<char*>(dst);
  const auto* from = static_cast<const char*>(src);
  const size_t head = before_line(to, count), lines = (count - head) / kLineBytes, whole = head + lines * kLineBytes;
  std::memcpy(to, from, head);
  stores().copy(to + head, from + head, lines);
  end_stream();
  std::memcpy(to + whole, from + whole, count - whole);
}

void copy_bytes(void* dst, const void* src, size_t count) {
  // The C library streams too, from a size on, but by several pages at once, which takes thrice the time where the source has
  // small pages and the two start at different places in theirs.
  count >= kBulkBytes ? stream_bytes(dst, src, count) : static_cast<void>(std::memcpy(dst, src, count));
}

void fill_bytes(void* dst, const Pattern& pattern, size_t count) {
  auto* to = static_cast<char*>(dst);
  // A line starts with a whole pattern, as dst does.
  const size_t head = before_line(to, count), lines = (count - head) / kLineBytes;
  const auto store = [&](size_t at, size_t end) {
    for (; at < end; at += sizeof pattern) std::memcpy(to + at, &pattern, std::min(sizeof pattern, end - at));
  };
  store(0, head);
  stores().fill(to + head, pattern, lines);
  end_stream();
  store(head + lines * kLineBytes, count);
}

}  // namespace softcann
