// Collectives of a communicator with one rank: each is a copy from the send to the receive buffer, in stream order.
#include "comm/communicator.h"

#include "rt/error.h"

using namespace softcann;

namespace {

struct Call {
  const char* entry;
  HcclComm comm;
  aclrtStream stream;
  HcclDataType type;
};

HcclResult check(const Call& call, HcclReduceOp op = HCCL_REDUCE_SUM, uint32_t root = 0) {
  const Communicator* communicator = find_communicator(call.comm, call.entry);
  if (communicator == nullptr) return HCCL_E_PARA;
  if (bytes_of(call.type) == 0) {
    return hccl_fail(HCCL_E_NOT_SUPPORT, "%s: data type %d is not supported", call.entry, static_cast<int>(call.type));
  }
  if (op < HCCL_REDUCE_SUM || op > HCCL_REDUCE_MIN) {
    return hccl_fail(HCCL_E_PARA, "%s: unknown reduction %d", call.entry, static_cast<int>(op));
  }
  if (root >= communicator->ranks) {
    return hccl_fail(HCCL_E_PARA, "%s: root %u of %u ranks", call.entry, root, communicator->ranks);
  }
  return HCCL_SUCCESS;
}

HcclResult copy(const Call& call, const void* from, void* to, uint64_t count) {
  const size_t bytes = count * bytes_of(call.type);
  if (bytes == 0 || from == to) return HCCL_SUCCESS;
  const aclError code = aclrtMemcpyAsync(to, bytes, from, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, call.stream);
  return code == ACL_SUCCESS ? HCCL_SUCCESS : hccl_fail_last(code);
}

const char* at(const void* base, uint64_t elements, HcclDataType type) {
  return static_cast<const char*>(base) + elements * bytes_of(type);
}
uint64_t first(const void* list) { return list == nullptr ? 0 : *static_cast<const uint64_t*>(list); }

}  // namespace

#define CHECK(...)                                                        \
  if (const HcclResult wrong = check(__VA_ARGS__); wrong != HCCL_SUCCESS) return wrong

extern "C" {

HcclResult HcclAllReduce(void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
    HcclComm comm, aclrtStream stream) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclAllReduce);
  const Call call{"HcclAllReduce", comm, stream, dataType};
  CHECK(call, op);
  return copy(call, sendBuf, recvBuf, count);
}

HcclResult HcclReduce(void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
    uint32_t root, HcclComm comm, aclrtStream stream) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclReduce);
  const Call call{"HcclReduce", comm, stream, dataType};
  CHECK(call, op, root);
  return copy(call, sendBuf, recvBuf, count);
}

HcclResult HcclBroadcast(void* buf, uint64_t, HcclDataType dataType, uint32_t root, HcclComm comm, aclrtStream stream) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclBroadcast);
  CHECK({"HcclBroadcast", comm, stream, dataType}, HCCL_REDUCE_SUM, root);
  return buf != nullptr ? HCCL_SUCCESS : hccl_fail(HCCL_E_PTR, "HcclBroadcast: buf is a null pointer");
}

HcclResult HcclAllGather(void* sendBuf, void* recvBuf, uint64_t sendCount, HcclDataType dataType, HcclComm comm,
    aclrtStream stream) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclAllGather);
  const Call call{"HcclAllGather", comm, stream, dataType};
  CHECK(call);
  return copy(call, sendBuf, recvBuf, sendCount);
}

HcclResult HcclAllGatherV(void* sendBuf, uint64_t sendCount, void* recvBuf, const void* recvCounts,
    const void* recvDispls, HcclDataType dataType, HcclComm comm, aclrtStream stream) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclAllGatherV);
  const Call call{"HcclAllGatherV", comm, stream, dataType};
  CHECK(call);
  if (first(recvCounts) != sendCount) {
    return hccl_fail(HCCL_E_PARA, "HcclAllGatherV: %llu elements are sent, %llu expected",
        static_cast<unsigned long long>(sendCount), static_cast<unsigned long long>(first(recvCounts)));
  }
  return copy(call, sendBuf, const_cast<char*>(at(recvBuf, first(recvDispls), dataType)), sendCount);
}

HcclResult HcclReduceScatter(void* sendBuf, void* recvBuf, uint64_t recvCount, HcclDataType dataType, HcclReduceOp op,
    HcclComm comm, aclrtStream stream) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclReduceScatter);
  const Call call{"HcclReduceScatter", comm, stream, dataType};
  CHECK(call, op);
  return copy(call, sendBuf, recvBuf, recvCount);
}

HcclResult HcclReduceScatterV(void* sendBuf, const void* sendCounts, const void* sendDispls, void* recvBuf,
    uint64_t recvCount, HcclDataType dataType, HcclReduceOp op, HcclComm comm, aclrtStream stream) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclReduceScatterV);
  const Call call{"HcclReduceScatterV", comm, stream, dataType};
  CHECK(call, op);
  if (first(sendCounts) != recvCount) {
    return hccl_fail(HCCL_E_PARA, "HcclReduceScatterV: %llu elements are sent, %llu expected",
        static_cast<unsigned long long>(first(sendCounts)), static_cast<unsigned long long>(recvCount));
  }
  return copy(call, at(sendBuf, first(sendDispls), dataType), recvBuf, recvCount);
}

HcclResult HcclScatter(void* sendBuf, void* recvBuf, uint64_t recvCount, HcclDataType dataType, uint32_t root,
    HcclComm comm, aclrtStream stream) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclScatter);
  const Call call{"HcclScatter", comm, stream, dataType};
  CHECK(call, HCCL_REDUCE_SUM, root);
  return copy(call, sendBuf, recvBuf, recvCount);
}

HcclResult HcclAlltoAll(const void* sendBuf, uint64_t sendCount, HcclDataType sendType, const void* recvBuf,
    uint64_t recvCount, HcclDataType recvType, HcclComm comm, aclrtStream stream) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclAlltoAll);
  const Call call{"HcclAlltoAll", comm, stream, sendType};
  CHECK(call);
  if (sendCount != recvCount || sendType != recvType) {
    return hccl_fail(HCCL_E_PARA, "HcclAlltoAll: what is sent and what is received differ in count or data type");
  }
  return copy(call, sendBuf, const_cast<void*>(recvBuf), sendCount);
}

HcclResult HcclAlltoAllV(const void* sendBuf, const void* sendCounts, const void* sdispls, HcclDataType sendType,
    const void* recvBuf, const void* recvCounts, const void* rdispls, HcclDataType recvType, HcclComm comm,
    aclrtStream stream) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclAlltoAllV);
  const Call call{"HcclAlltoAllV", comm, stream, sendType};
  CHECK(call);
  if (first(sendCounts) != first(recvCounts) || sendType != recvType) {
    return hccl_fail(HCCL_E_PARA, "HcclAlltoAllV: what is sent and what is received differ in count or data type");
  }
  return copy(call, at(sendBuf, first(sdispls), sendType), const_cast<char*>(at(recvBuf, first(rdispls), recvType)),
      first(sendCounts));
}

// With one rank there is nobody to wait for; the stream's own order is all that is asked.
HcclResult HcclBarrier(HcclComm comm, aclrtStream stream) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclBarrier);
  return check({"HcclBarrier", comm, stream, HCCL_DATA_TYPE_INT8});
}
}
