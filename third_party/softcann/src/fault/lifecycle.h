// What the runtime tells the fault layer, which knows no other layer, and asks of it.
#pragma once

#include <string>

namespace softcann::fault {

// Records a text for aclGetRecentErrMsg and returns `code`.
using Report = int (*)(int code, const char* format, ...);
// `rules` and `trace` are SOFTCANN_FAULT and SOFTCANN_TRACE. Once, before the first call of an entry point.
void configure(const std::string& rules, const std::string& trace, Report report);
// Is told each call of an entry point, by a name that lives as long as the process. Likewise.
using Watcher = void (*)(const char* entry);
void watch_calls(Watcher watcher);
// What is wrong with SOFTCANN_FAULT or SOFTCANN_TRACE; empty when nothing is.
const std::string& configuration_error();
// Called when the first device is opened (under the runtime's lock): from now on the child of a fork gets errors.
void watch_forks();
bool in_forked_child();

}  // namespace softcann::fault
