// Errors: their kinds, and their texts: one for each thread (aclGetRecentErrMsg) and one for the task that is running on the
// thread.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "rt/runtime.h"

namespace softcann {

// What went wrong, for those who decide upon it; the text that goes along is for people. Nobody decides by a text.
enum class ErrorKind : uint8_t {
  bad_argument,        // refused: nothing was computed, nothing is broken
  unsupported,         // refused likewise: right for CANN, not served here
  index_out_of_range,  // an index in a tensor leads out of the memory: hardware faults there
  out_of_memory,
  peer_lost,  // another rank died, left, or never came
  timeout,    // another rank, or work that was waited for, took too long
  corrupt,    // what was received or found cannot be what was sent or stored
  internal,
};

// An exception that knows its kind.
class SOFTCANN_API Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& text) : std::runtime_error(text), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// The code with which a task of that kind of failure ends, and so its stream; see kRefused for the ones that a stream
// survives.
constexpr aclError task_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::bad_argument:
    case ErrorKind::unsupported:
      return kRefused;
    case ErrorKind::out_of_memory:
      return ACL_ERROR_RT_MEMORY_ALLOCATION;
    case ErrorKind::timeout:
      return ACL_ERROR_RT_STREAM_SYNC_TIMEOUT;
    case ErrorKind::peer_lost:
    case ErrorKind::corrupt:
    case ErrorKind::internal:
      return ACL_ERROR_RT_INTERNAL_ERROR;
    case ErrorKind::index_out_of_range:
      break;
  }
  return ACL_ERROR_RT_VECTOR_CORE_EXCEPTION;
}

// Takes the text that task_error() recorded on this thread since the last call.
std::string take_task_error();

// What aclGetRecentErrMsg says, empty when it says nothing.
inline std::string take_recent_error() {
  const char* text = aclGetRecentErrMsg();
  return text != nullptr ? text : "";
}
// fail() with a va_list.
int vfail(int code, const char* format, va_list args);
// The code of this thread's last failing call, kept until `reset`.
aclError last_error(bool reset);

// An entry point that is refused: SOFTCANN_REFUSED(aclmdlRIUpdate, no_tasks, aclmdlRI). `why`, given the name, records the text
// and returns the code.
#define SOFTCANN_REFUSED(NAME, why, ...) \
  int32_t NAME(__VA_ARGS__) {            \
    SOFTCANN_ENTRY(NAME);                \
    return why(#NAME);                   \
  }

#define SOFTCANN_REQUIRE(pointer, name)                                                                       \
  do {                                                                                                        \
    if ((pointer) == nullptr) return ::softcann::fail(ACL_ERROR_INVALID_PARAM, "%s is a null pointer", name); \
  } while (0)

// A client's handle as an object of `blocks` (HandleBlocks); leaves the function with an error where none is alive under it.
#define ALIVE_OR_RETURN(variable, blocks, entry, kind, handle)                                         \
  auto* const variable = (blocks).find(handle);                                                        \
  if (variable == nullptr)                                                                             \
  return ::softcann::fail((handle) == nullptr ? ACL_ERROR_INVALID_PARAM : ACL_ERROR_RT_INVALID_HANDLE, \
                          "%s: " kind " %p does not exist", entry, handle)

}  // namespace softcann
