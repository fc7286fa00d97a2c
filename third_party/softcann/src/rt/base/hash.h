// FNV-1a: the same text always gets the same number, which is all that is asked of it.
#pragma once

#include <cstdint>
#include <string_view>

namespace softcann {

constexpr uint64_t hash_of(std::string_view text) {
  uint64_t hash = 14695981039346656037ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}

}  // namespace softcann
