// Reserved addresses, physical memory, and the mapping of one to the other.
#include <unistd.h>

#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "rt/memory/memory.h"
#include "rt/memory/physical.h"
#include "rt/profile/collector.h"

using namespace softcann;

namespace softcann {

// An address range of a client. Pieces are client offsets that are mapped, with what is behind them.
struct Reservation {
  struct Piece {
    uint64_t size;
    Physical* physical;
    uint64_t place;                                       // in the memory file
    std::map<std::pair<int, uint32_t>, uint64_t> access;  // aclrtMemAccessFlags, by kind of place and its number
  };
  Region* region = nullptr;
  std::mutex mutex;
  std::map<uint64_t, Piece> pieces;

  // The piece around `offset`, or end().
  std::map<uint64_t, Piece>::iterator find(uint64_t offset) {
    auto it = pieces.upper_bound(offset);
    if (it == pieces.begin()) return pieces.end();
    --it;
    return offset - it->first < it->second.size ? it : pieces.end();
  }
};

bool reservation_piece(void* reservation, uint64_t offset, uint64_t* start, uint64_t* size) {
  auto* r = static_cast<Reservation*>(reservation);
  std::lock_guard<std::mutex> lock(r->mutex);
  auto it = r->find(offset);
  if (it == r->pieces.end()) return false;
  *start = it->first;
  *size = it->second.size;
  return true;
}

bool reservation_is_mapped(void* reservation, uint64_t offset, uint64_t bytes) {
  auto* r = static_cast<Reservation*>(reservation);
  std::lock_guard<std::mutex> lock(r->mutex);
  auto it = r->find(offset);
  uint64_t reached = offset;
  while (it != r->pieces.end() && it->first <= reached && reached < offset + bytes) {
    reached = it->first + it->second.size;
    ++it;
  }
  return reached >= offset + bytes;
}

bool reservation_place(void* reservation, uint64_t offset, uint64_t bytes, Device** device, uint64_t* place) {
  auto* r = static_cast<Reservation*>(reservation);
  std::lock_guard<std::mutex> lock(r->mutex);
  auto it = r->find(offset);
  if (it == r->pieces.end() || !it->second.physical->owned) return false;
  *device = it->second.physical->device;
  const uint64_t start = it->second.place - it->first;  // what an offset grows by to be a place
  uint64_t reached = offset;
  while (it != r->pieces.end() && it->first <= reached && reached < offset + bytes) {
    const Reservation::Piece& piece = it->second;
    if (!piece.physical->owned || piece.physical->device != *device || piece.place - it->first != start) return false;
    reached = it->first + piece.size;
    ++it;
  }
  *place = start + offset;
  return reached >= offset + bytes;
}

namespace {

// Handles that clients hold.
struct Handles {
  std::mutex mutex;
  std::unordered_map<void*, int> alive;  // and how often the client was given it
};

Handles& handles() {
  static auto* instance = new Handles;
  return *instance;
}

}  // namespace

aclrtDrvMemHandle Physical::to_handle() {
  std::lock_guard<std::mutex> lock(handles().mutex);
  ++handles().alive[this];
  return this;
}

Physical* Physical::from_handle(aclrtDrvMemHandle handle, const char* entry, aclError* error) {
  std::lock_guard<std::mutex> lock(handles().mutex);
  if (handles().alive.count(handle) == 0) {
    *error = fail(handle == nullptr ? ACL_ERROR_INVALID_PARAM : ACL_ERROR_RT_INVALID_HANDLE,
                  "%s: memory handle %p does not exist", entry, handle);
    return nullptr;
  }
  auto* physical = static_cast<Physical*>(handle);
  physical->references.fetch_add(1, std::memory_order_relaxed);
  return physical;
}

bool Physical::forget_handle() {
  std::lock_guard<std::mutex> lock(handles().mutex);
  const auto found = handles().alive.find(this);
  if (found == handles().alive.end()) return false;
  if (--found->second == 0) handles().alive.erase(found);
  return true;
}

void Physical::release() {
  if (references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (owned) {
    device->arena.release(offset);
  } else {
    close(fd);
  }
  delete this;
}

}  // namespace softcann

namespace {

constexpr uint64_t kGranularity = uint64_t{2} << 20;

Reservation* reservation_of(const void* p) {
  Region* region = find_region(p);
  return region != nullptr && region->kind == Region::Kind::kReserved ? static_cast<Reservation*>(region->owner) : nullptr;
}

aclError check_property(const char* entry, const aclrtPhysicalMemProp* prop) {
  SOFTCANN_REQUIRE(prop, "prop");
  if (prop->location.type != ACL_MEM_LOCATION_TYPE_DEVICE) {
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s: memory of location type %d is not supported, only of a device", entry,
                static_cast<int>(prop->location.type));
  }
  return ACL_SUCCESS;
}

aclError reserve(const char* entry, void** virPtr, size_t size, void* expectPtr, bool only_there) {
  aclError error = ACL_SUCCESS;
  const Device* device = device_or_first(&error);
  if (device == nullptr) return error;
  auto reservation = std::make_unique<Reservation>();
  reservation->region = add_region(Region::Kind::kReserved, size, device->id, reservation.get(), expectPtr);
  if (reservation->region == nullptr && expectPtr != nullptr && only_there) {
    return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: %zu bytes at %p are taken, or no addresses of a device here", entry, size,
                expectPtr);
  }
  // As in CANN the expected address is a hint.
  if (reservation->region == nullptr && expectPtr != nullptr) {
    reservation->region = add_region(Region::Kind::kReserved, size, device->id, reservation.get());
  }
  if (reservation->region == nullptr) {
    return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: no %zu bytes of device address space are left", entry, size);
  }
  *virPtr = reinterpret_cast<void*>(reservation.release()->region->begin);
  return ACL_SUCCESS;
}

