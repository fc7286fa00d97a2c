#include "rt/bulk.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace softcann {
void stream_bytes(void* dst, const void* src, size_t count) {
  auto* to = static_cast<char*>(dst);
  const auto* from = static_cast<const char*>(src);
  const size_t head = std::min<size_t>(count, -reinterpret_cast<uintptr_t>(to) % kLineBytes);
  std::memcpy(to, from, head);
  for (to += head, from += head, count -= head; count >= kLineBytes; to += kLineBytes, from += kLineBytes, count -= kLineBytes) {
    __builtin_prefetch(from + kAheadBytes);
    stream_lines(to, from, 1);
  }
  end_stream();
  std::memcpy(to, from, count);
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
