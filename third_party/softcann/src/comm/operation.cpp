#include "comm/operation.h"

namespace softcann {

namespace {

struct Type {
  HcclDataType type;
  size_t bytes;
  const char* name;
  aclDataType acl;
};
constexpr Type kTypes[] = {
    {HCCL_DATA_TYPE_INT8, 1, "int8", ACL_INT8},
    {HCCL_DATA_TYPE_INT16, 2, "int16", ACL_INT16},
    {HCCL_DATA_TYPE_INT32, 4, "int32", ACL_INT32},
    {HCCL_DATA_TYPE_FP16, 2, "float16", ACL_FLOAT16},
    {HCCL_DATA_TYPE_FP32, 4, "float32", ACL_FLOAT},
    {HCCL_DATA_TYPE_INT64, 8, "int64", ACL_INT64},
    {HCCL_DATA_TYPE_UINT64, 8, "uint64", ACL_UINT64},
    {HCCL_DATA_TYPE_UINT8, 1, "uint8", ACL_UINT8},
    {HCCL_DATA_TYPE_UINT16, 2, "uint16", ACL_UINT16},
    {HCCL_DATA_TYPE_UINT32, 4, "uint32", ACL_UINT32},
    {HCCL_DATA_TYPE_FP64, 8, "float64", ACL_DOUBLE},
    {HCCL_DATA_TYPE_BFP16, 2, "bfloat16", ACL_BF16},
    {HCCL_DATA_TYPE_INT128, 16, "int128", ACL_DT_UNDEFINED},
    {HCCL_DATA_TYPE_HIF8, 1, "hif8", ACL_DT_UNDEFINED},
    {HCCL_DATA_TYPE_FP8E4M3, 1, "float8_e4m3", ACL_FLOAT8_E4M3FN},
    {HCCL_DATA_TYPE_FP8E5M2, 1, "float8_e5m2", ACL_FLOAT8_E5M2},
    {HCCL_DATA_TYPE_FP8E8M0, 1, "float8_e8m0", ACL_DT_UNDEFINED},
};

const Type& find(HcclDataType type) {
  static constexpr Type unknown{HCCL_DATA_TYPE_RESERVED, 0, "of an unknown type", ACL_DT_UNDEFINED};
  for (const Type& known : kTypes) {
    if (known.type == type) return known;
  }
  return unknown;
}

struct Name {
  int number;
  const char* name;
};
constexpr Name kReductions[] = {
    {HCCL_REDUCE_SUM, "sum"},
    {HCCL_REDUCE_PROD, "prod"},
    {HCCL_REDUCE_MAX, "max"},
    {HCCL_REDUCE_MIN, "min"},
};
constexpr Name kCalls[] = {
    {HCCL_CMD_BROADCAST, "HcclBroadcast"},
    {HCCL_CMD_ALLREDUCE, "HcclAllReduce"},
    {HCCL_CMD_REDUCE, "HcclReduce"},
    {HCCL_CMD_SEND, "HcclSend"},
    {HCCL_CMD_RECEIVE, "HcclRecv"},
    {HCCL_CMD_ALLGATHER, "HcclAllGather"},
    {HCCL_CMD_REDUCE_SCATTER, "HcclReduceScatter"},
    {HCCL_CMD_ALLTOALLV, "HcclAlltoAllV"},
    {HCCL_CMD_ALLTOALLVC, "HcclAlltoAllVC"},
    {HCCL_CMD_ALLTOALL, "HcclAlltoAll"},
    {HCCL_CMD_SCATTER, "HcclScatter"},
    {HCCL_CMD_BATCH_SEND_RECV, "HcclBatchSendRecv"},
    {HCCL_CMD_ALLGATHER_V, "HcclAllGatherV"},
    {HCCL_CMD_REDUCE_SCATTER_V, "HcclReduceScatterV"},
    {HCCL_CMD_BARRIER, "HcclBarrier"},
};

template <size_t count>
const char* find(const Name (&names)[count], int number, const char* otherwise) {
  for (const Name& known : names) {
    if (known.number == number) return known.name;
  }
  return otherwise;
}

bool has_root(uint8_t kind) { return kind == HCCL_CMD_BROADCAST || kind == HCCL_CMD_REDUCE || kind == HCCL_CMD_SCATTER; }

bool reduces(uint8_t kind) {
  return kind == HCCL_CMD_ALLREDUCE || kind == HCCL_CMD_REDUCE || kind == HCCL_CMD_REDUCE_SCATTER ||
         kind == HCCL_CMD_REDUCE_SCATTER_V;
}

}  // namespace

size_t bytes_of(HcclDataType type) { return find(type).bytes; }
const char* name_of(HcclDataType type) { return find(type).name; }
aclDataType acl_type_of(HcclDataType type) { return find(type).acl; }
const char* name_of(HcclReduceOp op) { return find(kReductions, op, "an unknown reduction"); }

std::string list_of(uint64_t ranks) {
  std::string text;
  for (uint32_t rank = 0; rank < kMaxRanks; ++rank) {
    if ((ranks >> rank & 1) != 0) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  }
  return text;
}

std::string describe(const Call& call) {
  std::string text = find(kCalls, call.kind, "an unknown call");
  if (call.kind == HCCL_CMD_BARRIER || call.kind == HCCL_CMD_BATCH_SEND_RECV) return text;
  text += " of ";
  // The V variants have a count for each rank; all that is common is the type.
  const bool varies = call.kind == HCCL_CMD_ALLTOALLV || call.kind == HCCL_CMD_ALLTOALLVC;
  if (!varies) text += std::to_string(call.count) + " ";
  text += name_of(static_cast<HcclDataType>(call.type));
  if (reduces(call.kind)) text += std::string(", ") + name_of(static_cast<HcclReduceOp>(call.op));
  if (has_root(call.kind)) text += ", root " + std::to_string(call.root);
  return text;
}

aclError stream_error_of(HcclResult code) {
  switch (code) {
    case HCCL_E_TIMEOUT:
      return ACL_ERROR_RT_AICPU_TIMEOUT;
    case HCCL_E_REMOTE:
      return ACL_ERROR_RT_SUSPECT_REMOTE_ERROR;
    default:
      return ACL_ERROR_RT_AICPU_EXCEPTION;
  }
}

}  // namespace softcann
