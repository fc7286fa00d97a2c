// What a pointer is: device memory of some kind, pinned host memory, or any other.
#pragma once

#include "rt/device/device.h"

namespace softcann {

// Pinned memory (aclrtMallocHost) and registered memory; false when `p` lies in none.
bool find_pinned(const void* p, uintptr_t* begin, size_t* size);
void add_pinned(const void* p, size_t size, bool registered);
// The size, or 0 when there was none of that kind that starts at `p`.
size_t remove_pinned(const void* p, bool registered);
// Lets the device use memory of aclrtMallocHost; false when [p, p + bytes) lies in none, or the device does already.
bool map_pinned(const void* p, size_t bytes);
// The reverse; false when it did not.
bool unmap_pinned(const void* p);
// Whether [p, p + bytes) lies in host memory that the device may use, and where that is.
bool is_mapped(const void* p, size_t bytes, uintptr_t* begin, size_t* size);

// Device of a device address; -1 when no memory is there.
int device_of(const void* p);

// Memory of a pool (pool_api.cpp) that is given back otherwise than by aclrtMemPoolFreeAsync leaves the pool's books.
void forget_pooled(void* p);

// Validates a copy as CANN does and translates the addresses. `entry` names the caller in error messages.
aclError check_copy(const char* entry, void** dst, size_t dest_max, const void** src, size_t count, aclrtMemcpyKind kind);

// Virtual memory (virtual_memory.cpp): is [offset, offset + bytes) of the reservation mapped?
bool reservation_is_mapped(void* reservation, uint64_t offset, uint64_t bytes);
// The mapped piece around `offset`: its start within the reservation and its size.
bool reservation_piece(void* reservation, uint64_t offset, uint64_t* start, uint64_t* size);
// The device memory behind [offset, offset + bytes) of the reservation, if that is one piece of this process's own.
bool reservation_place(void* reservation, uint64_t offset, uint64_t bytes, Device** device, uint64_t* place);

}  // namespace softcann
