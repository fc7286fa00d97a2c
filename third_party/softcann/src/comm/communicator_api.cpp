// Making, asking and destroying communicators, as clients call it.
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <vector>

#include "comm/communicator.h"
#include "comm/rendezvous.h"

using namespace softcann;

namespace {

std::atomic<int32_t> process_configs[HCCL_CONFIG_RESERVED];

// First bytes of HcclCommConfig.
struct ConfigHeader {
  size_t size;
  uint32_t magic;
  uint32_t version;
  uint64_t reserved;
};
static_assert(sizeof(ConfigHeader) == HCCL_COMM_CONFIG_INFO_BYTES);

struct Settings {
  std::string name;
  TimeLimits limits{static_cast<int64_t>(options().hccl_connect_timeout),
      static_cast<int64_t>(options().hccl_exec_timeout)};
};

HcclResult read_config(const char* entry, const HcclCommConfig* config, Settings* settings) {
  if (config == nullptr) return hccl_fail(HCCL_E_PTR, "%s: config is a null pointer", entry);
  ConfigHeader header;
  std::memcpy(&header, config->reserved, sizeof header);
  if (header.magic != HCCL_COMM_CONFIG_MAGIC_WORD) {
    return hccl_fail(HCCL_E_PARA, "%s: config was not initialized (HcclCommConfigInit)", entry);
  }
  settings->name.assign(config->hcclCommName, strnlen(config->hcclCommName, sizeof config->hcclCommName));
  // A client that was compiled for an earlier version passes a shorter structure.
  const bool has_timeout = header.size >= offsetof(HcclCommConfig, hcclAlgo);
  if (has_timeout && config->hcclExecTimeOut != HCCL_COMM_EXECTIMEOUT_CONFIG_NOT_SET) {
    settings->limits.execute_s = config->hcclExecTimeOut;
  }
  return HCCL_SUCCESS;
}

HcclResult read_root(const char* entry, const HcclRootInfo* root, RootInfo* info) {
  if (root == nullptr) return hccl_fail(HCCL_E_PTR, "%s: rootInfo is a null pointer", entry);
  std::memcpy(info, root->internal, sizeof *info);
  if (std::memcmp(info->magic, RootInfo::kMagic, sizeof info->magic) != 0) {
    return hccl_fail(HCCL_E_PARA, "%s: rootInfo is not from HcclGetRootInfo", entry);
  }
  return HCCL_SUCCESS;
}

HcclResult check_place(const char* entry, uint32_t ranks, uint32_t rank) {
  if (ranks == 0 || rank >= ranks) return hccl_fail(HCCL_E_PARA, "%s: rank %u of %u", entry, rank, ranks);
  if (current_device() < 0) {
    return hccl_fail(HCCL_E_RUNTIME, "%s: this thread has no context; call aclrtSetDevice first", entry);
  }
  return HCCL_SUCCESS;
}

std::string unique_name(const RootInfo& info) {
  char text[64];
  std::snprintf(text, sizeof text, "softcann-%d-%llx", info.pid, static_cast<unsigned long long>(info.nonce));
  return text;
}

Communicator* publish(const Member& member, std::shared_ptr<Transport> transport) {
  Communicator* made = take_communicator();
  made->rank = member.rank;
  made->ranks = member.ranks;
  made->device = member.device;
  made->name = member.name;
  made->transport = std::move(transport);
  made->children.store(0, std::memory_order_relaxed);
  made->magic.store(Communicator::kAlive, std::memory_order_release);
  return made;
}

// Joins and waits for the others.
HcclResult connect(const char* entry, const RootInfo& info, const Member& member, HcclComm* comm) {
  HcclResult code = HCCL_SUCCESS;
  std::shared_ptr<SharedTransport> transport;
  if (member.ranks == 1) {
    transport = alone(member);
    if (transport == nullptr) return hccl_fail(HCCL_E_MEMORY, "%s: no memory", entry);
  } else {
    transport = join(entry, info, member, &code);
    if (transport == nullptr) return code;
    code = transport->attach();
  }
  close_root(info);
  if (code != HCCL_SUCCESS) return code;
  *comm = publish(member, std::move(transport));
  return HCCL_SUCCESS;
}

HcclResult init(const char* entry, uint32_t ranks, const HcclRootInfo* root, uint32_t rank, Settings settings,
    HcclComm* comm) {
  RootInfo info{};
  if (comm == nullptr) return hccl_fail(HCCL_E_PTR, "%s: comm is a null pointer", entry);
  if (const HcclResult wrong = read_root(entry, root, &info)) return wrong;
  if (const HcclResult wrong = check_place(entry, ranks, rank)) return wrong;
  if (settings.name.empty()) settings.name = unique_name(info);
  return connect(entry, info, Member{rank, ranks, current_device(), settings.name, settings.limits}, comm);
}

}  // namespace