aclError map_piece(const char* entry, void* virPtr, size_t size, size_t offset, Physical* physical, uint64_t flags,
                   aclrtMemAccessFlags access) {
  Reservation* reservation = reservation_of(virPtr);
  const auto address = reinterpret_cast<uintptr_t>(virPtr);
  if (reservation == nullptr || address + size > reservation->region->begin + reservation->region->size) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %p and the %zu bytes after it were not reserved", entry, virPtr, size);
  }
  if (size == 0 || size > physical->size || offset > physical->size - size || offset % kGranularity != 0 || address % 4096 != 0 ||
      flags != 0) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %zu bytes from offset %zu of a handle of %llu bytes", entry, size, offset,
                static_cast<unsigned long long>(physical->size));
  }
  const uint64_t at = address - reservation->region->begin;
  std::lock_guard<std::mutex> lock(reservation->mutex);
  auto next = reservation->pieces.lower_bound(at);
  if (reservation->find(at) != reservation->pieces.end() || (next != reservation->pieces.end() && next->first < at + size)) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: a part of %p and the %zu bytes after it is mapped already", entry, virPtr, size);
  }
  if (!map_view(address, size, physical->fd, physical->offset + offset)) {
    return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: the kernel refused the mapping (vm.max_map_count?)", entry);
  }
  const auto device = static_cast<uint32_t>(physical->device->id);
  reservation->pieces[at] =
      Reservation::Piece{size, physical, physical->offset + offset, {{{ACL_MEM_LOCATION_TYPE_DEVICE, device}, access}}};
  return ACL_SUCCESS;
}

// Does `use(piece)` with the piece that begins at `virPtr`; an error where there is none.
template <class Use>
aclError with_piece(const char* entry, void* virPtr, Use&& use) {
  Reservation* reservation = reservation_of(virPtr);
  if (reservation != nullptr) {
    const std::lock_guard<std::mutex> lock(reservation->mutex);
    const auto it = reservation->pieces.find(reinterpret_cast<uintptr_t>(virPtr) - reservation->region->begin);
    if (it != reservation->pieces.end()) return use(it->second);
  }
  return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %p is not the start of a mapped piece", entry, virPtr);
}

}  // namespace

