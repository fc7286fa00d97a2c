#include "comm/operation.h"

namespace softcann {

size_t bytes_of(HcclDataType type) {
  switch (type) {
    case HCCL_DATA_TYPE_INT8:
    case HCCL_DATA_TYPE_UINT8:
    case HCCL_DATA_TYPE_HIF8:
    case HCCL_DATA_TYPE_FP8E4M3:
    case HCCL_DATA_TYPE_FP8E5M2:
    case HCCL_DATA_TYPE_FP8E8M0:
      return 1;
    case HCCL_DATA_TYPE_INT16:
    case HCCL_DATA_TYPE_UINT16:
    case HCCL_DATA_TYPE_FP16:
    case HCCL_DATA_TYPE_BFP16:
      return 2;
    case HCCL_DATA_TYPE_INT32:
    case HCCL_DATA_TYPE_UINT32:
    case HCCL_DATA_TYPE_FP32:
      return 4;
    case HCCL_DATA_TYPE_INT64:
    case HCCL_DATA_TYPE_UINT64:
    case HCCL_DATA_TYPE_FP64:
      return 8;
    case HCCL_DATA_TYPE_INT128:
      return 16;
    default:
      return 0;
  }
}

const char* name_of(HcclDataType type) {
  switch (type) {
    case HCCL_DATA_TYPE_INT8:
      return "int8";
    case HCCL_DATA_TYPE_UINT8:
      return "uint8";
    case HCCL_DATA_TYPE_HIF8:
      return "hif8";
    case HCCL_DATA_TYPE_FP8E4M3:
      return "float8_e4m3";
    case HCCL_DATA_TYPE_FP8E5M2:
      return "float8_e5m2";
    case HCCL_DATA_TYPE_FP8E8M0:
      return "float8_e8m0";
    case HCCL_DATA_TYPE_INT16:
      return "int16";
    case HCCL_DATA_TYPE_UINT16:
      return "uint16";
    case HCCL_DATA_TYPE_FP16:
      return "float16";
    case HCCL_DATA_TYPE_BFP16:
      return "bfloat16";
    case HCCL_DATA_TYPE_INT32:
      return "int32";
    case HCCL_DATA_TYPE_UINT32:
      return "uint32";
    case HCCL_DATA_TYPE_FP32:
      return "float32";
    case HCCL_DATA_TYPE_INT64:
      return "int64";
    case HCCL_DATA_TYPE_UINT64:
      return "uint64";
    case HCCL_DATA_TYPE_FP64:
      return "float64";
    case HCCL_DATA_TYPE_INT128:
      return "int128";
    default:
      return "of an unknown type";
  }
}

const char* name_of(HcclReduceOp op) {
  switch (op) {
    case HCCL_REDUCE_SUM:
      return "sum";
    case HCCL_REDUCE_PROD:
      return "prod";
    case HCCL_REDUCE_MAX:
      return "max";
    case HCCL_REDUCE_MIN:
      return "min";
    default:
      return "an unknown reduction";
  }
}

namespace {

const char* name_of_kind(uint8_t kind) {
  switch (kind) {
    case HCCL_CMD_BROADCAST:
      return "HcclBroadcast";
    case HCCL_CMD_ALLREDUCE:
      return "HcclAllReduce";
    case HCCL_CMD_REDUCE:
      return "HcclReduce";
    case HCCL_CMD_SEND:
      return "HcclSend";
    case HCCL_CMD_RECEIVE:
      return "HcclRecv";
    case HCCL_CMD_ALLGATHER:
      return "HcclAllGather";
    case HCCL_CMD_REDUCE_SCATTER:
      return "HcclReduceScatter";
    case HCCL_CMD_ALLTOALLV:
      return "HcclAlltoAllV";
    case HCCL_CMD_ALLTOALLVC:
      return "HcclAlltoAllVC";
    case HCCL_CMD_ALLTOALL:
      return "HcclAlltoAll";
    case HCCL_CMD_SCATTER:
      return "HcclScatter";
    case HCCL_CMD_BATCH_SEND_RECV:
      return "HcclBatchSendRecv";
    case HCCL_CMD_ALLGATHER_V:
      return "HcclAllGatherV";
    case HCCL_CMD_REDUCE_SCATTER_V:
      return "HcclReduceScatterV";
    case HCCL_CMD_BARRIER:
      return "HcclBarrier";
    default:
      return "an unknown call";
  }
}

bool has_root(uint8_t kind) { return kind == HCCL_CMD_BROADCAST || kind == HCCL_CMD_REDUCE || kind == HCCL_CMD_SCATTER; }

bool reduces(uint8_t kind) {
  return kind == HCCL_CMD_ALLREDUCE || kind == HCCL_CMD_REDUCE || kind == HCCL_CMD_REDUCE_SCATTER ||
         kind == HCCL_CMD_REDUCE_SCATTER_V;
}

}  // namespace

std::string list_of(uint64_t ranks) {
  std::string text;
  for (uint32_t rank = 0; rank < kMaxRanks; ++rank) {
    if ((ranks >> rank & 1) != 0) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  }
  return text;
}

std::string describe(const Call& call) {
  std::string text = name_of_kind(call.kind);
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
