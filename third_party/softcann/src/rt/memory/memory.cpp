#include "rt/memory/memory.h"

#include <map>
#include <shared_mutex>

#include "rt/memory/check.h"
#include "rt/exchange.h"
#include "rt/memory/quarantine.h"

namespace softcann {

std::atomic<uint64_t> memory_epoch{0};

namespace {

struct PinnedRange {
  size_t size;
  bool registered;     // by aclrtHostRegister, not allocated by aclrtMallocHost
  uintptr_t mapped;    // the part that the device sees: where it starts,
  size_t mapped_size;  // and its bytes, none where it sees nothing
};

struct Pinned {
  std::shared_mutex mutex;
  std::map<uintptr_t, PinnedRange> ranges;
};

Pinned& pinned() {
  static auto* instance = new Pinned;
  return *instance;
}

// The live memory around a device address: where it starts (a client address) and how long it is.
bool find_memory(const Region& region, uintptr_t address, uintptr_t* begin, uint64_t* size) {
  uint64_t start = 0;
  bool found = true;
  if (region.kind == Region::Kind::kArena) {
    found = static_cast<Device*>(region.owner)->arena.find(address - region.begin, &start, size);
  } else if (region.kind == Region::Kind::kReserved) {
    found = reservation_piece(region.owner, address - region.begin, &start, size);
  } else {
    *size = region.size;
  }
  *begin = region.begin + start;
  return found && !(check::on(check::kMemory) && check::rests(*begin));
}

aclError wrong_kind(const char* entry, const char* which, const void* p, bool device) {
  return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: the %s %p is %s memory, which does not fit the kind of the copy", entry, which, p,
              device ? "device" : "host");
}

}  // namespace

namespace {

// The piece around `p`, with the lock held.
std::map<uintptr_t, PinnedRange>::iterator around(Pinned& all, const void* p) {
  const auto address = reinterpret_cast<uintptr_t>(p);
  auto it = all.ranges.upper_bound(address);
  if (it == all.ranges.begin()) return all.ranges.end();
  --it;
  return address - it->first < it->second.size ? it : all.ranges.end();
}

}  // namespace

bool find_pinned(const void* p, uintptr_t* begin, size_t* size) {
  Pinned& all = pinned();
  std::shared_lock<std::shared_mutex> lock(all.mutex);
  const auto it = around(all, p);
  if (it == all.ranges.end()) return false;
  *begin = it->first;
  *size = it->second.size;
  return true;
}

void add_pinned(const void* p, size_t size, bool registered) {
  std::unique_lock<std::shared_mutex> lock(pinned().mutex);
  const auto begin = reinterpret_cast<uintptr_t>(p);
  pinned().ranges[begin] = PinnedRange{size, registered, begin, registered ? size : 0};
}

size_t remove_pinned(const void* p, bool registered) {
  std::unique_lock<std::shared_mutex> lock(pinned().mutex);
  auto it = pinned().ranges.find(reinterpret_cast<uintptr_t>(p));
  if (it == pinned().ranges.end() || it->second.registered != registered) return 0;
  const size_t size = it->second.size;
  if (it->second.mapped_size != 0) memory_epoch.fetch_add(1, std::memory_order_acq_rel);
  pinned().ranges.erase(it);
  return size;
}

bool map_pinned(const void* p, size_t bytes) {
  Pinned& all = pinned();
  std::unique_lock<std::shared_mutex> lock(all.mutex);
  const auto it = around(all, p);
  const auto address = reinterpret_cast<uintptr_t>(p);
  if (it == all.ranges.end() || it->second.mapped_size != 0 || bytes > it->second.size - (address - it->first)) return false;
  it->second.mapped = address;
  it->second.mapped_size = bytes;
  return true;
}

bool unmap_pinned(const void* p) {
  Pinned& all = pinned();
  std::unique_lock<std::shared_mutex> lock(all.mutex);
  const auto it = around(all, p);
  if (it == all.ranges.end() || it->second.mapped_size == 0 || it->second.registered ||
      it->second.mapped != reinterpret_cast<uintptr_t>(p)) {
    return false;
  }
  it->second.mapped_size = 0;
  memory_epoch.fetch_add(1, std::memory_order_acq_rel);
  return true;
}

bool is_mapped(const void* p, size_t bytes, uintptr_t* begin, size_t* size) {
  Pinned& all = pinned();
  std::shared_lock<std::shared_mutex> lock(all.mutex);
  const auto it = around(all, p);
  if (it == all.ranges.end()) return false;
  *begin = it->second.mapped;
  *size = it->second.mapped_size;
  const size_t offset = reinterpret_cast<uintptr_t>(p) - *begin;  // huge before its start
  return offset < *size && bytes <= *size - offset;
}