extern "C" {

aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp* prop, aclrtMemGranularityOptions option, size_t* granularity) {
  SOFTCANN_ENTRY(aclrtMemGetAllocationGranularity);
  SOFTCANN_REQUIRE(granularity, "granularity");
  if (const aclError code = check_property("aclrtMemGetAllocationGranularity", prop)) return code;
  if (option != ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM && option != ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtMemGetAllocationGranularity: unknown option %d", static_cast<int>(option));
  }
  *granularity = kGranularity;
  return ACL_SUCCESS;
}

aclError aclrtReserveMemAddress(void** virPtr, size_t size, size_t alignment, void* expectPtr, uint64_t flags) {
  SOFTCANN_ENTRY(aclrtReserveMemAddress);
  const recorder::Call call;
  SOFTCANN_REQUIRE(virPtr, "virPtr");
  // CANN defines flag 1 (huge pages) only; regions are 32 MiB-aligned, which covers every alignment it allows.
  if (size == 0 || alignment > (size_t{32} << 20) || (alignment & (alignment - 1)) != 0 || flags > 1) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtReserveMemAddress: size %zu, alignment %zu, flags %llu", size, alignment,
                static_cast<unsigned long long>(flags));
  }
  return reserve("aclrtReserveMemAddress", virPtr, size, expectPtr, false);
}

// Of memory that no operator reads past the cache; here none does. The client says where.
aclError aclrtReserveMemAddressNoUCMemory(void** virPtr, size_t size, size_t alignment, void* expectPtr, uint64_t flags) {
  SOFTCANN_ENTRY(aclrtReserveMemAddressNoUCMemory);
  const recorder::Call call;
  SOFTCANN_REQUIRE(virPtr, "virPtr");
  constexpr size_t kMultiple = size_t{1} << 30;
  if (expectPtr == nullptr) {
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclrtReserveMemAddressNoUCMemory: the client has to name the address");
  }
  if (size == 0 || size % kMultiple != 0 || alignment != 0 || flags > 1) {
    return fail(ACL_ERROR_RT_PARAM_INVALID,
                "aclrtReserveMemAddressNoUCMemory: size %zu (whole GiB), alignment %zu (0), flags %llu", size, alignment,
                static_cast<unsigned long long>(flags));
  }
  return reserve("aclrtReserveMemAddressNoUCMemory", virPtr, size, expectPtr, true);
}

aclError aclrtReleaseMemAddress(void* virPtr) {
  SOFTCANN_ENTRY(aclrtReleaseMemAddress);
  const recorder::Call call;
  SOFTCANN_REQUIRE(virPtr, "virPtr");
  Reservation* reservation = reservation_of(virPtr);
  if (reservation == nullptr || reservation->region->begin != reinterpret_cast<uintptr_t>(virPtr)) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtReleaseMemAddress: %p is not the start of a reservation", virPtr);
  }
  {
    std::lock_guard<std::mutex> lock(reservation->mutex);
    if (!reservation->pieces.empty()) {
      return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtReleaseMemAddress: %zu pieces of %p are still mapped",
                  reservation->pieces.size(), virPtr);
    }
  }
  remove_region(reservation->region);
  delete reservation;
  return ACL_SUCCESS;
}

aclError aclrtMallocPhysical(aclrtDrvMemHandle* handle, size_t size, const aclrtPhysicalMemProp* prop, uint64_t flags) {
  SOFTCANN_ENTRY(aclrtMallocPhysical);
  const recorder::Call call;
  SOFTCANN_REQUIRE(handle, "handle");
  if (const aclError code = check_property("aclrtMallocPhysical", prop)) return code;
  if (size == 0 || size % kGranularity != 0 || flags != 0) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMallocPhysical: size %zu is not a multiple of %llu, or flags are not 0", size,
                static_cast<unsigned long long>(kGranularity));
  }
  aclError error = ACL_SUCCESS;
  Device* device = open_device(static_cast<int>(prop->location.id), &error);
  if (device == nullptr) return error;
  const uint64_t offset = device->arena.allocate(size, kGranularity);
  if (offset == Arena::kNone) {
    return fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
                "aclrtMallocPhysical: out of memory on device %d: %zu bytes asked for, %llu of %llu in use "
                "(SOFTCANN_MEMORY sets the size)",
                device->id, size, static_cast<unsigned long long>(device->arena.used()),
                static_cast<unsigned long long>(device->arena.capacity()));
  }
  auto* physical = new Physical;
  physical->device = device;
  physical->fd = device->memory_fd;
  physical->offset = offset;
  physical->size = size;
  physical->owned = true;
  *handle = physical->to_handle();
  return ACL_SUCCESS;
}

