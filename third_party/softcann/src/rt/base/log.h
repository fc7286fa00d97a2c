// CANN's log, as the ASCEND_* options direct it: what softcann itself has to say, and what clients pass to aclAppLog.
#pragma once

#include <cstdint>

#include "rt/runtime.h"

namespace softcann {

// Whether somebody asked for lines of that level. Errors come back from the call that failed anyhow, so softcann writes them
// only where a level, a folder or stdout was asked for.
SOFTCANN_API bool log_wanted(aclLogLevel level);

// The same, for one module: ASCEND_MODULE_LOG_LEVEL may say otherwise for it.
SOFTCANN_API bool log_wanted(aclLogLevel level, const char* module);

// One line, `[LEVEL] MODULE(pid,program):time [file:line]tid text`. Checks nothing: ask log_wanted() before the text is made.
void log_line(aclLogLevel level, const char* module, const char* file, uint32_t line, const char* text);
SOFTCANN_API void log_format(aclLogLevel level, const char* module, const char* file, uint32_t line, const char* format, ...)
    __attribute__((format(printf, 5, 6)));

}  // namespace softcann

// SOFTCANN_LOG(ACL_INFO, "RUNTIME", "device %d was opened", id)
#define SOFTCANN_LOG(level, module, ...)                                                                               \
  do {                                                                                                                 \
    if (::softcann::log_wanted(level, module)) ::softcann::log_format(level, module, __FILE__, __LINE__, __VA_ARGS__); \
  } while (0)
