// Making communicators, as clients call it.
#include <cstring>
#include <vector>

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

HcclResult init(const char* entry, uint32_t ranks, const HcclRootInfo* root, uint32_t rank, Settings settings, HcclComm* comm) {
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

HcclResult HcclCommInitRootInfoConfig(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank, const HcclCommConfig* config,
                                      HcclComm* comm) {
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
  for (uint32_t rank = 0; rank < ndev; ++rank) comms[rank] = publish(members[rank], info.secret, std::move(joined[rank]));
  return HCCL_SUCCESS;
}
}