aclError aclrtFreePhysical(aclrtDrvMemHandle handle) {
  SOFTCANN_ENTRY(aclrtFreePhysical);
  const recorder::Call call;
  aclError error = ACL_SUCCESS;
  Physical* physical = Physical::from_handle(handle, "aclrtFreePhysical", &error);
  if (physical == nullptr) return error;
  retire_export(physical);
  if (physical->forget_handle()) physical->release();
  physical->release();
  return ACL_SUCCESS;
}

aclError aclrtMapMem(void* virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags) {
  SOFTCANN_ENTRY(aclrtMapMem);
  SOFTCANN_REQUIRE(virPtr, "virPtr");
  aclError error = ACL_SUCCESS;
  Physical* physical = Physical::from_handle(handle, "aclrtMapMem", &error);
  if (physical == nullptr) return error;
  error = map_piece("aclrtMapMem", virPtr, size, offset, physical, flags, ACL_RT_MEM_ACCESS_FLAGS_READWRITE);
  if (error != ACL_SUCCESS) physical->release();  // else the piece has the reference
  return error;
}

aclError aclrtMemMapNoAccess(void* virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags) {
  SOFTCANN_ENTRY(aclrtMemMapNoAccess);
  constexpr const char* entry = "aclrtMemMapNoAccess";
  SOFTCANN_REQUIRE(virPtr, "virPtr");
  aclError error = ACL_SUCCESS;
  Physical* physical = Physical::from_handle(handle, entry, &error);
  if (physical == nullptr) return error;
  error = map_piece(entry, virPtr, size, offset, physical, flags, ACL_RT_MEM_ACCESS_FLAGS_NONE);
  if (error != ACL_SUCCESS) physical->release();  // else the piece has the reference
  return error;
}

// There is one way to all memory here, so that it is the same whichever the client selects.
aclError aclrtMemMapSelectedLink(void* virPtrDst, size_t size, void* virPtrSrc, uint32_t linkIdx) {
  SOFTCANN_ENTRY(aclrtMemMapSelectedLink);
  constexpr const char* entry = "aclrtMemMapSelectedLink";
  SOFTCANN_REQUIRE(virPtrDst, "virPtrDst");
  SOFTCANN_REQUIRE(virPtrSrc, "virPtrSrc");
  if (linkIdx != ACL_RT_MEM_LINK_IDX_0 && linkIdx != ACL_RT_MEM_LINK_IDX_1) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: link %u is neither 0 (SIO) nor 1 (HCCS)", entry, linkIdx);
  }
  Physical* physical = nullptr;
  uint64_t offset = 0;
  const aclError code = with_piece(entry, virPtrSrc, [&](const Reservation::Piece& piece) {
    if (size != piece.size) {
      return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %zu bytes of a piece of %llu", entry, size,
                  static_cast<unsigned long long>(piece.size));
    }
    physical = piece.physical;
    physical->references.fetch_add(1, std::memory_order_relaxed);
    offset = piece.place - physical->offset;
    return ACL_SUCCESS;
  });
  if (code != ACL_SUCCESS) return code;
  const aclError mapped = map_piece(entry, virPtrDst, size, offset, physical, 0, ACL_RT_MEM_ACCESS_FLAGS_READWRITE);
  if (mapped != ACL_SUCCESS) physical->release();
  return mapped;
}

