// libdcmi: the driver's management interface, which monitors call. A card is a device of softcann, with one chip; what all
// processes of the machine tell of it (rt/base/process_usage.h) is the answer. What only hardware has is refused as unsupported.
#pragma GCC visibility push(default)
#include "dcmi/dcmi_interface_api.h"
#pragma GCC visibility pop

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "rt/base/soc_spec.h"
#include "rt/base/process_usage.h"

using namespace softcann;

namespace {

constexpr uint64_t kMiB = 1 << 20;

struct Card {
  std::string soc;
  uint64_t used = 0, capacity = 0;
};

// As many as this process would have, or another has.
int card_count(const std::vector<StatusCopy>& processes) {
  auto count = static_cast<uint32_t>(options().device_count);
  for (const StatusCopy& process : processes) count = std::max(count, process.device_count);
  return static_cast<int>(count);
}

Card card_of(int id, const std::vector<StatusCopy>& processes) {
  Card card;
  for (const StatusCopy& process : processes) {
    const auto& device = process.devices[id];
    if (!device.open) continue;
    card.soc = process.soc;
    card.used += device.used;
    card.capacity = std::max(card.capacity, device.capacity);
  }
  if (card.soc.empty()) card.soc = options().soc;
  if (card.capacity == 0) card.capacity = options().memory;
  return card;
}

bool exists(int card, int device) { return card >= 0 && device == 0 && card < card_count(all_statuses()); }

int give_text(const char* text, char* out, unsigned int length) {
  if (out == nullptr || length <= std::strlen(text)) return DCMI_ERR_CODE_INVALID_PARAMETER;
  std::strcpy(out, text);
  return DCMI_OK;
}

// The release of CANN that is served.
int give_version(char* out, unsigned int length) {
  aclCANNPackageVersion version{};
  if (aclsysGetCANNVersion(ACL_PKG_NAME_DRIVER, &version) != ACL_SUCCESS) return DCMI_ERR_CODE_INNER_ERR;
  return give_text(version.version, out, length);
}

template <class Info>
int give_chip(int card_id, int device_id, Info* info) {
  if (info == nullptr) return DCMI_ERR_CODE_INVALID_PARAMETER;
  const auto processes = all_statuses();
  if (card_id < 0 || device_id != 0 || card_id >= card_count(processes)) return DCMI_ERR_CODE_INVALID_DEVICE_ID;
  const std::string soc = card_of(card_id, processes).soc;
  constexpr char kFamily[] = "Ascend";
  const bool named = soc.rfind(kFamily, 0) == 0;
  std::memset(info, 0, sizeof *info);
  const auto write = [](unsigned char* to, const std::string& text) {
    std::snprintf(reinterpret_cast<char*>(to), MAX_CHIP_NAME_LEN, "%s", text.c_str());
  };
  write(info->chip_type, kFamily);
  write(info->chip_name, named ? soc.substr(sizeof kFamily - 1) : soc);
  write(info->chip_ver, "softcann");
  if constexpr (sizeof(Info) == sizeof(dcmi_chip_info_v2)) write(info->npu_name, reinterpret_cast<char*>(info->chip_name));
  info->aicore_cnt = static_cast<unsigned int>(persona_of(soc).cube_cores);
  return DCMI_OK;
}

int give_id(unsigned int id, unsigned int* out) {
  if (out == nullptr) return DCMI_ERR_CODE_INVALID_PARAMETER;
  if (!exists(static_cast<int>(id), 0)) return DCMI_ERR_CODE_INVALID_DEVICE_ID;
  *out = id;
  return DCMI_OK;
}

int give_card(unsigned int id, int* card_id, int* device_id) {
  if (card_id == nullptr || device_id == nullptr) return DCMI_ERR_CODE_INVALID_PARAMETER;
  if (!exists(static_cast<int>(id), 0)) return DCMI_ERR_CODE_INVALID_DEVICE_ID;
  *card_id = static_cast<int>(id);
  *device_id = 0;
  return DCMI_OK;
}

unsigned int percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<unsigned int>(std::min<uint64_t>(100, (part * 100 + whole / 2) / whole));
}

}  // namespace

