// Making communicators, as clients call it.
#include <cstring>
#include <vector>

#include "comm/group.h"
#include "comm/setup.h"

using namespace softcann;

namespace {

HcclResult read_root(const char* entry, const HcclRootInfo* root, RootInfo* info) {
  if (root == nullptr) return hccl_fail(HCCL_E_PTR, "%s: rootInfo is a null pointer", entry);
  std::memcpy(info, root->internal, sizeof *info);
  if (std::memcmp(info->magic, RootInfo::kMagic, sizeof info->magic) != 0) {
    return hccl_fail(HCCL_E_PARA, "%s: rootInfo is not from HcclGetRootInfo", entry);
  }
  return HCCL_SUCCESS;
}

HcclResult get_root(const char* entry, HcclRootInfo* made) {
  if (made == nullptr) return hccl_fail(HCCL_E_PTR, "%s: rootInfo is a null pointer", entry);
  RootInfo info;
  if (const HcclResult wrong = make_root(entry, &info)) return wrong;
  *made = HcclRootInfo{};
  std::memcpy(made->internal, &info, sizeof info);
  return HCCL_SUCCESS;
}

HcclResult init(const char* entry, uint32_t ranks, const HcclRootInfo* root, uint32_t rank, Settings settings, HcclComm* comm) {
  RootInfo info{};
  if (comm == nullptr) return hccl_fail(HCCL_E_PTR, "%s: comm is a null pointer", entry);
  if (const HcclResult wrong = read_root(entry, root, &info)) return wrong;
  if (const HcclResult wrong = check_place(entry, ranks, rank)) return wrong;
  if (settings.name.empty()) settings.name = unique_name(info);
  const Member member{rank, ranks, current_device(), settings.name, settings.limits, settings.symmetric_gib};
  if (!group::open()) return connect(entry, info, member, comm);
  return group::add([=] { return connect(entry, info, member, comm); });
}

// Refusals count in a group.
HcclResult init_in_group(const char* entry, uint32_t ranks, const HcclRootInfo* root, uint32_t rank, Settings settings,
                         HcclComm* comm) {
  const HcclResult code = init(entry, ranks, root, rank, std::move(settings), comm);
  if (code != HCCL_SUCCESS && group::open()) group::refuse(entry);
  return code;
}

}  // namespace

extern "C" {

HcclResult HcclGetRootInfo(HcclRootInfo* rootInfo) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclGetRootInfo);
  return get_root("HcclGetRootInfo", rootInfo);
}

HcclResult HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank, HcclComm* comm) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclCommInitRootInfo);
  return init_in_group("HcclCommInitRootInfo", nRanks, rootInfo, rank, Settings{}, comm);
}

HcclResult HcclCommInitRootInfoConfig(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank, const HcclCommConfig* config,
                                      HcclComm* comm) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclCommInitRootInfoConfig);
  Settings settings;
  if (const HcclResult wrong = read_config("HcclCommInitRootInfoConfig", config, &settings)) return wrong;
  return init_in_group("HcclCommInitRootInfoConfig", nRanks, rootInfo, rank, settings, comm);
}

HcclResult HcclGetRootInfoScalable(HcclRootInfo* rootInfo) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclGetRootInfoScalable);
  return get_root("HcclGetRootInfoScalable", rootInfo);
}

// With several roots the ranks of large clusters meet in groups first. Here one root serves as many ranks as there can be, and
// the others are not needed.
HcclResult HcclCommInitRootInfoScalable(uint32_t nRanks, uint32_t nRoot, const HcclRootInfo* rootInfoList, uint32_t rank,
                                        uint32_t nExtRoot, const HcclCommConfig* config, HcclComm* comm) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclCommInitRootInfoScalable);
  constexpr const char* entry = "HcclCommInitRootInfoScalable";
  if (rootInfoList == nullptr) return hccl_fail(HCCL_E_PTR, "%s: rootInfoList is a null pointer", entry);
  if (nRoot == 0 || nRoot > nRanks) return hccl_fail(HCCL_E_PARA, "%s: %u roots of %u ranks", entry, nRoot, nRanks);
  if (nExtRoot != 0) return hccl_fail(HCCL_E_NOT_SUPPORT, "%s: nExtRoot %u; only 0 is supported", entry, nExtRoot);
  std::vector<RootInfo> roots(nRoot);
  for (uint32_t i = 0; i < nRoot; ++i) {
    if (const HcclResult wrong = read_root(entry, &rootInfoList[i], &roots[i])) return wrong;
  }
  Settings settings;
  if (const HcclResult wrong = read_config(entry, config, &settings)) return wrong;
  const HcclResult code = init_in_group(entry, nRanks, rootInfoList, rank, settings, comm);
  for (uint32_t i = 1; i < nRoot; ++i) close_root(roots[i].nonce);
  return code;
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
  close_root(info.nonce);
  if (code != HCCL_SUCCESS) return code;
  for (uint32_t rank = 0; rank < ndev; ++rank)
    comms[rank] = publish(members[rank], info.secret, std::move(joined[rank]))->handle();
  return HCCL_SUCCESS;
}
}