aclError aclrtUnmapMem(void* virPtr) {
  SOFTCANN_ENTRY(aclrtUnmapMem);
  SOFTCANN_REQUIRE(virPtr, "virPtr");
  Reservation* reservation = reservation_of(virPtr);
  Physical* physical = nullptr;
  if (reservation != nullptr) {
    std::lock_guard<std::mutex> lock(reservation->mutex);
    auto it = reservation->pieces.find(reinterpret_cast<uintptr_t>(virPtr) - reservation->region->begin);
    if (it != reservation->pieces.end()) {
      physical = it->second.physical;
      unmap_view(reinterpret_cast<uintptr_t>(virPtr), it->second.size);
      reservation->pieces.erase(it);
    }
  }
  if (physical == nullptr) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtUnmapMem: %p is not the start of a mapped piece", virPtr);
  }
  physical->release();
  return ACL_SUCCESS;
}

// softcann's devices reach all memory; the flags are kept for who asks.
aclError aclrtMemSetAccess(void* virPtr, size_t size, aclrtMemAccessDesc* desc, size_t count) {
  SOFTCANN_ENTRY(aclrtMemSetAccess);
  SOFTCANN_REQUIRE(virPtr, "virPtr");
  SOFTCANN_REQUIRE(desc, "desc");
  return with_piece("aclrtMemSetAccess", virPtr, [&](Reservation::Piece& piece) {
    if (size != piece.size) {
      return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMemSetAccess: %zu bytes of a piece of %llu", size,
                  static_cast<unsigned long long>(piece.size));
    }
    for (size_t i = 0; i < count; ++i) piece.access[{desc[i].location.type, desc[i].location.id}] = desc[i].flags;
    return ACL_SUCCESS;
  });
}

aclError aclrtMemGetAccess(void* virPtr, aclrtMemLocation* location, uint64_t* flag) {
  SOFTCANN_ENTRY(aclrtMemGetAccess);
  SOFTCANN_REQUIRE(virPtr, "virPtr");
  SOFTCANN_REQUIRE(location, "location");
  SOFTCANN_REQUIRE(flag, "flag");
  return with_piece("aclrtMemGetAccess", virPtr, [&](const Reservation::Piece& piece) {
    const auto found = piece.access.find({location->type, location->id});
    *flag = found == piece.access.end() ? uint64_t{ACL_RT_MEM_ACCESS_FLAGS_NONE} : found->second;
    return ACL_SUCCESS;
  });
}

aclError aclrtMemRetainAllocationHandle(void* virPtr, aclrtDrvMemHandle* handle) {
  SOFTCANN_ENTRY(aclrtMemRetainAllocationHandle);
  SOFTCANN_REQUIRE(virPtr, "virPtr");
  SOFTCANN_REQUIRE(handle, "handle");
  return with_piece("aclrtMemRetainAllocationHandle", virPtr, [&](const Reservation::Piece& piece) {
    piece.physical->references.fetch_add(1, std::memory_order_relaxed);
    *handle = piece.physical->to_handle();
    return ACL_SUCCESS;
  });
}

aclError aclrtMemGetAllocationPropertiesFromHandle(aclrtDrvMemHandle handle, aclrtPhysicalMemProp* prop) {
  SOFTCANN_ENTRY(aclrtMemGetAllocationPropertiesFromHandle);
  SOFTCANN_REQUIRE(prop, "prop");
  aclError error = ACL_SUCCESS;
  Physical* physical = Physical::from_handle(handle, "aclrtMemGetAllocationPropertiesFromHandle", &error);
  if (physical == nullptr) return error;
  *prop = aclrtPhysicalMemProp{};
  prop->handleType = ACL_MEM_HANDLE_TYPE_NONE;
  prop->allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED;
  prop->memAttr = ACL_HBM_MEM_HUGE;
  prop->location = {static_cast<uint32_t>(physical->device->id), ACL_MEM_LOCATION_TYPE_DEVICE};
  physical->release();
  return ACL_SUCCESS;
}
}
