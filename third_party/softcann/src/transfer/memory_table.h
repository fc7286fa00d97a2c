// What an engine has registered.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "hixl/hixl_types.h"
#include "transfer/protocol.h"

namespace softcann::transfer {

class MemoryTable {
 public:
  // The handle, of the earlier call where it is the same memory. Null when it overlaps with other memory of its type.
  void* add(uintptr_t begin, uint64_t bytes, hixl::MemType type);
  bool has(void* handle) const;
  void remove(void* handle);

  // Registrations are numbered; a connection sees those up to the number at the time it was made.
  uint64_t last() const;
  // Those up to that number, at most `most` of them.
  std::vector<Piece> pieces(uint64_t last, size_t most) const;
  // Whether [begin, begin + bytes) lies in one of them, with what type.
  bool find(uintptr_t begin, uint64_t bytes, uint64_t last, hixl::MemType* type) const;

 private:
  struct Entry {
    uintptr_t begin;
    uint64_t bytes;
    hixl::MemType type;
    uint64_t number;
  };
  mutable std::mutex mutex_;
  std::map<uintptr_t, Entry> entries_;  // by handle
  uint64_t numbered_ = 0;
};

// Whether the memory is there as that type; else the reason is recorded. Of the host's no more can be known than that it is not
// the device's.
bool usable_memory(const char* entry, uintptr_t begin, uint64_t bytes, hixl::MemType type);
// Where the bytes may be touched.
char* touchable(uintptr_t begin);

}  // namespace softcann::transfer