int device_of(const void* p) {
  const Region* region = find_region(p);
  uintptr_t begin = 0;
  uint64_t size = 0;
  if (region == nullptr || !find_memory(*region, reinterpret_cast<uintptr_t>(p), &begin, &size)) return -1;
  return region->device;
}

bool live_memory(const void* p, size_t bytes, uintptr_t* begin, size_t* size) {
  const Region* region = find_region(p);
  const auto address = reinterpret_cast<uintptr_t>(p);
  if (region == nullptr) return is_mapped(p, bytes, begin, size);
  if (!find_memory(*region, address, begin, size)) return false;
  if (bytes <= *size && address - *begin <= *size - bytes) return true;
  // Mapped pieces of one reservation may follow each other without a gap; together they are one range.
  if (region->kind != Region::Kind::kReserved || !reservation_is_mapped(region->owner, address - region->begin, bytes))
    return false;
  *begin = address;
  *size = bytes;
  return true;
}

aclError check_device_range(const void* p, size_t bytes) {
  const Region* region = find_region(p);
  const auto address = reinterpret_cast<uintptr_t>(p);
  uintptr_t begin = 0;
  uint64_t size = 0;
  if (size_t length = 0; region == nullptr && is_mapped(p, bytes, &begin, &length)) return ACL_SUCCESS;
  if (region == nullptr || !find_memory(*region, address, &begin, &size)) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "device address %p is not allocated (freed, or never allocated)", p);
  }
  // Mapped pieces of one reservation may follow each other without a gap; together they are one range.
  if (region->kind == Region::Kind::kReserved && reservation_is_mapped(region->owner, address - region->begin, bytes)) {
    return ACL_SUCCESS;
  }
  if (bytes > size || address - begin > size - bytes) {
    return fail(ACL_ERROR_RT_PARAM_INVALID,
                "%zu bytes from device address %p reach beyond their allocation, which has %llu bytes from %p", bytes, p,
                static_cast<unsigned long long>(size), reinterpret_cast<void*>(begin));
  }
  return ACL_SUCCESS;
}

bool device_memory(int device, DeviceMemory* memory) {
  const Device* d = find_device(device);
  if (d == nullptr) return false;
  *memory = DeviceMemory{d->memory_fd, d->arena.capacity(), static_cast<char*>(device_view(reinterpret_cast<void*>(d->base())))};
  return true;
}

bool locate(const void* p, size_t bytes, int* device, uint64_t* offset) {
  const Region* region = find_region(p);
  if (region == nullptr) return false;
  const uint64_t at = reinterpret_cast<uintptr_t>(p) - region->begin;
  if (region->kind == Region::Kind::kArena) {
    *device = region->device;
    *offset = at;
    return bytes <= region->size - at;
  }
  Device* owner = nullptr;
  if (region->kind != Region::Kind::kReserved || !reservation_place(region->owner, at, bytes, &owner, offset)) {
    return false;
  }
  *device = owner->id;
  return true;
}

aclError check_copy(const char* entry, void** dst, size_t dest_max, const void** src, size_t count, aclrtMemcpyKind kind) {
  if (*dst == nullptr || *src == nullptr) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: the %s is a null pointer", entry, *dst == nullptr ? "destination" : "source");
  }
  if (count > dest_max) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %zu bytes are to be copied to a destination of %zu", entry, count, dest_max);
  }
  const bool to_device = is_device_pointer(*dst), from_device = is_device_pointer(*src);
  if (kind != ACL_MEMCPY_DEFAULT) {
    const bool wants_to = kind != ACL_MEMCPY_HOST_TO_HOST && kind != ACL_MEMCPY_DEVICE_TO_HOST;
    const bool wants_from = kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_DEVICE_TO_DEVICE ||
                            kind == ACL_MEMCPY_INNER_DEVICE_TO_DEVICE || kind == ACL_MEMCPY_INTER_DEVICE_TO_DEVICE;
    if (kind < ACL_MEMCPY_HOST_TO_HOST || kind > ACL_MEMCPY_INTER_DEVICE_TO_DEVICE) {
      return fail(ACL_ERROR_INVALID_PARAM, "%s: unknown kind of copy %d", entry, static_cast<int>(kind));
    }
    uintptr_t begin = 0;
    size_t size = 0;
    if (wants_to != to_device && !(wants_to && is_mapped(*dst, count, &begin, &size))) {
      return wrong_kind(entry, "destination", *dst, to_device);
    }
    if (wants_from != from_device && !(wants_from && is_mapped(*src, count, &begin, &size))) {
      return wrong_kind(entry, "source", *src, from_device);
    }
  }
  if (to_device) {
    if (const aclError code = check_device_range(*dst, count)) return code;
    *dst = device_view(*dst);
  }
  if (from_device) {
    if (const aclError code = check_device_range(*src, count)) return code;
    *src = device_view(*src);
  }
  return ACL_SUCCESS;
}

}  // namespace softcann
