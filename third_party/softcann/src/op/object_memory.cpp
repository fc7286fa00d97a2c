#include "op/object_memory.h"

#include <sys/mman.h>

#include <mutex>
#include <new>

namespace softcann::op {

ObjectRange object_range;

namespace {

constexpr size_t range_bytes = size_t{1} << 31, alignment = 64;
std::mutex mutex;
size_t used = 0;

void open_range() {
  void* p = mmap(nullptr, range_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  object_range.base = p == MAP_FAILED ? 0 : reinterpret_cast<uintptr_t>(p);
  object_range.size = p == MAP_FAILED ? SIZE_MAX : range_bytes;
}

}  // namespace

void* object_memory(size_t bytes) {
  const std::lock_guard lock(mutex);
  if (object_range.size == 0) open_range();
  bytes = (bytes + alignment - 1) / alignment * alignment;
  if (object_range.size == range_bytes && used + bytes <= range_bytes) {
    void* memory = reinterpret_cast<void*>(object_range.base + used);
    used += bytes;
    return memory;
  }
  object_range = {0, SIZE_MAX};
  return ::operator new(bytes, std::align_val_t(alignment));
}

}  // namespace softcann::op
