// The driver's management interface (libdcmi), declared anew from its names, types, order and values: what monitors call.
// A card is an NPU, a device one of its chips.
#pragma once

#define MAX_CHIP_NAME_LEN 32
#define MAX_CARD_NUM 64
#define MAX_PROC_NUM_IN_DEVICE 64
#define DCMI_OK 0
#define DCMI_ERR_CODE_INVALID_PARAMETER (-8001)
#define DCMI_ERR_CODE_INNER_ERR (-8005)
#define DCMI_ERR_CODE_INVALID_DEVICE_ID (-8007)
#define DCMI_ERR_CODE_NOT_REDAY (-8012)
#define DCMI_ERR_CODE_NOT_SUPPORT (-8255)

// Which rate dcmi_get_device_utilization_rate gives.
#define DCMI_UTILIZATION_RATE_DDR 1
#define DCMI_UTILIZATION_RATE_AICORE 2
#define DCMI_UTILIZATION_RATE_AICPU 3
#define DCMI_UTILIZATION_RATE_CTRLCPU 4
#define DCMI_UTILIZATION_RATE_DDR_BANDWIDTH 5
#define DCMI_UTILIZATION_RATE_HBM 6
#define DCMI_UTILIZATION_RATE_HBM_BANDWIDTH 10
#define DCMI_UTILIZATION_RATE_VECTORCORE 12
#define DCMI_UTILIZATION_RATE_NPU 13

