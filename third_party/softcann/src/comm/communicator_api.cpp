// Asking, configuring and destroying communicators, as clients call it.
#include <cstdio>

#include "comm/communicator.h"
#include "comm/registered_memory.h"

using namespace softcann;

namespace {

std::atomic<int32_t> process_configs[HCCL_CONFIG_RESERVED];

bool is_known(const char* entry, HcclConfig config) {
  if (config >= HCCL_DETERMINISTIC && config < HCCL_CONFIG_RESERVED) return true;
  hccl_fail(HCCL_E_PARA, "%s: unknown setting %d", entry, static_cast<int>(config));
  return false;
}

}  // namespace

extern "C" {

// The capabilities below this number are known: buffer size, determinism, name, ..., time limit.
uint32_t HcclGetCommConfigCapability() {
  SOFTCANN_ENTRY_VALUE(HcclGetCommConfigCapability, 0);
  return HCCL_COMM_CONFIG_ALGO;
}

HcclResult HcclCommDestroy(HcclComm comm) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclCommDestroy);
  Communicator* found = find_communicator(comm, "HcclCommDestroy");
  if (found == nullptr) return HCCL_E_PARA;
  if (!found->end_life()) {
    return hccl_fail(HCCL_E_PARA, "HcclCommDestroy: another thread destroys communicator %p", comm);
  }
  forget_windows(found);
  found->transport->leave();
  found->transport.reset();
  give_communicator(found);
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
  const Communicator* found = find_communicator(comm, "HcclGetCommAsyncError");
  if (found == nullptr) return HCCL_E_PARA;
  if (asyncError == nullptr) return hccl_fail(HCCL_E_PTR, "HcclGetCommAsyncError: asyncError is a null pointer");
  std::string text;
  *asyncError = found->transport->failure(&text);
  if (*asyncError != HCCL_SUCCESS) fail(*asyncError, "communicator %s: %s", found->name.c_str(), text.c_str());
  return HCCL_SUCCESS;
}

HcclResult HcclSetConfig(HcclConfig config, HcclConfigValue configValue) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclSetConfig);
  if (!is_known("HcclSetConfig", config)) return HCCL_E_PARA;
  process_configs[config].store(configValue.value, std::memory_order_relaxed);
  return HCCL_SUCCESS;
}

HcclResult HcclGetConfig(HcclConfig config, HcclConfigValue* configValue) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclGetConfig);
  if (configValue == nullptr) return hccl_fail(HCCL_E_PTR, "HcclGetConfig: configValue is a null pointer");
  if (!is_known("HcclGetConfig", config)) return HCCL_E_PARA;
  configValue->value = process_configs[config].load(std::memory_order_relaxed);
  return HCCL_SUCCESS;
}

// What the settings are for is so here in any case: results repeat, and there is one place to compute them.
HcclResult HcclSetCommConfig(HcclComm comm, HcclConfig config, HcclConfigValue configValue) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclSetCommConfig);
  Communicator* found = find_communicator(comm, "HcclSetCommConfig");
  if (found == nullptr || !is_known("HcclSetCommConfig", config)) return HCCL_E_PARA;
  found->configs[config].store(configValue.value, std::memory_order_relaxed);
  return HCCL_SUCCESS;
}

HcclResult HcclGetCommConfig(HcclComm comm, HcclConfig config, HcclConfigValue* configValue) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclGetCommConfig);
  Communicator* found = find_communicator(comm, "HcclGetCommConfig");
  if (found == nullptr || !is_known("HcclGetCommConfig", config)) return HCCL_E_PARA;
  if (configValue == nullptr) return hccl_fail(HCCL_E_PTR, "HcclGetCommConfig: configValue is a null pointer");
  configValue->value = found->configs[config].load(std::memory_order_relaxed);
  return HCCL_SUCCESS;
}

const char* HcclGetErrorString(HcclResult code) {
  SOFTCANN_ENTRY_VALUE(HcclGetErrorString, nullptr);
  switch (code) {
    case HCCL_SUCCESS:
      return "no error";
    case HCCL_E_PARA:
      return "invalid parameter";
    case HCCL_E_PTR:
      return "null pointer";
    case HCCL_E_MEMORY:
      return "memory error";
    case HCCL_E_INTERNAL:
      return "internal error";
    case HCCL_E_NOT_SUPPORT:
      return "not supported";
    case HCCL_E_NOT_FOUND:
      return "not found";
    case HCCL_E_UNAVAIL:
      return "resource unavailable";
    case HCCL_E_SYSCALL:
      return "system call failed";
    case HCCL_E_TIMEOUT:
      return "timeout";
    case HCCL_E_OPEN_FILE_FAILURE:
      return "cannot open a file";
    case HCCL_E_TCP_CONNECT:
      return "cannot connect";
    case HCCL_E_TCP_TRANSFER:
      return "a connection broke";
    case HCCL_E_RUNTIME:
      return "runtime error";
    case HCCL_E_NETWORK:
      return "network error";
    case HCCL_E_AGAIN:
      return "try again";
    case HCCL_E_REMOTE:
      return "error of a remote rank";
    case HCCL_E_SUSPENDING:
      return "the communicator is suspended";
    case HCCL_E_OOM:
      return "out of memory";
    default:
      return "unknown error";
  }
}
}
