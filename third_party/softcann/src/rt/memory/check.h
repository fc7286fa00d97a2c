// SOFTCANN_CHECK: finds reads of device memory that was never written, memory freed while work is queued for it, and what is
// still alive at exit. Off, each place costs one load and a branch.
#pragma once

#include <string>

#include "rt/runtime.h"

namespace softcann::check {

enum Kind : uint32_t { kMemory = 1, kInit = 2, kLeak = 4 };

// Which of them are on; set before main.
SOFTCANN_API extern std::atomic<uint32_t> active;
inline bool on(Kind kind) { return __builtin_expect((active.load(std::memory_order_relaxed) & kind) != 0, 0); }

// The kinds that a value of SOFTCANN_CHECK names; UINT32_MAX where it names another thing.
uint32_t parse(const std::string& text);

// kLeak: `handle`, an object of the kind `what` (a literal), was made or is gone. Remembers who called.
SOFTCANN_API void note_made(const char* what, const void* handle, size_t bytes = 0);
SOFTCANN_API void note_gone(const void* handle);
// Says what is alive, on stderr and in the log. Returns how many things that are.
size_t report_leaks();

// Note [Never written]
// A bit for each byte of the window is 1 from aclrtMalloc until something is written there. Only what aclrtMalloc gives is
// looked at: reserved and imported memory, and memory that another process was shown, others may write unseen. New memory is
// filled with ones, which are NaN in each floating type. Both follow the order in which tasks run, not that of their launch.
//
// kInit: addresses are of the client's or of the kernels' side.
SOFTCANN_API void mark_unwritten(const void* p, size_t bytes);
SOFTCANN_API void mark_written(const void* p, size_t bytes);
// The same where work that is not looked at may write, now or later.
inline void mark_written_elsewhere(const void* p, size_t bytes) {
  if (on(kInit)) mark_written(p, bytes);
}
// Offset of the first byte that was never written; `bytes` when all were.
SOFTCANN_API size_t first_unwritten(const void* p, size_t bytes);
// What was written and what was not go along with a copy from one device address to another.
void copy_marks(const void* dst, const void* src, size_t bytes);

// kMemory: the task that `holder` stands for will touch [p, p + bytes), a client address. Any number of them for a holder.
SOFTCANN_API void note_access(const void* holder, const char* name, const void* p, size_t bytes);
SOFTCANN_API void forget_accesses(const void* holder);
// The name of a task that is queued or running and touches the memory; null when there is none.
const char* user_of(const void* p, size_t bytes);

// A line on stderr and in the log, which starts with "softcann check: ".
SOFTCANN_API void say(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace softcann::check
