// libascendalog and libunified_dlog: CANN's log, for host code that writes to it without acl. Its lines go where softcann's own
// do.
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <string>

#include "rt/base/log.h"

using namespace softcann;

namespace {

// By the number that clients give.
const char* module_name(int32_t module) {
  switch (module) {
    case 3:
      return "HCCL";
    case 7:
      return "RUNTIME";
    case 31:
      return "PROFILING";
    case 33:
      return "APP";
    case 36:
      return "AICPU";
    case 39:
      return "FE";
    case 45:
      return "GE";
    case 48:
      return "ASCENDCL";
    case 57:
      return "TBE";
    case 63:
      return "OP";
    case 69:
      return "ASCENDCKERNEL";
    default:
      return "CANN";
  }
}

void write(int32_t module, int32_t level, const char* format, va_list args) {
  const auto as = static_cast<aclLogLevel>(level);
  if (format == nullptr || !log_wanted(as, module_name(module))) return;
  char text[4096];
  std::vsnprintf(text, sizeof text, format, args);
  // Clients write `[file:line]` into the text themselves.
  log_format(as, module_name(module), "", 0, "%s", text);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int32_t CheckLogLevel(int32_t moduleId, int32_t logLevel) {
  return log_wanted(static_cast<aclLogLevel>(logLevel), module_name(moduleId)) ? 1 : 0;
}
int32_t CheckLogLevelInner(int32_t moduleId, int32_t logLevel) { return CheckLogLevel(moduleId, logLevel); }

void DlogRecord(int32_t moduleId, int32_t level, const char* fmt, ...) {
  va_list args;
  va_start(args, fmt);
  write(moduleId, level, fmt, args);
  va_end(args);
}
void DlogRecordInner(int32_t moduleId, int32_t level, const char* fmt, ...) {
  va_list args;
  va_start(args, fmt);
  write(moduleId, level, fmt, args);
  va_end(args);
}
}
#pragma GCC visibility pop