extern "C" {

// Refuses a wrong setting, as opening a device does: what would be shown is not what was meant.
int dcmi_init(void) { return options().error.empty() ? DCMI_OK : DCMI_ERR_CODE_INVALID_PARAMETER; }

int dcmi_get_dcmi_version(char* dcmi_ver, unsigned int len) { return give_version(dcmi_ver, len); }
int dcmi_get_driver_version(char* driver_ver, unsigned int len) { return give_version(driver_ver, len); }

int dcmi_get_card_list(int* card_num, int* card_list, int list_len) {
  if (card_num == nullptr || card_list == nullptr || list_len <= 0) return DCMI_ERR_CODE_INVALID_PARAMETER;
  *card_num = std::min(card_count(all_statuses()), list_len);
  for (int i = 0; i < *card_num; ++i) card_list[i] = i;
  return DCMI_OK;
}

int dcmi_get_card_num_list(int* card_num, int* card_list, int list_length) {
  return dcmi_get_card_list(card_num, card_list, list_length);
}

int dcmi_get_device_num_in_card(int card_id, int* device_num) {
  if (device_num == nullptr) return DCMI_ERR_CODE_INVALID_PARAMETER;
  if (!exists(card_id, 0)) return DCMI_ERR_CODE_INVALID_DEVICE_ID;
  *device_num = 1;
  return DCMI_OK;
}

int dcmi_get_device_id_in_card(int card_id, int* device_id_max, int* mcu_id, int* cpu_id) {
  if (mcu_id == nullptr || cpu_id == nullptr) return DCMI_ERR_CODE_INVALID_PARAMETER;
  if (const int code = dcmi_get_device_num_in_card(card_id, device_id_max)) return code;
  *mcu_id = *cpu_id = -1;  // there is none
  return DCMI_OK;
}

int dcmi_get_device_logic_id(int* device_logic_id, int card_id, int device_id) {
  if (device_logic_id == nullptr) return DCMI_ERR_CODE_INVALID_PARAMETER;
  if (!exists(card_id, device_id)) return DCMI_ERR_CODE_INVALID_DEVICE_ID;
  *device_logic_id = card_id;
  return DCMI_OK;
}

int dcmi_get_device_phyid_from_logicid(unsigned int logicid, unsigned int* phyid) { return give_id(logicid, phyid); }
int dcmi_get_device_logicid_from_phyid(unsigned int phyid, unsigned int* logicid) { return give_id(phyid, logicid); }

int dcmi_get_card_id_device_id_from_logicid(int* card_id, int* device_id, unsigned int device_logic_id) {
  return give_card(device_logic_id, card_id, device_id);
}

int dcmi_get_card_id_device_id_from_phyid(int* card_id, int* device_id, unsigned int device_phy_id) {
  return give_card(device_phy_id, card_id, device_id);
}

// A software device runs on any processor that its process may use.
int dcmi_get_affinity_cpu_info_by_device_id(int card_id, int device_id, char* affinity_cpu, int* length) {
  if (affinity_cpu == nullptr || length == nullptr) return DCMI_ERR_CODE_INVALID_PARAMETER;
  if (!exists(card_id, device_id)) return DCMI_ERR_CODE_INVALID_DEVICE_ID;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return DCMI_ERR_CODE_INNER_ERR;
  std::string list;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    const int first = cpu;
    while (cpu + 1 < CPU_SETSIZE && CPU_ISSET(cpu + 1, &set)) ++cpu;
    list += (list.empty() ? "" : ",") + std::to_string(first) + (cpu > first ? "-" + std::to_string(cpu) : "");
  }
  if (*length <= static_cast<int>(list.size())) return DCMI_ERR_CODE_INVALID_PARAMETER;
  std::strcpy(affinity_cpu, list.c_str());
  *length = static_cast<int>(list.size());
  return DCMI_OK;
}

int dcmi_get_device_chip_info(int card_id, int device_id, dcmi_chip_info* chip_info) {
  return give_chip(card_id, device_id, chip_info);
}

int dcmi_get_device_chip_info_v2(int card_id, int device_id, dcmi_chip_info_v2* chip_info) {
  return give_chip(card_id, device_id, chip_info);
}

int dcmi_get_device_health(int card_id, int device_id, unsigned int* health) {
  if (health == nullptr) return DCMI_ERR_CODE_INVALID_PARAMETER;
  if (!exists(card_id, device_id)) return DCMI_ERR_CODE_INVALID_DEVICE_ID;
  *health = 0;  // a software device is always well: what fails is the process that uses it
  return DCMI_OK;
}

int dcmi_get_device_errorcode_v2(int card_id, int device_id, int* error_count, unsigned int* error_code_list, unsigned int) {
  if (error_count == nullptr || error_code_list == nullptr) return DCMI_ERR_CODE_INVALID_PARAMETER;
  if (!exists(card_id, device_id)) return DCMI_ERR_CODE_INVALID_DEVICE_ID;
  *error_count = 0;
  return DCMI_OK;
}

int dcmi_get_device_hbm_info(int card_id, int device_id, dcmi_hbm_info* hbm_info) {
  if (hbm_info == nullptr) return DCMI_ERR_CODE_INVALID_PARAMETER;
  const auto processes = all_statuses();
  if (card_id < 0 || device_id != 0 || card_id >= card_count(processes)) return DCMI_ERR_CODE_INVALID_DEVICE_ID;
  const Card card = card_of(card_id, processes);
  // What is not known has no value of its own in this structure; these are outside of what hardware reports.
  *hbm_info = {card.capacity / kMiB, 0, (card.used + kMiB - 1) / kMiB, -1, UINT32_MAX};
  return DCMI_OK;
}

