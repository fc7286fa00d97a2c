#include "rt/device/exceptions.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "rt/base/error.h"

using namespace softcann;

struct rtExceptionInfo {
  uint32_t device, stream, task, thread, code;
};

namespace {

std::atomic<aclrtExceptionInfoCallback> callback{nullptr};
std::atomic<uint32_t> failures{0};

constexpr uint32_t kNothing = 0xFFFFFFFF;

template <class T>
uint32_t field(const aclrtExceptionInfo* info, T member) {
  return info == nullptr ? kNothing : info->*member;
}

}  // namespace

namespace softcann {

void tell_exception(int device, int stream, aclError code) {
  const aclrtExceptionInfoCallback told = callback.load();
  if (told == nullptr) return;
  // softcann's tasks have no numbers; failures do.
  rtExceptionInfo info{static_cast<uint32_t>(device), static_cast<uint32_t>(stream), failures.fetch_add(1) + 1,
                       static_cast<uint32_t>(syscall(SYS_gettid)), static_cast<uint32_t>(code)};
  told(&info);
}

}  // namespace softcann

extern "C" {

aclError aclrtSetExceptionInfoCallback(aclrtExceptionInfoCallback function) {
  SOFTCANN_ENTRY(aclrtSetExceptionInfoCallback);
  callback.store(function);  // null: nobody is told any more
  return ACL_SUCCESS;
}

uint32_t aclrtGetDeviceIdFromExceptionInfo(const aclrtExceptionInfo* info) { return field(info, &rtExceptionInfo::device); }
uint32_t aclrtGetStreamIdFromExceptionInfo(const aclrtExceptionInfo* info) { return field(info, &rtExceptionInfo::stream); }
uint32_t aclrtGetTaskIdFromExceptionInfo(const aclrtExceptionInfo* info) { return field(info, &rtExceptionInfo::task); }
uint32_t aclrtGetThreadIdFromExceptionInfo(const aclrtExceptionInfo* info) { return field(info, &rtExceptionInfo::thread); }
uint32_t aclrtGetErrorCodeFromExceptionInfo(const aclrtExceptionInfo* info) { return field(info, &rtExceptionInfo::code); }
}
