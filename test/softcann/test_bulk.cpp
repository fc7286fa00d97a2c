// Copies and fills past the cache: every byte of the range, none beside it, wherever the range begins.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "harness.h"
#include "rt/base/streaming_copy.h"

namespace {

using softcann::kBulkBytes;
constexpr size_t kMargin = 256;

std::vector<unsigned char> numbers(size_t count) {
  std::vector<unsigned char> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<unsigned char>(i * 2654435761U >> 13);
  return bytes;
}

bool untouched(const std::vector<unsigned char>& bytes, size_t begin, size_t end) {
  const auto zero = [](unsigned char byte) { return byte == 0; };
  return std::all_of(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(begin), zero) &&
         std::all_of(bytes.begin() + static_cast<ptrdiff_t>(end), bytes.end(), zero);
}

}  // namespace

TEST(bulk_copies_what_it_should_and_no_more) {
  const auto source = numbers(kBulkBytes + 3 * kMargin);
  for (const size_t count : {size_t{0}, size_t{100}, kBulkBytes - 1, kBulkBytes, kBulkBytes + 77}) {
    for (const size_t to : {size_t{64}, size_t{65}, size_t{127}}) {
      for (const size_t from : {size_t{0}, size_t{3}}) {
        std::vector<unsigned char> target(count + 2 * kMargin);
        softcann::copy_bytes(target.data() + to, source.data() + from, count);
        EXPECT(std::equal(source.data() + from, source.data() + from + count, target.data() + to));
        EXPECT(untouched(target, to, to + count));
      }
    }
  }
}

TEST(bulk_fills_repeat_the_pattern) {
  softcann::Pattern pattern;
  for (size_t i = 0; i < sizeof pattern; ++i) pattern.bytes[i] = static_cast<unsigned char>(i + 1);
  for (const size_t count : {size_t{0}, size_t{5}, size_t{16}, size_t{1000}, kBulkBytes + 9}) {
    for (size_t place = 0; place < softcann::kLineBytes; place += sizeof pattern) {
      std::vector<unsigned char> target(count + 2 * kMargin);
      const size_t begin = -reinterpret_cast<uintptr_t>(target.data()) % softcann::kLineBytes + place;
      softcann::fill_bytes(target.data() + begin, pattern, count);
      bool equal = true;
      for (size_t i = 0; i < count; ++i) equal = equal && target[begin + i] == i % sizeof pattern + 1;
      EXPECT(equal);
      EXPECT(untouched(target, begin, begin + count));
    }
  }
}
