#include "comm/setup.h"

#include <cstddef>
#include <cstdio>
#include <cstring>

#include "comm/tcp_mesh.h"
#include "comm/tcp_transport.h"
#include "rt/base/log.h"

namespace softcann {
namespace {

// First bytes of HcclCommConfig.
struct ConfigHeader {
  size_t size;
  uint32_t magic;
  uint32_t version;
  uint64_t reserved;
};
static_assert(sizeof(ConfigHeader) == HCCL_COMM_CONFIG_INFO_BYTES);

}  // namespace

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
  if (header.size >= sizeof(HcclCommConfig)) settings->symmetric_gib = config->hcclSymWinMaxMemSizePerRank;
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

Communicator* publish(const Member& member, const Digest& secret, std::shared_ptr<Transport> transport) {
  Communicator* made = take_communicator();
  made->rank = member.rank;
  made->ranks = member.ranks;
  made->device = member.device;
  made->name = member.name;
  made->secret = secret;
  made->limits = member.limits;
  made->suspended = false;
  made->symmetric_limit = member.symmetric_gib << 30;
  for (auto& config : made->configs) config = 0;
  made->transport = std::move(transport);
  made->children.clear();
  made->begin_life();
  SOFTCANN_LOG(ACL_INFO, "HCCL", "communicator %s was made: rank %u of %u, device %d", made->name.c_str(), made->rank,
               made->ranks, made->device);
  return made;
}

namespace {

// On one machine. HCCL_E_AGAIN when a rank on another one turns up.
HcclResult connect_shared(const char* entry, const RootInfo& info, const Member& member, Acceptor* acceptor,
                          std::shared_ptr<Transport>* made) {
  HcclResult code = HCCL_SUCCESS;
  std::unique_ptr<SharedTransport> transport = member.ranks == 1 ? alone(member) : join(entry, info, member, &code);
  if (code != HCCL_SUCCESS) return code;
  if (transport == nullptr) return hccl_fail(HCCL_E_MEMORY, "%s: no memory", entry);
  if (member.ranks > 1) code = transport->attach(acceptor);
  if (code == HCCL_SUCCESS) *made = std::move(transport);
  return code;
}

HcclResult connect_tcp(const char* entry, const RootInfo& info, const Member& member, Acceptor* acceptor,
                       std::shared_ptr<Transport>* made) {
  if (member.ranks > kMaxRanks) return hccl_fail(HCCL_E_NOT_SUPPORT, "%s: more than %u ranks", entry, kMaxRanks);
  HcclResult code = HCCL_SUCCESS;
  const int64_t limit_s = member.limits.connect_s == 0 ? int64_t{1} << 30 : member.limits.connect_s;
  const int64_t deadline_ns = now_ns() + limit_s * 1000000000;
  Mesh mesh = connect_all(entry, info, member, acceptor, deadline_ns, &code);
  if (mesh.sockets.empty()) return code;
  auto transport = std::make_shared<TcpTransport>(member.rank, std::move(mesh), member.limits.execute_s);
  code = transport->meet(entry, deadline_ns);
  if (code == HCCL_SUCCESS) *made = std::move(transport);
  return code;
}

}  // namespace

HcclResult connect(const char* entry, const RootInfo& info, const Member& member, HcclComm* comm) {
  std::shared_ptr<Transport> transport;
  std::optional<Acceptor> root;
  if (Socket listener = take_listener(info); listener.valid()) root.emplace(std::move(listener), info.secret);
  Acceptor* acceptor = root ? &*root : nullptr;
  HcclResult code = HCCL_E_AGAIN;
  const bool together = info.host == host_identity() && options().transport != "tcp";
  if (member.ranks == 1 || together) code = connect_shared(entry, info, member, acceptor, &transport);
  if (code == HCCL_E_AGAIN) code = connect_tcp(entry, info, member, acceptor, &transport);
  code == HCCL_SUCCESS ? close_root(info.nonce) : abandon_root(info.nonce);
  if (code != HCCL_SUCCESS) return code;
  *comm = publish(member, info.secret, std::move(transport))->handle();
  return HCCL_SUCCESS;
}

}  // namespace softcann