extern "C" {

HcclResult HcclGetRootInfo(HcclRootInfo* rootInfo) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclGetRootInfo);
  if (rootInfo == nullptr) return hccl_fail(HCCL_E_PTR, "HcclGetRootInfo: rootInfo is a null pointer");
  RootInfo info;
  if (const HcclResult wrong = make_root("HcclGetRootInfo", &info)) return wrong;
  *rootInfo = HcclRootInfo{};
  std::memcpy(rootInfo->internal, &info, sizeof info);
  return HCCL_SUCCESS;
}

HcclResult HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank, HcclComm* comm) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclCommInitRootInfo);
  return init("HcclCommInitRootInfo", nRanks, rootInfo, rank, Settings{}, comm);
}

HcclResult HcclCommInitRootInfoConfig(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank,
    const HcclCommConfig* config, HcclComm* comm) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclCommInitRootInfoConfig);
  Settings settings;
  if (const HcclResult wrong = read_config("HcclCommInitRootInfoConfig", config, &settings)) return wrong;
  return init("HcclCommInitRootInfoConfig", nRanks, rootInfo, rank, settings, comm);
}

// All ranks are of this process: they join one after the other, then each looks at the others.
HcclResult HcclCommInitAll(uint32_t ndev, int32_t* devices, HcclComm* comms) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclCommInitAll);
  if (devices == nullptr || comms == nullptr) {
    return hccl_fail(HCCL_E_PTR, "HcclCommInitAll: devices or comms is a null pointer");
  }
  if (ndev == 0) return hccl_fail(HCCL_E_PARA, "HcclCommInitAll: no devices");
  RootInfo info;
  if (const HcclResult wrong = make_root("HcclCommInitAll", &info)) return wrong;
  const int before = current_device();
  HcclResult code = HCCL_SUCCESS;
  std::vector<Member> members;
  std::vector<std::shared_ptr<SharedTransport>> joined;
  for (uint32_t rank = 0; rank < ndev && code == HCCL_SUCCESS; ++rank) {
    members.push_back(Member{rank, ndev, devices[rank], unique_name(info), Settings{}.limits});
    for (uint32_t other = 0; other < rank; ++other) {
      if (devices[other] == devices[rank]) {
        code = hccl_fail(HCCL_E_PARA, "HcclCommInitAll: device %d is given twice", devices[rank]);
      }
    }
    if (code != HCCL_SUCCESS) break;
    if (const aclError error = aclrtSetDevice(devices[rank])) {
      code = hccl_fail_last(error);
    } else {
      joined.push_back(join("HcclCommInitAll", info, members.back(), &code));
    }
  }
  if (before >= 0) aclrtSetDevice(before);
  for (size_t i = 0; i < joined.size() && code == HCCL_SUCCESS; ++i) code = joined[i]->open_peers();
  close_root(info);
  if (code != HCCL_SUCCESS) return code;
  for (uint32_t rank = 0; rank < ndev; ++rank) comms[rank] = publish(members[rank], std::move(joined[rank]));
  return HCCL_SUCCESS;
}

// The capabilities below this number are known: buffer size, determinism, name, ..., time limit.
uint32_t HcclGetCommConfigCapability() {
  SOFTCANN_ENTRY_VALUE(HcclGetCommConfigCapability, 0);
  return HCCL_COMM_CONFIG_ALGO;
}

HcclResult HcclCommDestroy(HcclComm comm) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclCommDestroy);
  Communicator* found = find_communicator(comm, "HcclCommDestroy");
  if (found == nullptr) return HCCL_E_PARA;
  uint64_t alive = Communicator::kAlive;
  if (!found->magic.compare_exchange_strong(alive, 0)) {
    return hccl_fail(HCCL_E_PARA, "HcclCommDestroy: another thread destroys communicator %p", comm);
  }
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
    case HCCL_E_NOT_FOUND: return "not found";
    case HCCL_E_UNAVAIL: return "resource unavailable";
    case HCCL_E_SYSCALL: return "system call failed";
    case HCCL_E_TIMEOUT: return "timeout";
    case HCCL_E_OPEN_FILE_FAILURE: return "cannot open a file";
    case HCCL_E_TCP_CONNECT: return "cannot connect";
    case HCCL_E_TCP_TRANSFER: return "a connection broke";
    case HCCL_E_RUNTIME: return "runtime error";
    case HCCL_E_NETWORK: return "network error";
    case HCCL_E_AGAIN: return "try again";
    case HCCL_E_REMOTE: return "error of a remote rank";
    case HCCL_E_SUSPENDING: return "the communicator is suspended";
    case HCCL_E_OOM: return "out of memory";
    default: return "unknown error";
  }
}
}
