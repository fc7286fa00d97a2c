#include "comm/communicator.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <mutex>
#include <random>
#include <vector>

using namespace softcann;

namespace softcann {

Communicator* find_communicator(HcclComm handle, const char* entry) {
  auto* communicator = static_cast<Communicator*>(handle);
  if (communicator != nullptr && communicator->magic.load(std::memory_order_acquire) == Communicator::kAlive) {
    return communicator;
  }
  fail(HCCL_E_PARA, "%s: communicator %p does not exist", entry, handle);
  return nullptr;
}

HcclResult hccl_fail_last(aclError code) {
  return code == ACL_ERROR_RT_MEMORY_ALLOCATION ? HCCL_E_OOM : code == ACL_ERROR_RT_PARAM_INVALID ? HCCL_E_PARA
      : HCCL_E_RUNTIME;
}

size_t bytes_of(HcclDataType type) {
  switch (type) {
    case HCCL_DATA_TYPE_INT8:
    case HCCL_DATA_TYPE_UINT8:
    case HCCL_DATA_TYPE_HIF8:
    case HCCL_DATA_TYPE_FP8E4M3:
    case HCCL_DATA_TYPE_FP8E5M2:
    case HCCL_DATA_TYPE_FP8E8M0: return 1;
    case HCCL_DATA_TYPE_INT16:
    case HCCL_DATA_TYPE_UINT16:
    case HCCL_DATA_TYPE_FP16:
    case HCCL_DATA_TYPE_BFP16: return 2;
    case HCCL_DATA_TYPE_INT32:
    case HCCL_DATA_TYPE_UINT32:
    case HCCL_DATA_TYPE_FP32: return 4;
    case HCCL_DATA_TYPE_INT64:
    case HCCL_DATA_TYPE_UINT64:
    case HCCL_DATA_TYPE_FP64: return 8;
    case HCCL_DATA_TYPE_INT128: return 16;
    default: return 0;
  }
}

}  // namespace softcann

namespace {

constexpr char kRootMagic[] = "softcann-root";

struct RootInfo {
  char magic[sizeof kRootMagic];
  int32_t pid;
  uint64_t nonce;
};
static_assert(sizeof(RootInfo) <= HCCL_ROOT_INFO_BYTES);

// Communicators that were destroyed, to be used again.
struct Pool {
  std::mutex mutex;
  std::vector<Communicator*> unused;
};

Pool& pool() {
  static auto* instance = new Pool;
  return *instance;
}

Communicator* take_communicator() {
  std::lock_guard<std::mutex> lock(pool().mutex);
  if (pool().unused.empty()) pool().unused.push_back(new Communicator);
  Communicator* taken = pool().unused.back();
  pool().unused.pop_back();
  return taken;
}

std::atomic<int32_t> process_configs[HCCL_CONFIG_RESERVED];

HcclResult init(const char* entry, uint32_t ranks, const HcclRootInfo* root, uint32_t rank, const char* name,
    HcclComm* comm) {
  if (root == nullptr || comm == nullptr) return hccl_fail(HCCL_E_PTR, "%s: rootInfo or comm is a null pointer", entry);
  RootInfo info{};
  std::memcpy(&info, root->internal, sizeof info);
  if (std::memcmp(info.magic, kRootMagic, sizeof kRootMagic) != 0) {
    return hccl_fail(HCCL_E_PARA, "%s: rootInfo is not from HcclGetRootInfo", entry);
  }
  if (ranks == 0 || rank >= ranks) return hccl_fail(HCCL_E_PARA, "%s: rank %u of %u", entry, rank, ranks);
  if (ranks > 1) return hccl_fail(HCCL_E_NOT_SUPPORT, "%s: softcann cannot connect %u ranks yet, only 1", entry, ranks);
  if (current_device() < 0) {
    return hccl_fail(HCCL_E_RUNTIME, "%s: this thread has no context; call aclrtSetDevice first", entry);
  }
  Communicator* made = take_communicator();
  made->rank = rank;
  made->ranks = ranks;
  made->device = current_device();
  char unique[64];
  std::snprintf(unique, sizeof unique, "softcann-%d-%llx", info.pid, static_cast<unsigned long long>(info.nonce));
  made->name = name != nullptr && *name != 0 ? name : unique;
  made->magic.store(Communicator::kAlive, std::memory_order_release);
  *comm = made;
  return HCCL_SUCCESS;
}

}  // namespace

extern "C" {

HcclResult HcclGetRootInfo(HcclRootInfo* rootInfo) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclGetRootInfo);
  if (rootInfo == nullptr) return hccl_fail(HCCL_E_PTR, "HcclGetRootInfo: rootInfo is a null pointer");
  RootInfo info{};
  std::memcpy(info.magic, kRootMagic, sizeof kRootMagic);
  info.pid = getpid();
  std::random_device random;
  info.nonce = uint64_t{random()} << 32 | random();
  *rootInfo = HcclRootInfo{};
  std::memcpy(rootInfo->internal, &info, sizeof info);
  return HCCL_SUCCESS;
}

