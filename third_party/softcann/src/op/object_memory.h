// Where descriptors and executors lie: in a range of addresses of their own, so that an address elsewhere is known to be of none.
#pragma once

#include <cstddef>
#include <cstdint>

namespace softcann::op {

struct ObjectRange {
  uintptr_t base = 0;
  size_t size = 0;  // none before the first object; all addresses where the system gives no range
};
extern ObjectRange object_range;

inline bool may_be_object(uintptr_t address) { return address - object_range.base < object_range.size; }

// Memory for an object that stays as long as the process.
void* object_memory(size_t bytes);

}  // namespace softcann::op
