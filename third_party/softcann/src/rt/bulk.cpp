#include "rt/bulk.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace softcann {
namespace {

constexpr size_t kLine = 64;

#ifdef __SSE2__
constexpr size_t kAhead = 1024;  // bytes the source is fetched in advance

// dst is aligned to a line, lines are whole.
void stream_lines(char* dst, const char* src, size_t lines) {
  for (; lines != 0; --lines, dst += kLine, src += kLine) {
    _mm_prefetch(src + kAhead, _MM_HINT_T0);
    __m128i line[kLine / sizeof(__m128i)];
    for (size_t i = 0; i < std::size(line); ++i) line[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src) + i);
    for (size_t i = 0; i < std::size(line); ++i) _mm_stream_si128(reinterpret_cast<__m128i*>(dst) + i, line[i]);
  }
  _mm_sfence();
}
#endif

}  // namespace

void stream_bytes(void* dst, const void* src, size_t count) {
#ifdef __SSE2__
  auto* to = static_cast<char*>(dst);
  const auto* from = static_cast<const char*>(src);
  const size_t head = std::min<size_t>(count, -reinterpret_cast<uintptr_t>(to) % kLine);
  const size_t lines = (count - head) / kLine, done = head + lines * kLine;
  std::memcpy(to, from, head);
  stream_lines(to + head, from + head, lines);
  std::memcpy(to + done, from + done, count - done);
#else
  std::memcpy(dst, src, count);
#endif
}

void copy_bytes(void* dst, const void* src, size_t count) {
  // The C library streams too, from a size on, but by several pages at once, which takes thrice the time where the source has
  // small pages and the two start at different places in theirs.
  count >= kBulkBytes ? stream_bytes(dst, src, count) : static_cast<void>(std::memcpy(dst, src, count));
}

void fill_bytes(void* dst, const Pattern& pattern, size_t count) {
  auto* to = static_cast<char*>(dst);
  const size_t whole = count / sizeof pattern * sizeof pattern;
#ifdef __SSE2__
  const __m128i value = _mm_load_si128(reinterpret_cast<const __m128i*>(&pattern));
  for (size_t at = 0; at < whole; at += sizeof value) _mm_stream_si128(reinterpret_cast<__m128i*>(to + at), value);
  _mm_sfence();
#else
  for (size_t at = 0; at < whole; at += sizeof pattern) std::memcpy(to + at, &pattern, sizeof pattern);
#endif
  std::memcpy(to + whole, &pattern, count - whole);
}

}  // namespace softcann
