#include "rt/device/exceptions.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "rt/base/error.h"

using namespace softcann;

struct rtExceptionInfo {
  uint32_t device, stream, task, thread, code;
};

namespace {

std::atomic<aclrtExceptionInfoCallback> callback{nullptr};

// Those of the whole process, in the order of their registration.
struct ExceptionCallbacks {
  std::mutex mutex;
  std::vector<aclrtExceptionInfoCallback> registered;
};
ExceptionCallbacks& exception_callbacks() {
  static auto* instance = new ExceptionCallbacks;
  return *instance;
}
std::atomic<uint32_t> failures{0};

constexpr uint32_t kNothing = 0xFFFFFFFF;

template <class T>
uint32_t field(const aclrtExceptionInfo* info, T member) {
  return info == nullptr ? kNothing : info->*member;
}

}  // namespace

namespace softcann {

void tell_exception(int device, int stream, aclError code) {
  std::vector<aclrtExceptionInfoCallback> told;
  {
    const std::lock_guard<std::mutex> lock(exception_callbacks().mutex);
    told = exception_callbacks().registered;
  }
  if (const aclrtExceptionInfoCallback set = callback.load()) told.push_back(set);
  if (told.empty()) return;
  // softcann's tasks have no numbers; failures do.
  rtExceptionInfo info{static_cast<uint32_t>(device), static_cast<uint32_t>(stream), failures.fetch_add(1) + 1,
                       static_cast<uint32_t>(syscall(SYS_gettid)), static_cast<uint32_t>(code)};
  for (const auto function : told) function(&info);
}

}  // namespace softcann

extern "C" {

aclError aclrtSetExceptionInfoCallback(aclrtExceptionInfoCallback function) {
  SOFTCANN_ENTRY(aclrtSetExceptionInfoCallback);
  callback.store(function);  // null: nobody is told any more
  return ACL_SUCCESS;
}

// Beside that of aclrtSetExceptionInfoCallback; the same function is registered once.
aclError aclrtExceptionInfoCallbackRegister(aclrtExceptionInfoCallback function) {
  SOFTCANN_ENTRY(aclrtExceptionInfoCallbackRegister);
  SOFTCANN_REQUIRE(function, "callback");
  const std::lock_guard<std::mutex> lock(exception_callbacks().mutex);
  auto& all = exception_callbacks().registered;
  if (std::find(all.begin(), all.end(), function) == all.end()) all.push_back(function);
  return ACL_SUCCESS;
}

// One that is not registered is no error.
aclError aclrtExceptionInfoCallbackUnregister(aclrtExceptionInfoCallback function) {
  SOFTCANN_ENTRY(aclrtExceptionInfoCallbackUnregister);
  SOFTCANN_REQUIRE(function, "callback");
  const std::lock_guard<std::mutex> lock(exception_callbacks().mutex);
  std::erase(exception_callbacks().registered, function);
  return ACL_SUCCESS;
}

uint32_t aclrtGetDeviceIdFromExceptionInfo(const aclrtExceptionInfo* info) { return field(info, &rtExceptionInfo::device); }
uint32_t aclrtGetStreamIdFromExceptionInfo(const aclrtExceptionInfo* info) { return field(info, &rtExceptionInfo::stream); }
uint32_t aclrtGetTaskIdFromExceptionInfo(const aclrtExceptionInfo* info) { return field(info, &rtExceptionInfo::task); }
uint32_t aclrtGetThreadIdFromExceptionInfo(const aclrtExceptionInfo* info) { return field(info, &rtExceptionInfo::thread); }
uint32_t aclrtGetErrorCodeFromExceptionInfo(const aclrtExceptionInfo* info) { return field(info, &rtExceptionInfo::code); }
}
