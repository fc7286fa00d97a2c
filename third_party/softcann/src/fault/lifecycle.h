// What the runtime tells the fault layer, which knows no other layer, and asks of it.
#pragma once

#include <string>

#include "fault/fault.h"

namespace softcann::fault {

// Records a text for aclGetRecentErrMsg and returns `code`.
using Report = int (*)(int code, const char* format, ...);
// `rules` and `trace` are SOFTCANN_FAULT and SOFTCANN_TRACE. Once, before the first call of an entry point.
void configure(const std::string& rules, const std::string& trace, Report report);
// Is told each call of an entry point while armed, by a name that lives as long as the process. Likewise.
using Watcher = void (*)(const char* entry);
void watch_calls(Watcher watcher);
// From now on every call is seen.
void arm();
// What is wrong with SOFTCANN_FAULT or SOFTCANN_TRACE; empty when nothing is.
const std::string& configuration_error();
// Called when the first device is opened (under the runtime's lock): from now on the child of a fork gets errors.
void watch_forks();
bool in_forked_child();
// The code with which the task `name`, which is about to run, is to fail instead; 0: none. Rules call it task.<name>.
int enter_task(const char* name);

// Whether the operator `name`, which has just computed, is to have computed `*value` (Note [Wrong values] in op/wrong_value.h).
SOFTCANN_API bool wrong_value(const char* name, double* value);

// True when a rule says that what is called `name` here, a part of the system that may refuse (a thread, a mapping), does so now.
bool strikes(const char* name);

}  // namespace softcann::fault

// `if (SOFTCANN_FAULT_POINT(mmap) || mmap(...) == MAP_FAILED) ...`
#define SOFTCANN_FAULT_POINT(name) \
  (__builtin_expect(::softcann::fault::armed.load(std::memory_order_relaxed) != 0, 0) && ::softcann::fault::strikes(#name))
