#include "rt/base/error.h"

#include <atomic>
#include <cstdio>
#include <mutex>

#include "rt/base/error_mode.h"
#include "rt/base/log.h"

namespace softcann {
namespace {

struct ThreadErrors {
  std::string recent;    // the next aclGetRecentErrMsg
  std::string returned;  // what the last aclGetRecentErrMsg handed out; must live until the next one
  std::string task;
  aclError last = ACL_SUCCESS;
};

// Created at the first error of a thread and freed with it.
ThreadErrors& thread_errors() {
  static thread_local ThreadErrors errors;
  return errors;
}

// The latest text of all threads, where they share it. Leaked: threads may fail after static destructors ran.
struct SharedErrors {
  std::mutex mutex;
  std::string recent;
};
std::atomic<bool> errors_are_shared{false};

SharedErrors& shared_errors() {
  static auto* errors = new SharedErrors;
  return *errors;
}

std::string format_text(const char* format, va_list args) {
  va_list again;
  va_copy(again, args);
  const int length = std::vsnprintf(nullptr, 0, format, args);
  std::string text(length > 0 ? static_cast<size_t>(length) : 0, '\0');
  if (length > 0) std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  return text;
}

}  // namespace

int vfail(int code, const char* format, va_list args) {
  ThreadErrors& errors = thread_errors();
  errors.recent = format_text(format, args);
  errors.last = code;
  if (errors_are_shared.load(std::memory_order_relaxed)) {
    const std::lock_guard<std::mutex> lock(shared_errors().mutex);
    shared_errors().recent = errors.recent;
  }
  SOFTCANN_LOG(ACL_ERROR, "RUNTIME", "code %d: %s", code, errors.recent.c_str());
  return code;
}

void share_errors(bool among_threads) { errors_are_shared.store(among_threads, std::memory_order_relaxed); }

int fail(int code, const char* format, ...) {
  va_list args;
  va_start(args, format);
  vfail(code, format, args);
  va_end(args);
  return code;
}

void task_error(const char* format, ...) {
  va_list args;
  va_start(args, format);
  thread_errors().task = format_text(format, args);
  va_end(args);
  SOFTCANN_LOG(ACL_ERROR, "RUNTIME", "a task failed: %s", thread_errors().task.c_str());
}

std::string take_task_error() {
  std::string text;
  text.swap(thread_errors().task);
  return text;
}

aclError last_error(bool reset) {
  ThreadErrors& errors = thread_errors();
  const aclError code = errors.last;
  if (reset) errors.last = ACL_SUCCESS;
  return code;
}

}  // namespace softcann

extern "C" {

const char* aclGetRecentErrMsg() {
  softcann::ThreadErrors& errors = softcann::thread_errors();
  if (softcann::errors_are_shared.load(std::memory_order_relaxed)) {
    const std::lock_guard<std::mutex> lock(softcann::shared_errors().mutex);
    errors.recent.swap(softcann::shared_errors().recent);
    softcann::shared_errors().recent.clear();
  }
  errors.returned.swap(errors.recent);
  errors.recent.clear();
  // Null when there is none: the CANN provider of ONNX Runtime asks after each of its kernels, and takes any text for a failure.
  return errors.returned.empty() ? nullptr : errors.returned.c_str();
}

aclError aclrtPeekAtLastError(aclrtLastErrLevel level) {
  if (level != ACL_RT_THREAD_LEVEL) {
    return softcann::fail(ACL_ERROR_INVALID_PARAM, "aclrtPeekAtLastError: unknown level %d", level);
  }
  return softcann::last_error(false);
}

aclError aclrtGetLastError(aclrtLastErrLevel level) {
  if (level != ACL_RT_THREAD_LEVEL) {
    return softcann::fail(ACL_ERROR_INVALID_PARAM, "aclrtGetLastError: unknown level %d", level);
  }
  return softcann::last_error(true);
}
}
