// Communicators of some of another one's ranks, or of all of them in its place.
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "comm/setup.h"
#include "rt/base/sync.h"

using namespace softcann;

namespace {

static_assert(sizeof(RootInfo) <= sizeof(Invitation::data));
constexpr uint64_t kNotTakingPart = UINT32_MAX;
constexpr uint64_t kResumed = UINT64_MAX;  // no client's number for a sub-communicator

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

// Waits for the member that makes the root. `replaces`: the parent may be broken.
HcclResult wait_for_root(const char* entry, const Communicator* parent, uint32_t rank, uint64_t key, int64_t limit_s,
                         bool replaces, RootInfo* info) {
  const int64_t start = now_ns();
  while (!parent->transport->invited(rank, key, info, sizeof *info)) {
    std::string text;
    const HcclResult broken = parent->transport->failure(&text);
    if (broken != HCCL_SUCCESS && !replaces) return hccl_fail(broken, "%s: %s", entry, text.c_str());
    if (limit_s != 0 && now_ns() - start > limit_s * 1000000000) {
      return hccl_fail(HCCL_E_TIMEOUT,
                       "%s: rank %u of communicator %s did not make the same call within %lld s (HCCL_CONNECT_TIMEOUT)", entry,
                       rank, parent->name.c_str(), static_cast<long long>(limit_s));
    }
    usleep(100);
  }
  return HCCL_SUCCESS;
}

// What members of `parent` make of it.
struct Derived {
  const uint32_t* ranks;
  uint32_t count;
  uint32_t own;  // this rank's place among them
  uint64_t id;
  bool replaces;
};

HcclResult derive(const char* entry, Communicator* parent, const Derived& wanted, Settings settings, HcclComm* made) {
  const uint64_t key = key_of(parent, wanted.id, wanted.ranks, wanted.count);
  RootInfo info{};
  const bool makes_root = wanted.own == 0;
  if (makes_root) {
    if (const HcclResult wrong = make_root(entry, &info)) return wrong;
    info.secret = Digest{};
    if (!parent->transport->invite(key, &info, sizeof info)) {
      close_root(info.nonce);
      return hccl_fail(HCCL_E_UNAVAIL, "%s: too many communicators are being made at once", entry);
    }
  } else if (const HcclResult wrong =
                 wait_for_root(entry, parent, wanted.ranks[0], key, settings.limits.connect_s, wanted.replaces, &info)) {
    return wrong;
  }
  info.secret = secret_of(parent, key, info);
  if (settings.name.empty()) settings.name = unique_name(info);
  const Member member{wanted.own, wanted.count, parent->device, settings.name, settings.limits, settings.symmetric_gib};
  const HcclResult code = connect(entry, info, member, made);
  if (makes_root) parent->transport->withdraw(key);
  return code;
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
  return derive("HcclCreateSubCommConfig", parent, {rankIds, rankNum, subCommRankId, subCommId, false}, settings, subComm);
}

HcclResult HcclCommSuspend(HcclComm comm) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclCommSuspend);
  Communicator* found = find_communicator(comm, "HcclCommSuspend");
  if (found == nullptr) return HCCL_E_PARA;
  found->suspended.store(true, std::memory_order_release);
  return HCCL_SUCCESS;
}

// Where nothing has broken it, it simply goes on. Else the ranks, all of which have to call, connect anew.
HcclResult HcclCommResume(HcclComm comm) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclCommResume);
  Communicator* found = find_communicator(comm, "HcclCommResume");
  if (found == nullptr) return HCCL_E_PARA;
  std::string text;
  if (found->transport->failure(&text) != HCCL_SUCCESS) {
    if (current_device() != found->device) {
      return hccl_fail(HCCL_E_PARA, "HcclCommResume: the current device is not the communicator's, %d", found->device);
    }
    std::vector<uint32_t> ranks(found->ranks);
    std::iota(ranks.begin(), ranks.end(), 0U);
    HcclComm made = nullptr;
    Settings settings;
    settings.name = found->name + " (resumed)";
    settings.limits = found->limits;
    const Derived wanted{ranks.data(), found->ranks, found->rank, kResumed, true};
    if (const HcclResult wrong = derive("HcclCommResume", found, wanted, settings, &made)) return wrong;
    Communicator* fresh = find_communicator(made, "HcclCommResume");
    found->transport->leave();
    found->transport = std::move(fresh->transport);
    found->secret = fresh->secret;
    fresh->end_life();
    give_communicator(fresh);
  }
  found->suspended.store(false, std::memory_order_release);
  return HCCL_SUCCESS;
}
}