HcclResult HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank, HcclComm* comm) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclCommInitRootInfo);
  return init("HcclCommInitRootInfo", nRanks, rootInfo, rank, nullptr, comm);
}

HcclResult HcclCommInitRootInfoConfig(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank,
    const HcclCommConfig* config, HcclComm* comm) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclCommInitRootInfoConfig);
  if (config == nullptr) return hccl_fail(HCCL_E_PTR, "HcclCommInitRootInfoConfig: config is a null pointer");
  const std::string name(config->hcclCommName, strnlen(config->hcclCommName, sizeof config->hcclCommName));
  return init("HcclCommInitRootInfoConfig", nRanks, rootInfo, rank, name.c_str(), comm);
}

// The capabilities below this number are known: buffer size, determinism and name.
uint32_t HcclGetCommConfigCapability() {
  SOFTCANN_ENTRY_VALUE(HcclGetCommConfigCapability, 0);
  return HCCL_COMM_CONFIG_OP_EXPANSION_MODE;
}

HcclResult HcclCommDestroy(HcclComm comm) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclCommDestroy);
  Communicator* found = find_communicator(comm, "HcclCommDestroy");
  if (found == nullptr) return HCCL_E_PARA;
  found->magic.store(0, std::memory_order_release);
  std::lock_guard<std::mutex> lock(pool().mutex);
  pool().unused.push_back(found);
  return HCCL_SUCCESS;
}

HcclResult HcclGetRankId(HcclComm comm, uint32_t* rank) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclGetRankId);
  const Communicator* found = find_communicator(comm, "HcclGetRankId");
  if (found == nullptr) return HCCL_E_PARA;
  if (rank == nullptr) return hccl_fail(HCCL_E_PTR, "HcclGetRankId: rank is a null pointer");
  *rank = found->rank;
  return HCCL_SUCCESS;
}

HcclResult HcclGetRankSize(HcclComm comm, uint32_t* rankSize) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclGetRankSize);
  const Communicator* found = find_communicator(comm, "HcclGetRankSize");
  if (found == nullptr) return HCCL_E_PARA;
  if (rankSize == nullptr) return hccl_fail(HCCL_E_PTR, "HcclGetRankSize: rankSize is a null pointer");
  *rankSize = found->ranks;
  return HCCL_SUCCESS;
}

HcclResult HcclGetCommName(HcclComm comm, char* commName) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclGetCommName);
  const Communicator* found = find_communicator(comm, "HcclGetCommName");
  if (found == nullptr) return HCCL_E_PARA;
  if (commName == nullptr) return hccl_fail(HCCL_E_PTR, "HcclGetCommName: commName is a null pointer");
  std::snprintf(commName, COMM_NAME_MAX_LENGTH, "%s", found->name.c_str());
  return HCCL_SUCCESS;
}

HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult* asyncError) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclGetCommAsyncError);
  if (find_communicator(comm, "HcclGetCommAsyncError") == nullptr) return HCCL_E_PARA;
  if (asyncError == nullptr) return hccl_fail(HCCL_E_PTR, "HcclGetCommAsyncError: asyncError is a null pointer");
  *asyncError = HCCL_SUCCESS;
  return HCCL_SUCCESS;
}

HcclResult HcclSetConfig(HcclConfig config, HcclConfigValue configValue) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclSetConfig);
  if (config < HCCL_DETERMINISTIC || config >= HCCL_CONFIG_RESERVED) {
    return hccl_fail(HCCL_E_PARA, "HcclSetConfig: unknown setting %d", static_cast<int>(config));
  }
  process_configs[config].store(configValue.value, std::memory_order_relaxed);
  return HCCL_SUCCESS;
}

HcclResult HcclGetConfig(HcclConfig config, HcclConfigValue* configValue) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclGetConfig);
  if (configValue == nullptr) return hccl_fail(HCCL_E_PTR, "HcclGetConfig: configValue is a null pointer");
  if (config < HCCL_DETERMINISTIC || config >= HCCL_CONFIG_RESERVED) {
    return hccl_fail(HCCL_E_PARA, "HcclGetConfig: unknown setting %d", static_cast<int>(config));
  }
  configValue->value = process_configs[config].load(std::memory_order_relaxed);
  return HCCL_SUCCESS;
}

const char* HcclGetErrorString(HcclResult code) {
  SOFTCANN_ENTRY_VALUE(HcclGetErrorString, nullptr);
  switch (code) {
    case HCCL_SUCCESS: return "no error";
    case HCCL_E_PARA: return "invalid parameter";
    case HCCL_E_PTR: return "null pointer";
    case HCCL_E_MEMORY: return "memory error";
    case HCCL_E_INTERNAL: return "internal error";
    case HCCL_E_NOT_SUPPORT: return "not supported";
    case HCCL_E_UNAVAIL: return "resource unavailable";
    case HCCL_E_TIMEOUT: return "timeout";
    case HCCL_E_RUNTIME: return "runtime error";
    case HCCL_E_REMOTE: return "error of a remote rank";
    case HCCL_E_OOM: return "out of memory";
    default: return "unknown error";
  }
}
}