int dcmi_get_hbm_info(int card_id, int device_id, dcmi_hbm_info* hbm_info) {
  return dcmi_get_device_hbm_info(card_id, device_id, hbm_info);
}

// All memory of a device is what hardware has as HBM; of DDR there is none.
int dcmi_get_device_memory_info_v3(int card_id, int device_id, dcmi_get_memory_info_stru* memory_info) {
  if (memory_info == nullptr) return DCMI_ERR_CODE_INVALID_PARAMETER;
  if (!exists(card_id, device_id)) return DCMI_ERR_CODE_INVALID_DEVICE_ID;
  std::memset(memory_info, 0, sizeof *memory_info);
  return DCMI_OK;
}

int dcmi_get_device_utilization_rate(int card_id, int device_id, int input_type, unsigned int* utilization_rate) {
  if (utilization_rate == nullptr) return DCMI_ERR_CODE_INVALID_PARAMETER;
  const auto processes = all_statuses();
  if (card_id < 0 || device_id != 0 || card_id >= card_count(processes)) return DCMI_ERR_CODE_INVALID_DEVICE_ID;
  switch (input_type) {
    case DCMI_UTILIZATION_RATE_AICORE:
    case DCMI_UTILIZATION_RATE_VECTORCORE:
    case DCMI_UTILIZATION_RATE_NPU:
      *utilization_rate = static_cast<unsigned int>(recent_utilization(card_id));
      return DCMI_OK;
    case DCMI_UTILIZATION_RATE_HBM: {
      const Card card = card_of(card_id, processes);
      *utilization_rate = percent(card.used, card.capacity);
      return DCMI_OK;
    }
    default:
      return DCMI_ERR_CODE_NOT_SUPPORT;
  }
}

int dcmi_get_device_multi_utilization_rate(int card_id, int device_id, dcmi_multi_utilization_info* util) {
  if (util == nullptr) return DCMI_ERR_CODE_INVALID_PARAMETER;
  unsigned int rate = 0;
  if (const int code = dcmi_get_device_utilization_rate(card_id, device_id, DCMI_UTILIZATION_RATE_NPU, &rate)) return code;
  *util = {rate, rate, rate, rate, {}};
  return DCMI_OK;
}

int dcmi_get_device_resource_info(int card_id, int device_id, dcmi_proc_mem_info* proc_info, int* proc_num) {
  if (proc_info == nullptr || proc_num == nullptr) return DCMI_ERR_CODE_INVALID_PARAMETER;
  const auto processes = all_statuses();
  if (card_id < 0 || device_id != 0 || card_id >= card_count(processes)) return DCMI_ERR_CODE_INVALID_DEVICE_ID;
  int count = 0;
  for (const StatusCopy& process : processes) {
    if (!process.devices[card_id].open || count == MAX_PROC_NUM_IN_DEVICE) continue;
    proc_info[count++] = {process.pid, process.devices[card_id].used};
  }
  *proc_num = count;
  return DCMI_OK;
}

int dcmi_get_device_temperature(int, int, int*) { return DCMI_ERR_CODE_NOT_SUPPORT; }
int dcmi_get_device_power_info(int, int, int*) { return DCMI_ERR_CODE_NOT_SUPPORT; }
int dcmi_mcu_get_power_info(int, int*) { return DCMI_ERR_CODE_NOT_SUPPORT; }
int dcmi_get_device_frequency(int, int, int, unsigned int*) { return DCMI_ERR_CODE_NOT_SUPPORT; }
int dcmi_get_device_pcie_info(int, int, dcmi_pcie_info*) { return DCMI_ERR_CODE_NOT_SUPPORT; }
int dcmi_get_device_pcie_info_v2(int, int, dcmi_pcie_info_all*) { return DCMI_ERR_CODE_NOT_SUPPORT; }
int dcmi_get_pcie_info(int, int, dcmi_pcie_info*) { return DCMI_ERR_CODE_NOT_SUPPORT; }
int dcmi_get_pcie_link_bandwidth_info(int, int, dcmi_pcie_link_bandwidth_info*) { return DCMI_ERR_CODE_NOT_SUPPORT; }
int dcmi_get_device_board_id(int, int, unsigned int*) { return DCMI_ERR_CODE_NOT_SUPPORT; }
int dcmi_get_device_ecc_info(int, int, int, dcmi_ecc_info*) { return DCMI_ERR_CODE_NOT_SUPPORT; }
int dcmi_get_device_fan_count(int, int, int*) { return DCMI_ERR_CODE_NOT_SUPPORT; }
int dcmi_get_device_fan_speed(int, int, int, int*) { return DCMI_ERR_CODE_NOT_SUPPORT; }
int dcmi_get_device_dvpp_ratio_info(int, int, dcmi_dvpp_ratio*) { return DCMI_ERR_CODE_NOT_SUPPORT; }
int dcmi_get_device_info(int, int, int, unsigned int, void*, unsigned int*) { return DCMI_ERR_CODE_NOT_SUPPORT; }
}
