#include "transfer/memory_table.h"

#include "rt/runtime.h"

namespace softcann::transfer {

void* MemoryTable::add(uintptr_t begin, uint64_t bytes, hixl::MemType type) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [handle, other] : entries_) {
    if (other.type != type) continue;
    if (other.begin == begin && other.bytes == bytes) return reinterpret_cast<void*>(handle);
    if (begin < other.begin + other.bytes && other.begin < begin + bytes) return nullptr;
  }
  // A handle is never given twice: what was registered later is not found by one that is no longer valid.
  const uintptr_t handle = 0x1000 + ++numbered_;
  entries_.emplace(handle, Entry{begin, bytes, type, numbered_});
  return reinterpret_cast<void*>(handle);
}

bool MemoryTable::has(void* handle) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return entries_.count(reinterpret_cast<uintptr_t>(handle)) != 0;
}

void MemoryTable::remove(void* handle) {
  const std::lock_guard<std::mutex> lock(mutex_);
  entries_.erase(reinterpret_cast<uintptr_t>(handle));
}

uint64_t MemoryTable::last() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return numbered_;
}

std::vector<Piece> MemoryTable::pieces(uint64_t last, size_t most) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<Piece> found;
  for (const auto& [handle, entry] : entries_) {
    if (entry.number <= last && found.size() < most) found.push_back(Piece{entry.begin, entry.bytes});
  }
  return found;
}

bool MemoryTable::find(uintptr_t begin, uint64_t bytes, uint64_t last, hixl::MemType* type) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [handle, entry] : entries_) {
    if (entry.number > last || begin < entry.begin) continue;
    const uint64_t from_begin = begin - entry.begin;
    if (from_begin >= entry.bytes || bytes > entry.bytes - from_begin) continue;
    *type = entry.type;
    return true;
  }
  return false;
}

bool usable_memory(const char* entry, uintptr_t begin, uint64_t bytes, hixl::MemType type) {
  const auto* p = reinterpret_cast<const void*>(begin);
  if (type == hixl::MEM_DEVICE) return check_device_range(p, bytes) == ACL_SUCCESS;
  if (!is_device_pointer(p)) return true;
  fail(static_cast<int>(hixl::PARAM_INVALID), "%s: %p is memory of the device, not of the host", entry, p);
  return false;
}

char* touchable(uintptr_t begin) { return static_cast<char*>(device_view(reinterpret_cast<const void*>(begin))); }

}  // namespace softcann::transfer
