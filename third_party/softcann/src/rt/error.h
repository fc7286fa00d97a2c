// Error texts: one for each thread (aclGetRecentErrMsg) and one for the task that is running on the thread.
#pragma once

#include <cstdarg>
#include <string>

#include "rt/runtime.h"

namespace softcann {

// Takes the text that task_error() recorded on this thread since the last call.
std::string take_task_error();
// fail() with a va_list.
int vfail(int code, const char* format, va_list args);
// The code of this thread's last failing call, kept until `reset`.
aclError last_error(bool reset);

#define SOFTCANN_REQUIRE(pointer, name)                                                                       \
  do {                                                                                                        \
    if ((pointer) == nullptr) return ::softcann::fail(ACL_ERROR_INVALID_PARAM, "%s is a null pointer", name); \
  } while (0)

}  // namespace softcann
