// Collectives and messages, as clients call them.
#include <numeric>

#include "comm/launch.h"

using namespace softcann;

#define HCCL_TRY(expression) \
  if (const HcclResult softcann_wrong = (expression); softcann_wrong != HCCL_SUCCESS) return softcann_wrong

namespace {

constexpr HcclDataType kBytes = HCCL_DATA_TYPE_UINT8;

// Parts of a buffer from a client's lists of counts and displacements, in elements; `extent` becomes the number of
// elements from the buffer's start to the end of its last part.
HcclResult read_parts(const char* entry, const void* counts, const void* displacements, uint32_t ranks, uint64_t item,
                      std::vector<Part>* parts, uint64_t* extent, uint64_t* total) {
  if (counts == nullptr || displacements == nullptr) {
    return hccl_fail(HCCL_E_PTR, "%s: a list of counts or displacements is a null pointer", entry);
  }
  const auto* count = static_cast<const uint64_t*>(counts);
  const auto* displacement = static_cast<const uint64_t*>(displacements);
  *extent = *total = 0;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    constexpr uint64_t kMost = uint64_t{1} << 48;
    if (count[rank] > kMost || displacement[rank] > kMost) {
      return hccl_fail(HCCL_E_PARA, "%s: count or displacement of rank %u is too large", entry, rank);
    }
    parts->push_back(Part{displacement[rank] * item, count[rank] * item});
    *total += count[rank];
    if (count[rank] != 0) *extent = std::max(*extent, displacement[rank] + count[rank]);
  }
  return HCCL_SUCCESS;
}

HcclResult check_own_count(const char* entry, uint64_t sent, uint64_t expected) {
  if (sent == expected) return HCCL_SUCCESS;
  return hccl_fail(HCCL_E_PARA, "%s: %llu elements are sent, %llu expected", entry, static_cast<unsigned long long>(sent),
                   static_cast<unsigned long long>(expected));
}

HcclResult check_types(const char* entry, HcclDataType sent, HcclDataType received) {
  if (sent == received) return HCCL_SUCCESS;
  return hccl_fail(HCCL_E_PARA, "%s: what is sent and what is received differ in data type", entry);
}

}  // namespace

extern "C" {

HcclResult HcclAllReduce(void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op, HcclComm comm,
                         aclrtStream stream) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclAllReduce);
  Launch launch("HcclAllReduce", comm, stream, HCCL_CMD_ALLREDUCE, dataType, count, op);
  HCCL_TRY(launch.check());
  HCCL_TRY(launch.send(sendBuf, count));
  HCCL_TRY(launch.receive(recvBuf, count));
  return launch.submit();
}

HcclResult HcclReduce(void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op, uint32_t root,
                      HcclComm comm, aclrtStream stream) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclReduce);
  Launch launch("HcclReduce", comm, stream, HCCL_CMD_REDUCE, dataType, count, op, root);
  HCCL_TRY(launch.check());
  HCCL_TRY(launch.send(sendBuf, count));
  if (launch.is_root()) HCCL_TRY(launch.receive(recvBuf, count));
  return launch.submit();
}

HcclResult HcclBroadcast(void* buf, uint64_t count, HcclDataType dataType, uint32_t root, HcclComm comm, aclrtStream stream) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclBroadcast);
  Launch launch("HcclBroadcast", comm, stream, HCCL_CMD_BROADCAST, dataType, count, HCCL_REDUCE_SUM, root);
  HCCL_TRY(launch.check());
  HCCL_TRY(launch.in_place(buf, count, launch.is_root()));
  return launch.submit();
}

HcclResult HcclAllGather(void* sendBuf, void* recvBuf, uint64_t sendCount, HcclDataType dataType, HcclComm comm,
                         aclrtStream stream) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclAllGather);
  Launch launch("HcclAllGather", comm, stream, HCCL_CMD_ALLGATHER, dataType, sendCount);
  HCCL_TRY(launch.check());
  HCCL_TRY(launch.send(sendBuf, sendCount));
  HCCL_TRY(launch.receive(recvBuf, sendCount * launch.communicator().ranks));
  return launch.submit();
}

HcclResult HcclAllGatherV(void* sendBuf, uint64_t sendCount, void* recvBuf, const void* recvCounts, const void* recvDispls,
                          HcclDataType dataType, HcclComm comm, aclrtStream stream) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclAllGatherV);
  Launch launch("HcclAllGatherV", comm, stream, HCCL_CMD_ALLGATHER_V, dataType, sendCount);
  HCCL_TRY(launch.check());
  Operation& operation = launch.operation();
  uint64_t extent = 0;
  HCCL_TRY(read_parts("HcclAllGatherV", recvCounts, recvDispls, launch.communicator().ranks, launch.item(),
                      &operation.receive_parts, &extent, &operation.call.count));
  HCCL_TRY(
      check_own_count("HcclAllGatherV", sendCount, operation.receive_parts[launch.communicator().rank].bytes / launch.item()));
  HCCL_TRY(launch.send(sendBuf, sendCount));
  HCCL_TRY(launch.receive(recvBuf, extent));
  return launch.submit();
}

