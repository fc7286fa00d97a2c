#include "comm/communicator.h"

#include <mutex>
#include <vector>

namespace softcann {
namespace {

struct Pool {
  std::mutex mutex;
  std::vector<Communicator*> unused;  // destroyed, to be used again
  std::vector<Communicator*> all;
  HandleBlocks<Communicator> blocks;
};

Pool& pool() {
  static auto* instance = new Pool;
  return *instance;
}

}  // namespace

Communicator* find_communicator(HcclComm handle, const char* entry) {
  Communicator* communicator = pool().blocks.find(handle);
  if (communicator == nullptr) {
    fail(HCCL_E_PARA, "%s: communicator %p does not exist (destroyed, or never made)", entry, handle);
  }
  return communicator;
}

Communicator* find_communicator_named(const char* name, int device) {
  std::lock_guard<std::mutex> lock(pool().mutex);
  for (Communicator* communicator : pool().all) {
    if (communicator->alive() && communicator->device == device && communicator->name == name) return communicator;
  }
  return nullptr;
}

Communicator* take_communicator() {
  std::lock_guard<std::mutex> lock(pool().mutex);
  if (pool().unused.empty()) {
    pool().all.push_back(pool().blocks.add());
    pool().unused.push_back(pool().all.back());
  }
  Communicator* taken = pool().unused.back();
  pool().unused.pop_back();
  return taken;
}

void give_communicator(Communicator* communicator) {
  std::lock_guard<std::mutex> lock(pool().mutex);
  pool().unused.push_back(communicator);
}

HcclResult hccl_fail_last(aclError code) {
  return code == ACL_ERROR_RT_MEMORY_ALLOCATION ? HCCL_E_OOM : code == ACL_ERROR_RT_PARAM_INVALID ? HCCL_E_PARA : HCCL_E_RUNTIME;
}

}  // namespace softcann
