// The reserved address window and its regions. See Note [Double mapping] in runtime.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rt/runtime.h"

namespace softcann {

// A part of the window: a device's arena, a client's reservation, or memory imported from another process. Region
// objects are recycled but never freed, so a stale pointer to one can be read.
struct Region {
  enum class Kind : uint8_t { kFree, kArena, kReserved, kImported };
  Kind kind = Kind::kFree;
  int device = -1;
  uintptr_t begin = 0;  // client address
  size_t size = 0;
  void* owner = nullptr;  // Device, Reservation or Import
};

// Reserves the window at the first call. False when the kernel gives no address space (ulimit -v).
bool open_window();

// Takes a part of at least `size` bytes, at `expected` if that is free and not null. nullptr when the window is full.
Region* add_region(Region::Kind kind, size_t size, int device, void* owner, void* expected = nullptr);
// Gives the part back; its view becomes inaccessible.
void remove_region(Region* region);

// The region that holds the address; nullptr when it is not in use. Without a lock.
Region* find_region(const void* client_address);

// Maps `size` bytes of `fd` from `offset` into the view of [client, client + size); false on failure. All page-aligned.
bool map_view(uintptr_t client, size_t size, int fd, uint64_t offset);
bool unmap_view(uintptr_t client, size_t size);

}  // namespace softcann