HcclResult HcclReduceScatter(void* sendBuf, void* recvBuf, uint64_t recvCount, HcclDataType dataType, HcclReduceOp op,
                             HcclComm comm, aclrtStream stream) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclReduceScatter);
  Launch launch("HcclReduceScatter", comm, stream, HCCL_CMD_REDUCE_SCATTER, dataType, recvCount, op);
  HCCL_TRY(launch.check());
  HCCL_TRY(launch.send(sendBuf, recvCount * launch.communicator().ranks));
  HCCL_TRY(launch.receive(recvBuf, recvCount));
  return launch.submit();
}

HcclResult HcclReduceScatterV(void* sendBuf, const void* sendCounts, const void* sendDispls, void* recvBuf, uint64_t recvCount,
                              HcclDataType dataType, HcclReduceOp op, HcclComm comm, aclrtStream stream) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclReduceScatterV);
  Launch launch("HcclReduceScatterV", comm, stream, HCCL_CMD_REDUCE_SCATTER_V, dataType, recvCount, op);
  HCCL_TRY(launch.check());
  Operation& operation = launch.operation();
  uint64_t extent = 0;
  HCCL_TRY(read_parts("HcclReduceScatterV", sendCounts, sendDispls, launch.communicator().ranks, launch.item(),
                      &operation.send_parts, &extent, &operation.call.count));
  const uint64_t own = operation.send_parts[launch.communicator().rank].bytes;
  HCCL_TRY(check_own_count("HcclReduceScatterV", own / launch.item(), recvCount));
  operation.receive_parts.assign(launch.communicator().ranks, Part{0, own});
  HCCL_TRY(launch.send(sendBuf, extent));
  HCCL_TRY(launch.receive(recvBuf, recvCount));
  return launch.submit();
}

HcclResult HcclScatter(void* sendBuf, void* recvBuf, uint64_t recvCount, HcclDataType dataType, uint32_t root, HcclComm comm,
                       aclrtStream stream) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclScatter);
  Launch launch("HcclScatter", comm, stream, HCCL_CMD_SCATTER, dataType, recvCount, HCCL_REDUCE_SUM, root);
  HCCL_TRY(launch.check());
  if (launch.is_root()) HCCL_TRY(launch.send(sendBuf, recvCount * launch.communicator().ranks));
  HCCL_TRY(launch.receive(recvBuf, recvCount));
  return launch.submit();
}

HcclResult HcclAlltoAll(const void* sendBuf, uint64_t sendCount, HcclDataType sendType, const void* recvBuf, uint64_t recvCount,
                        HcclDataType recvType, HcclComm comm, aclrtStream stream) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclAlltoAll);
  Launch launch("HcclAlltoAll", comm, stream, HCCL_CMD_ALLTOALL, sendType, sendCount);
  HCCL_TRY(launch.check());
  HCCL_TRY(check_types("HcclAlltoAll", sendType, recvType));
  HCCL_TRY(check_own_count("HcclAlltoAll", sendCount, recvCount));
  HCCL_TRY(launch.send(sendBuf, sendCount * launch.communicator().ranks));
  HCCL_TRY(launch.receive(const_cast<void*>(recvBuf), recvCount * launch.communicator().ranks));
  return launch.submit();
}

HcclResult HcclAlltoAllV(const void* sendBuf, const void* sendCounts, const void* sdispls, HcclDataType sendType,
                         const void* recvBuf, const void* recvCounts, const void* rdispls, HcclDataType recvType, HcclComm comm,
                         aclrtStream stream) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclAlltoAllV);
  Launch launch("HcclAlltoAllV", comm, stream, HCCL_CMD_ALLTOALLV, sendType, 0);
  HCCL_TRY(launch.check());
  HCCL_TRY(check_types("HcclAlltoAllV", sendType, recvType));
  Operation& operation = launch.operation();
  const uint32_t ranks = launch.communicator().ranks, rank = launch.communicator().rank;
  uint64_t sent = 0, received = 0, total = 0;
  HCCL_TRY(read_parts("HcclAlltoAllV", sendCounts, sdispls, ranks, launch.item(), &operation.send_parts, &sent, &total));
  HCCL_TRY(read_parts("HcclAlltoAllV", recvCounts, rdispls, ranks, launch.item(), &operation.receive_parts, &received, &total));
  HCCL_TRY(check_own_count("HcclAlltoAllV, to itself", operation.send_parts[rank].bytes / launch.item(),
                           operation.receive_parts[rank].bytes / launch.item()));
  HCCL_TRY(launch.send(sendBuf, sent));
  HCCL_TRY(launch.receive(const_cast<void*>(recvBuf), received));
  return launch.submit();
}

