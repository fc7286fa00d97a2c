// libmmpa: the calls of the operating system, by the names that host code of operators has for them.
#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {
constexpr int32_t kWell = 0, kError = -1, kInvalid = -2;
}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int32_t mmGetTid() { return gettid(); }
int32_t mmGetErrorCode() { return errno; }
char* mmDlerror() { return dlerror(); }

int32_t mmDladdr(void* addr, Dl_info* info) {
  if (addr == nullptr || info == nullptr) return kInvalid;
  return dladdr(addr, info) != 0 ? kWell : kError;
}

int32_t mmRealPath(const char* path, char* realPath, int32_t realPathLen) {
  if (path == nullptr || realPath == nullptr || realPathLen < PATH_MAX) return kInvalid;
  return realpath(path, realPath) != nullptr ? kWell : kError;
}

char* mmGetErrorFormatMessage(int32_t errnum, char* buf, size_t size) {
  return buf != nullptr && size != 0 ? strerror_r(errnum, buf, size) : nullptr;
}
}
#pragma GCC visibility pop
