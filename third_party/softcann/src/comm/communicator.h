// Communicators of libhccl.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "rt/base/handles.h"
#include "rt/base/sha256.h"
#include "comm/transport.h"

namespace softcann {

// What HcclComm stands for.
struct Communicator : Handled {
  uint32_t rank = 0;
  uint32_t ranks = 1;
  int device = -1;
  std::string name;
  std::shared_ptr<Transport> transport;  // tasks hold it, too
  Digest secret{};                       // by which its ranks know each other, and those of communicators made of it
  TimeLimits limits;
  std::atomic<bool> suspended{false};
  uint64_t symmetric_limit = 0;                          // bytes of symmetric windows
  std::atomic<int32_t> configs[HCCL_CONFIG_RESERVED]{};  // HcclSetCommConfig
  // How often a sub-communicator of the same description was made; for sub_communicator.cpp.
  std::mutex mutex;
  std::map<uint64_t, uint64_t> children;
};

// The communicator behind a handle; nullptr with the reason recorded.
Communicator* find_communicator(HcclComm handle, const char* entry);
// The one that is alive on a device under a name; nullptr where there is none.
Communicator* find_communicator_named(const char* name, int device);
// One to fill in, not alive yet; and back to the pool.
Communicator* take_communicator();
void give_communicator(Communicator* communicator);

// Records the text for aclGetRecentErrMsg and returns the code.
template <class... Args>
HcclResult hccl_fail(HcclResult code, const char* format, Args... args) {
  fail(code, format, args...);
  return code;
}
// What libhccl calls a failure that libascendcl has recorded.
HcclResult hccl_fail_last(aclError code);

}  // namespace softcann
