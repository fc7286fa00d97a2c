// Communicators of some of another one's ranks.
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "comm/setup.h"
#include "rt/sync.h"

using namespace softcann;

namespace {

static_assert(sizeof(RootInfo) <= sizeof(Invitation::data));
constexpr uint64_t kNotTakingPart = UINT32_MAX;

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15;
  return hash ^ hash >> 29;
}

// Names this making of this sub-communicator: all members come to the same number, and the next time to another one.
uint64_t key_of(Communicator* parent, uint64_t id, const uint32_t* ranks, uint32_t count) {
  uint64_t hash = mix(count, id);
  for (uint32_t i = 0; i < count; ++i) hash = mix(hash, ranks[i]);
  std::lock_guard<std::mutex> lock(parent->mutex);
  return std::max<uint64_t>(1, mix(hash, parent->children[hash]++));
}

// The root info travels over the parent's connections, its secret does not: who knows the parent's can tell it.
Digest secret_of(const Communicator* parent, uint64_t key, const RootInfo& info) {
  std::string text = "sub-communicator";
  text.append(reinterpret_cast<const char*>(&key), sizeof key);
  text.append(reinterpret_cast<const char*>(&info.nonce), sizeof info.nonce);
  return hmac_sha256(parent->secret, text);
}

// Waits for the member that makes the root.
HcclResult wait_for_root(const Communicator* parent, uint32_t rank, uint64_t key, int64_t limit_s, RootInfo* info) {
  const int64_t start = now_ns();
  while (!parent->transport->invited(rank, key, info, sizeof *info)) {
    std::string text;
    if (const HcclResult broken = parent->transport->failure(&text)) {
      return hccl_fail(broken, "HcclCreateSubCommConfig: %s", text.c_str());
    }
    if (limit_s != 0 && now_ns() - start > limit_s * 1000000000) {
      return hccl_fail(HCCL_E_TIMEOUT,
                       "HcclCreateSubCommConfig: rank %u of communicator %s did not make the same call within %lld s "
                       "(HCCL_CONNECT_TIMEOUT)",
                       rank, parent->name.c_str(), static_cast<long long>(limit_s));
    }
    usleep(100);
  }
  return HCCL_SUCCESS;
}

HcclResult check_members(const Communicator* parent, const uint32_t* ranks, uint32_t count, uint32_t own) {
  if (own >= count || ranks[own] != parent->rank) {
    return hccl_fail(HCCL_E_PARA, "HcclCreateSubCommConfig: rank %u is not number %u of the %u ranks given", parent->rank, own,
                     count);
  }
  for (uint32_t i = 0; i < count; ++i) {
    if (ranks[i] >= parent->ranks || std::find(ranks, ranks + i, ranks[i]) != ranks + i) {
      return hccl_fail(HCCL_E_PARA, "HcclCreateSubCommConfig: rank %u is given twice, or is not one of %u", ranks[i],
                       parent->ranks);
    }
  }
  return HCCL_SUCCESS;
}

}  // namespace

extern "C" {

HcclResult HcclCreateSubCommConfig(HcclComm* comm, uint32_t rankNum, uint32_t* rankIds, uint64_t subCommId,
                                   uint32_t subCommRankId, HcclCommConfig* config, HcclComm* subComm) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclCreateSubCommConfig);
  if (comm == nullptr || subComm == nullptr) {
    return hccl_fail(HCCL_E_PTR, "HcclCreateSubCommConfig: comm or subComm is a null pointer");
  }
  Communicator* parent = find_communicator(*comm, "HcclCreateSubCommConfig");
  if (parent == nullptr) return HCCL_E_PARA;
  if (rankIds == nullptr && subCommId == kNotTakingPart) {
    *subComm = nullptr;
    return HCCL_SUCCESS;
  }
  if (rankIds == nullptr) return hccl_fail(HCCL_E_PTR, "HcclCreateSubCommConfig: rankIds is a null pointer");
  Settings settings;
  if (const HcclResult wrong = read_config("HcclCreateSubCommConfig", config, &settings)) return wrong;
  if (const HcclResult wrong = check_members(parent, rankIds, rankNum, subCommRankId)) return wrong;
  if (current_device() != parent->device) {
    return hccl_fail(HCCL_E_PARA, "HcclCreateSubCommConfig: the current device is not the communicator's, %d", parent->device);
  }
  const uint64_t key = key_of(parent, subCommId, rankIds, rankNum);
  RootInfo info{};
  const bool makes_root = subCommRankId == 0;
  if (makes_root) {
    if (const HcclResult wrong = make_root("HcclCreateSubCommConfig", &info)) return wrong;
    info.secret = Digest{};
    if (!parent->transport->invite(key, &info, sizeof info)) {
      close_root(info);
      return hccl_fail(HCCL_E_UNAVAIL, "HcclCreateSubCommConfig: too many are being made at once");
    }
  } else if (const HcclResult wrong = wait_for_root(parent, rankIds[0], key, settings.limits.connect_s, &info)) {
    return wrong;
  }
  info.secret = secret_of(parent, key, info);
  if (settings.name.empty()) settings.name = unique_name(info);
  const Member member{subCommRankId, rankNum, parent->device, settings.name, settings.limits};
  const HcclResult code = connect("HcclCreateSubCommConfig", info, member, subComm);
  if (makes_root) parent->transport->withdraw(key);
  return code;
}
}
