// Copies and fills of more bytes than a cache holds.
#pragma once
#include <cstddef>

#include "rt/runtime.h"

namespace softcann {

// From here on the destination bypasses the cache: it would not stay there, and need not be read before it is written.
constexpr size_t kBulkBytes = size_t{16} << 20;

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
