// Data transfer between processes by its older name (libllm_datadist): its types.
#pragma once

#include <cstddef>
#include <cstdint>

#include "acl/acl_rt.h"
#include "external/ge_common/api_error_codes.h"

namespace adxl {

using Status = uint32_t;
using AscendString = ge::AscendString;
using MemHandle = void*;
using TransferReq = void*;

// Options of AdxlEngine::Initialize; those of hixl/hixl_types.h are taken, too.
constexpr const char OPTION_RDMA_TRAFFIC_CLASS[] = "adxl.RdmaTrafficClass";
constexpr const char OPTION_RDMA_SERVICE_LEVEL[] = "adxl.RdmaServiceLevel";
constexpr const char OPTION_BUFFER_POOL[] = "adxl.BufferPool";
constexpr const char OPTION_LOCAL_COMM_RES[] = "adxl.LocalCommRes";
constexpr const char OPTION_AUTO_CONNECT[] = "AutoConnect";

constexpr Status SUCCESS = 0;
constexpr Status PARAM_INVALID = 103900;
constexpr Status TIMEOUT = 103901;
constexpr Status NOT_CONNECTED = 103902;
constexpr Status ALREADY_CONNECTED = 103903;
constexpr Status NOTIFY_FAILED = 103904;
constexpr Status UNSUPPORTED = 103905;
constexpr Status RESOURCE_EXHAUSTED = 203900;
constexpr Status FAILED = 503900;

enum FeatureType : int32_t { AUTO_CONNECT = 0, CLIENT_SERVER_COMM = 1 };
constexpr int32_t FEATURE_NOT_SUPPORTED = 0;
constexpr int32_t FEATURE_SUPPORTED = 1;

enum MemType { MEM_DEVICE, MEM_HOST };
enum TransferOp { READ, WRITE };  // of the remote memory
enum class TransferStatus { WAITING, COMPLETED, TIMEOUT, FAILED };

struct MemDesc {
  uintptr_t addr;
  size_t len;
  uint8_t reserved[128] = {};
};

struct TransferOpDesc {
  uintptr_t local_addr;
  uintptr_t remote_addr;
  size_t len;
};

struct TransferArgs {
  uint8_t reserved[128] = {};
};

struct NotifyDesc {
  AscendString name;
  AscendString notify_msg;
};

}  // namespace adxl
