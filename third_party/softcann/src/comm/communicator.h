// Communicators of libhccl.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "rt/runtime.h"

#pragma GCC visibility push(default)
#include "hccl/hccl.h"
#pragma GCC visibility pop

namespace softcann {

// What HcclComm points to. Never freed, so a stale handle is recognised.
struct Communicator {
  static constexpr uint64_t kAlive = 0x6d6d6f63e4736674;
  std::atomic<uint64_t> magic{0};
  uint32_t rank = 0;
  uint32_t ranks = 1;
  int device = -1;
  std::string name;
};

// The communicator behind a handle; nullptr with the reason recorded.
Communicator* find_communicator(HcclComm handle, const char* entry);

// Records the text for aclGetRecentErrMsg and returns the code.
template <class... Args>
HcclResult hccl_fail(HcclResult code, const char* format, Args... args) {
  fail(code, format, args...);
  return code;
}
HcclResult hccl_fail_last(aclError code);

// Bytes of one element; 0 for an unknown type.
size_t bytes_of(HcclDataType type);

}  // namespace softcann