// Row i of the matrix has what rank i sends to each rank; everything lies without gaps.
HcclResult HcclAlltoAllVC(const void* sendBuf, const void* sendCountMatrix, HcclDataType sendType, const void* recvBuf,
                          HcclDataType recvType, HcclComm comm, aclrtStream stream) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclAlltoAllVC);
  Launch launch("HcclAlltoAllVC", comm, stream, HCCL_CMD_ALLTOALLVC, sendType, 0);
  HCCL_TRY(launch.check());
  HCCL_TRY(check_types("HcclAlltoAllVC", sendType, recvType));
  if (sendCountMatrix == nullptr) return hccl_fail(HCCL_E_PTR, "HcclAlltoAllVC: the matrix of counts is a null pointer");
  const auto* matrix = static_cast<const uint64_t*>(sendCountMatrix);
  const uint32_t ranks = launch.communicator().ranks, rank = launch.communicator().rank;
  std::vector<uint64_t> counts[2], places[2];
  for (uint32_t peer = 0; peer < ranks; ++peer) {
    counts[0].push_back(matrix[size_t{rank} * ranks + peer]);
    counts[1].push_back(matrix[size_t{peer} * ranks + rank]);
  }
  for (int i = 0; i < 2; ++i) {
    places[i].resize(ranks);
    std::exclusive_scan(counts[i].begin(), counts[i].end(), places[i].begin(), uint64_t{0});
  }
  Operation& operation = launch.operation();
  uint64_t sent = 0, received = 0, total = 0;
  HCCL_TRY(read_parts("HcclAlltoAllVC", counts[0].data(), places[0].data(), ranks, launch.item(), &operation.send_parts, &sent,
                      &total));
  HCCL_TRY(read_parts("HcclAlltoAllVC", counts[1].data(), places[1].data(), ranks, launch.item(), &operation.receive_parts,
                      &received, &total));
  HCCL_TRY(launch.send(sendBuf, sent));
  HCCL_TRY(launch.receive(const_cast<void*>(recvBuf), received));
  return launch.submit();
}

HcclResult HcclBarrier(HcclComm comm, aclrtStream stream) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclBarrier);
  Launch launch("HcclBarrier", comm, stream, HCCL_CMD_BARRIER, kBytes, 0);
  HCCL_TRY(launch.check());
  return launch.submit();
}

HcclResult HcclSend(void* sendBuf, uint64_t count, HcclDataType dataType, uint32_t destRank, HcclComm comm, aclrtStream stream) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclSend);
  Launch launch("HcclSend", comm, stream, HCCL_CMD_SEND, dataType, count);
  HCCL_TRY(launch.check());
  HCCL_TRY(launch.message(true, sendBuf, count, dataType, destRank));
  return launch.submit();
}

HcclResult HcclRecv(void* recvBuf, uint64_t count, HcclDataType dataType, uint32_t srcRank, HcclComm comm, aclrtStream stream) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclRecv);
  Launch launch("HcclRecv", comm, stream, HCCL_CMD_RECEIVE, dataType, count);
  HCCL_TRY(launch.check());
  HCCL_TRY(launch.message(false, recvBuf, count, dataType, srcRank));
  return launch.submit();
}

HcclResult HcclBatchSendRecv(HcclSendRecvItem* sendRecvInfo, uint32_t itemNum, HcclComm comm, aclrtStream stream) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclBatchSendRecv);
  Launch launch("HcclBatchSendRecv", comm, stream, HCCL_CMD_BATCH_SEND_RECV, kBytes, 0);
  HCCL_TRY(launch.check());
  if (sendRecvInfo == nullptr) return hccl_fail(HCCL_E_PTR, "HcclBatchSendRecv: sendRecvInfo is a null pointer");
  if (itemNum == 0) return hccl_fail(HCCL_E_PARA, "HcclBatchSendRecv: no items");
  for (uint32_t i = 0; i < itemNum; ++i) {
    const HcclSendRecvItem& item = sendRecvInfo[i];
    if (item.sendRecvType != HCCL_SEND && item.sendRecvType != HCCL_RECV) {
      return hccl_fail(HCCL_E_PARA, "HcclBatchSendRecv: item %u is neither to send nor to receive", i);
    }
    HCCL_TRY(launch.message(item.sendRecvType == HCCL_SEND, item.buf, item.count, item.dataType, item.remoteRank));
  }
  return launch.submit();
}
}
