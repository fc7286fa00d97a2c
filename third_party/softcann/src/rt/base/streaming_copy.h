// Copies and fills of more bytes than a cache holds.
#pragma once
#include <cstddef>

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
