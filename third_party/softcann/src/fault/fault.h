// One place for fault injection, tracing and the fork check, shared by every C entry point.
#pragma once

#include <atomic>
#include <string>

#define SOFTCANN_API __attribute__((visibility("default")))

namespace softcann::fault {

// Not 0 while faults, a trace or the fork check want to see each call. Set before main by SOFTCANN_FAULT and
// SOFTCANN_TRACE, and in the child of a fork.
SOFTCANN_API extern std::atomic<int> armed;

// The slow path: traces, delays; returns the code to fail with, or 0. `fork_code`: what the child of a fork gets.
SOFTCANN_API int enter(const char* name, int fork_code);

// Whether a line of one's own about a call is wanted, and that line.
SOFTCANN_API bool tracing();
SOFTCANN_API void trace(const char* name, const std::string& details);

}  // namespace softcann::fault

// First statement of an entry point: SOFTCANN_ENTRY(aclrtMalloc). Returns an injected code, or goes on; costs one
// relaxed load when nothing is armed. In the child of a fork that inherited an open device it returns 507000
// (internal error) with a text that says so: device threads do not exist there.
#define SOFTCANN_ENTRY(name) SOFTCANN_ENTRY_AS(int, name)

// The same for a function that returns another integer or enum type (HcclResult, aclnnStatus).
#define SOFTCANN_ENTRY_AS(type, name)                                                         \
  do {                                                                                        \
    if (__builtin_expect(::softcann::fault::armed.load(std::memory_order_relaxed) != 0, 0)) { \
      if (const int softcann_injected = ::softcann::fault::enter(#name, 507000)) {            \
        return static_cast<type>(softcann_injected);                                          \
      }                                                                                       \
    }                                                                                         \
  } while (0)

// For functions that cannot report an error (constructors of descriptors, getters): trace and delay, and `value` is
// returned where a fault is injected.
#define SOFTCANN_ENTRY_VALUE(name, value)                                                     \
  do {                                                                                        \
    if (__builtin_expect(::softcann::fault::armed.load(std::memory_order_relaxed) != 0, 0)) { \
      if (::softcann::fault::enter(#name, 0) != 0) return value;                              \
    }                                                                                         \
  } while (0)
