#include "rt/memory/window.h"

#include <sys/mman.h>

#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "fault/lifecycle.h"

namespace softcann {

DeviceWindow device_window;

namespace {

// Regions start and end on slot borders, so that an address leads to its region by one array access. 32 MiB keeps the
// array small (2 MiB of address space for 8 TiB) and leaves room for many imports.
constexpr size_t kSlotBytes = size_t{32} << 20;
#if defined(__SANITIZE_THREAD__)
constexpr size_t kLargestWindow = size_t{1} << 37;  // TSan leaves 1.5 TiB of address space to all mappings
#else
constexpr size_t kLargestWindow = size_t{1} << 43;
#endif
constexpr size_t kSmallestWindow = size_t{1} << 33;

struct Window {
  std::mutex mutex;
  std::map<size_t, size_t> free;  // first slot -> number of slots
  std::atomic<Region*>* slots = nullptr;
  std::deque<Region> regions;
  std::vector<Region*> unused;
};

Window& window() {
  static auto* instance = new Window;
  return *instance;
}

void* reserve(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  // Hundreds of terabytes of nothing do not belong into a core file.
  madvise(p, bytes, MADV_DONTDUMP);
  return p;
}

size_t slots_of(size_t bytes) { return (bytes + kSlotBytes - 1) / kSlotBytes; }

// First fit. A whole free range is cut at its front; `wanted` cuts one out of the middle.
bool take_slots(Window& w, size_t count, size_t wanted, size_t* first) {
  for (auto it = w.free.begin(); it != w.free.end(); ++it) {
    const size_t begin = it->first, end = begin + it->second;
    const size_t at = wanted >= begin && wanted < end ? wanted : begin;
    if (wanted != SIZE_MAX && at != wanted) continue;
    if (end - at < count) continue;
    w.free.erase(it);
    if (at > begin) w.free[begin] = at - begin;
    if (at + count < end) w.free[at + count] = end - at - count;
    *first = at;
    return true;
  }
  return false;
}

void give_slots(Window& w, size_t first, size_t count) {
  auto next = w.free.lower_bound(first);
  if (next != w.free.end() && next->first == first + count) {
    count += next->second;
    next = w.free.erase(next);
  }
  if (next != w.free.begin()) {
    auto previous = std::prev(next);
    if (previous->first + previous->second == first) {
      previous->second += count;
      return;
    }
  }
  w.free[first] = count;
}

}  // namespace

bool open_window() {
  Window& w = window();
  std::lock_guard<std::mutex> lock(w.mutex);
  if (w.slots != nullptr) return true;
  for (size_t bytes = kLargestWindow; bytes >= kSmallestWindow; bytes /= 2) {
    // One reservation for both halves, so that the distance is the size and nothing can get in between.
    void* p = reserve(2 * bytes + kSlotBytes);
    if (p == nullptr) continue;
    void* table = mmap(nullptr, bytes / kSlotBytes * sizeof(void*), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED) return false;
    const uintptr_t begin = (reinterpret_cast<uintptr_t>(p) + kSlotBytes - 1) / kSlotBytes * kSlotBytes;
    w.slots = static_cast<std::atomic<Region*>*>(table);
    w.free[0] = bytes / kSlotBytes;
    device_window.base.store(begin, std::memory_order_relaxed);
    device_window.delta.store(bytes, std::memory_order_relaxed);
    device_window.size.store(bytes, std::memory_order_release);
    return true;
  }
  return false;
}

Region* add_region(Region::Kind kind, size_t size, int device, void* owner, void* expected) {
  Window& w = window();
  std::lock_guard<std::mutex> lock(w.mutex);
  const uintptr_t base = device_window.base.load(std::memory_order_relaxed);
  size_t wanted = SIZE_MAX;
  if (expected != nullptr) {
    const uintptr_t offset = reinterpret_cast<uintptr_t>(expected) - base;
    if (offset >= device_window.size.load(std::memory_order_relaxed) || offset % kSlotBytes != 0) return nullptr;
    wanted = offset / kSlotBytes;
  }
  size_t first = 0;
  if (size == 0 || !take_slots(w, slots_of(size), wanted, &first)) return nullptr;
  if (w.unused.empty()) w.unused.push_back(&w.regions.emplace_back());
  Region* region = w.unused.back();
  w.unused.pop_back();
  *region = Region{kind, device, base + first * kSlotBytes, size, owner};
  for (size_t i = 0; i < slots_of(size); ++i) w.slots[first + i].store(region, std::memory_order_release);
  return region;
}

void remove_region(Region* region) {
  Window& w = window();
  std::lock_guard<std::mutex> lock(w.mutex);
  unmap_view(region->begin, slots_of(region->size) * kSlotBytes);
  const size_t first = (region->begin - device_window.base.load(std::memory_order_relaxed)) / kSlotBytes;
  for (size_t i = 0; i < slots_of(region->size); ++i) w.slots[first + i].store(nullptr, std::memory_order_release);
  give_slots(w, first, slots_of(region->size));
  w.unused.push_back(region);
}

Region* find_region(const void* client_address) {
  const uintptr_t offset = reinterpret_cast<uintptr_t>(client_address) - device_window.base.load(std::memory_order_relaxed);
  if (offset >= device_window.size.load(std::memory_order_acquire)) return nullptr;
  Region* region = window().slots[offset / kSlotBytes].load(std::memory_order_acquire);
  if (region == nullptr || reinterpret_cast<uintptr_t>(client_address) - region->begin >= region->size) return nullptr;
  return region;
}

bool map_view(uintptr_t client, size_t size, int fd, uint64_t offset) {
  void* at = device_view(reinterpret_cast<void*>(client));
  if (SOFTCANN_FAULT_POINT(mmap)) return false;
  void* p = mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, static_cast<off_t>(offset));
  if (p == MAP_FAILED) return false;
  madvise(p, size, MADV_DONTDUMP);
  // Takes effect only where the kernel grants huge pages to shared memory (shmem_enabled advise or within_size).
  madvise(p, size, MADV_HUGEPAGE);
  return true;
}

bool unmap_view(uintptr_t client, size_t size) {
  memory_epoch.fetch_add(1, std::memory_order_acq_rel);
  void* at = device_view(reinterpret_cast<void*>(client));
  return mmap(at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

}  // namespace softcann