#ifdef __cplusplus
extern "C" {
#endif

struct dcmi_chip_info {
  unsigned char chip_type[MAX_CHIP_NAME_LEN];
  unsigned char chip_name[MAX_CHIP_NAME_LEN];
  unsigned char chip_ver[MAX_CHIP_NAME_LEN];
  unsigned int aicore_cnt;
};
struct dcmi_chip_info_v2 {
  unsigned char chip_type[MAX_CHIP_NAME_LEN];
  unsigned char chip_name[MAX_CHIP_NAME_LEN];
  unsigned char chip_ver[MAX_CHIP_NAME_LEN];
  unsigned int aicore_cnt;
  unsigned char npu_name[MAX_CHIP_NAME_LEN];
};
struct dcmi_pcie_info {
  unsigned int deviceid, venderid, subvenderid, subdeviceid, bdf_deviceid, bdf_busid, bdf_funcid;
};
struct dcmi_pcie_info_all {
  unsigned int venderid, subvenderid, deviceid, subdeviceid;
  int domain;
  unsigned int bdf_busid, bdf_deviceid, bdf_funcid;
  unsigned char reserve[32];
};
struct dcmi_hbm_info {
  unsigned long long memory_size;  // MB
  unsigned int freq;
  unsigned long long memory_usage;  // MB
  int temp;
  unsigned int bandwith_util_rate;
};
struct dcmi_get_memory_info_stru {
  unsigned long long memory_size, memory_available;  // MB
  unsigned int freq;
  unsigned long hugepagesize, hugepages_total, hugepages_free;
  unsigned int utiliza;
  unsigned char reserve[60];
};
struct dcmi_multi_utilization_info {
  unsigned int aic_util, aiv_util, aicore_util, npu_util;
  unsigned int reserved[8];
};
struct dcmi_proc_mem_info {
  int proc_id;
  unsigned long proc_mem_usage;  // bytes
};
struct dcmi_ecc_info {
  int enable_flag;
  unsigned int single_bit_error_cnt, double_bit_error_cnt, total_single_bit_error_cnt, total_double_bit_error_cnt,
      single_bit_isolated_pages_cnt, double_bit_isolated_pages_cnt;
};
struct dcmi_dvpp_ratio {
  int vdec_ratio, vpc_ratio, venc_ratio, jpege_ratio, jpegd_ratio;
};
struct dcmi_pcie_link_bandwidth_info {
  int profiling_time;
  unsigned int tx_p_bw[3], tx_np_bw[3], tx_cpl_bw[3], tx_np_lantency[3], rx_p_bw[3], rx_np_bw[3], rx_cpl_bw[3];
};

int dcmi_init(void);
int dcmi_get_dcmi_version(char* dcmi_ver, unsigned int len);
int dcmi_get_driver_version(char* driver_ver, unsigned int len);
int dcmi_get_card_list(int* card_num, int* card_list, int list_len);
int dcmi_get_card_num_list(int* card_num, int* card_list, int list_length);
int dcmi_get_device_num_in_card(int card_id, int* device_num);
int dcmi_get_device_id_in_card(int card_id, int* device_id_max, int* mcu_id, int* cpu_id);
int dcmi_get_device_logic_id(int* device_logic_id, int card_id, int device_id);
int dcmi_get_device_phyid_from_logicid(unsigned int logicid, unsigned int* phyid);
int dcmi_get_device_logicid_from_phyid(unsigned int phyid, unsigned int* logicid);
int dcmi_get_card_id_device_id_from_logicid(int* card_id, int* device_id, unsigned int device_logic_id);
int dcmi_get_card_id_device_id_from_phyid(int* card_id, int* device_id, unsigned int device_phy_id);
int dcmi_get_affinity_cpu_info_by_device_id(int card_id, int device_id, char* affinity_cpu, int* length);
int dcmi_get_device_chip_info(int card_id, int device_id, struct dcmi_chip_info* chip_info);
int dcmi_get_device_chip_info_v2(int card_id, int device_id, struct dcmi_chip_info_v2* chip_info);
int dcmi_get_device_health(int card_id, int device_id, unsigned int* health);
int dcmi_get_device_errorcode_v2(int card_id, int device_id, int* error_count, unsigned int* error_code_list,
                                 unsigned int list_len);
int dcmi_get_device_hbm_info(int card_id, int device_id, struct dcmi_hbm_info* hbm_info);
int dcmi_get_hbm_info(int card_id, int device_id, struct dcmi_hbm_info* hbm_info);
int dcmi_get_device_memory_info_v3(int card_id, int device_id, struct dcmi_get_memory_info_stru* memory_info);
int dcmi_get_device_utilization_rate(int card_id, int device_id, int input_type, unsigned int* utilization_rate);
int dcmi_get_device_multi_utilization_rate(int card_id, int device_id, struct dcmi_multi_utilization_info* util);
int dcmi_get_device_resource_info(int card_id, int device_id, struct dcmi_proc_mem_info* proc_info, int* proc_num);

// Of hardware alone.
int dcmi_get_device_temperature(int card_id, int device_id, int* temperature);
int dcmi_get_device_power_info(int card_id, int device_id, int* power);
int dcmi_mcu_get_power_info(int card_id, int* power);
int dcmi_get_device_frequency(int card_id, int device_id, int input_type, unsigned int* frequency);
int dcmi_get_device_pcie_info(int card_id, int device_id, struct dcmi_pcie_info* pcie_info);
int dcmi_get_device_pcie_info_v2(int card_id, int device_id, struct dcmi_pcie_info_all* pcie_info);
int dcmi_get_pcie_info(int card_id, int device_id, struct dcmi_pcie_info* pcie_info);
int dcmi_get_pcie_link_bandwidth_info(int card_id, int device_id, struct dcmi_pcie_link_bandwidth_info* info);
int dcmi_get_device_board_id(int card_id, int device_id, unsigned int* board_id);
int dcmi_get_device_ecc_info(int card_id, int device_id, int input_type, struct dcmi_ecc_info* ecc_info);
int dcmi_get_device_fan_count(int card_id, int device_id, int* count);
int dcmi_get_device_fan_speed(int card_id, int device_id, int fan_id, int* speed);
int dcmi_get_device_dvpp_ratio_info(int card_id, int device_id, struct dcmi_dvpp_ratio* usage);
int dcmi_get_device_info(int card_id, int device_id, int main_cmd, unsigned int sub_cmd, void* buf, unsigned int* size);

#ifdef __cplusplus
}
#endif
