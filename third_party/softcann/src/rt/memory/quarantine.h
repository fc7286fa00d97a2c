// SOFTCANN_CHECK=memory: where freed memory rests.
#pragma once

#include <cstdint>

#include "rt/device/device.h"

namespace softcann::check {

// Note [Freed memory rests]
// The next allocation usually gets the place of the last one that was freed, and a late use of that, on another stream or thread,
// goes to memory that is allocated: nothing to find. So under SOFTCANN_CHECK=memory what is freed stays taken in the arena, and
// counts as freed for all that look memory up, until a quarter of the device rests or an allocation finds no room.

// Lets the allocation at `offset` rest; false when it does already, or is none.
bool let_rest(Device* device, uint64_t offset);
// Whether the allocation that begins at this client address rests.
bool rests(uintptr_t begin);
// Gives the oldest of the device's back to its arena; false when none rests.
bool end_oldest_rest(Device* device);

}  // namespace softcann::check
