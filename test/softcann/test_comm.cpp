// Collectives between threads of one process, for the sanitizers to watch; test/softcann_comm has those of processes.
#include <atomic>
#include <numeric>
#include <thread>

#include "acl_checks.h"
#include "hccl/hccl.h"

namespace {

constexpr uint32_t kRanks = 3;
constexpr uint64_t kSmall = 5, kLarge = 20000;

struct Buffer {
  explicit Buffer(uint64_t count) : bytes(count * sizeof(int32_t)) { OK(aclrtMalloc(&p, bytes, ACL_MEM_MALLOC_HUGE_FIRST)); }
  ~Buffer() { OK(aclrtFree(p)); }
  void fill(int32_t value) {
    const std::vector<int32_t> host(bytes / sizeof(int32_t), value);
    OK(aclrtMemcpy(p, bytes, host.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE));
  }
  bool all(int32_t value) {
    std::vector<int32_t> host(bytes / sizeof(int32_t));
    OK(aclrtMemcpy(host.data(), bytes, p, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
    for (const int32_t found : host) {
      if (found != value) return false;
    }
    return true;
  }
  void* p = nullptr;
  size_t bytes;
};

// All kinds, one behind the other, on two streams, without waiting for any.
void use(HcclComm comm, uint32_t rank) {
  aclrtStream streams[2];
  for (aclrtStream& stream : streams) OK(aclrtCreateStream(&stream));
  for (int round = 0; round < 20; ++round) {
    const uint64_t count = round % 2 == 0 ? kSmall : kLarge;
    aclrtStream first = streams[round / 2 % 2], second = streams[1 - round / 2 % 2];
    Buffer sum(count), given(count), gathered(count * kRanks), got(count);
    sum.fill(1 << rank);
    given.fill(static_cast<int32_t>(rank));
    EXPECT_EQ(HcclAllReduce(sum.p, sum.p, count, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_SUM, comm, first), HCCL_SUCCESS);
    EXPECT_EQ(HcclBroadcast(given.p, count, HCCL_DATA_TYPE_INT32, 1, comm, second), HCCL_SUCCESS);
    EXPECT_EQ(HcclAllGather(sum.p, gathered.p, count, HCCL_DATA_TYPE_INT32, comm, first), HCCL_SUCCESS);
    HcclSendRecvItem items[] = {{HCCL_SEND, given.p, count, HCCL_DATA_TYPE_INT32, (rank + 1) % kRanks},
                                {HCCL_RECV, got.p, count, HCCL_DATA_TYPE_INT32, (rank + kRanks - 1) % kRanks}};
    EXPECT_EQ(HcclBatchSendRecv(items, 2, comm, second), HCCL_SUCCESS);
    EXPECT_EQ(HcclBarrier(comm, first), HCCL_SUCCESS);
    for (aclrtStream stream : streams) OK(aclrtSynchronizeStream(stream));
    EXPECT(sum.all(7) && given.all(1) && gathered.all(7) && got.all(1));
  }
  for (aclrtStream stream : streams) OK(aclrtDestroyStream(stream));
}

// A graph of two streams, executed in a row on one of two others.
void replay(HcclComm comm, uint32_t rank) {
  aclrtStream streams[4];
  for (aclrtStream& stream : streams) OK(aclrtCreateStream(&stream));
  aclrtEvent fork = nullptr, join = nullptr;
  for (aclrtEvent* event : {&fork, &join}) OK(aclrtCreateEventExWithFlag(event, ACL_EVENT_SYNC));
  Buffer sum(kSmall), large(kLarge), gathered(kSmall * kRanks);
  aclmdlRI graph = nullptr;
  OK(aclmdlRICaptureBegin(streams[0], ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
  OK(aclrtRecordEvent(fork, streams[0]));
  OK(aclrtStreamWaitEvent(streams[1], fork));
  EXPECT_EQ(HcclAllReduce(sum.p, sum.p, kSmall, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_SUM, comm, streams[0]), HCCL_SUCCESS);
  EXPECT_EQ(HcclAllReduce(large.p, large.p, kLarge, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_MAX, comm, streams[1]), HCCL_SUCCESS);
  OK(aclrtRecordEvent(join, streams[1]));
  OK(aclrtStreamWaitEvent(streams[0], join));
  EXPECT_EQ(HcclAllGather(sum.p, gathered.p, kSmall, HCCL_DATA_TYPE_INT32, comm, streams[0]), HCCL_SUCCESS);
  OK(aclmdlRICaptureEnd(streams[0], &graph));
  for (int round = 0; round < 10; ++round) {
    sum.fill(1 << rank);
    large.fill(static_cast<int32_t>(rank));
    aclrtStream stream = streams[2 + round % 2];
    for (int i = 0; i < 3; ++i) OK(aclmdlRIExecuteAsync(graph, stream));
    OK(aclrtSynchronizeStream(stream));
    EXPECT(sum.all(7 * 9) && large.all(kRanks - 1) && gathered.all(7 * 9));
  }
  OK(aclmdlRIExecuteAsync(graph, streams[2]));
  OK(aclmdlRIDestroy(graph));  // the execution keeps it
  OK(aclrtSynchronizeStream(streams[2]));
  for (aclrtEvent event : {fork, join}) OK(aclrtDestroyEvent(event));
  for (aclrtStream stream : streams) OK(aclrtDestroyStream(stream));
}

}  // namespace

CHILD(threads) {
  HcclRootInfo root{};
  EXPECT_EQ(HcclGetRootInfo(&root), HCCL_SUCCESS);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&root, rank] {
      OK(aclrtSetDevice(static_cast<int32_t>(rank)));
      HcclComm comm = nullptr;
      EXPECT_EQ(HcclCommInitRootInfo(kRanks, &root, rank, &comm), HCCL_SUCCESS);
      use(comm, rank);
      replay(comm, rank);
      EXPECT_EQ(HcclCommDestroy(comm), HCCL_SUCCESS);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return 0;
}

// Rank 2 goes while the others wait for it; both are told.
CHILD(leaver) {
  HcclComm comms[kRanks];
  int32_t devices[kRanks];
  std::iota(devices, devices + kRanks, 0);
  EXPECT_EQ(HcclCommInitAll(kRanks, devices, comms), HCCL_SUCCESS);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    OK(aclrtSetDevice(static_cast<int32_t>(rank)));
    EXPECT_EQ(HcclBarrier(comms[rank], nullptr), HCCL_SUCCESS);
  }
  EXPECT_EQ(HcclCommDestroy(comms[2]), HCCL_SUCCESS);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    OK(aclrtSetDevice(static_cast<int32_t>(rank)));
    FAILS(aclrtSynchronizeStream(nullptr), ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, "rank 2 has destroyed the communicator");
    HcclResult error = HCCL_SUCCESS;
    EXPECT_EQ(HcclGetCommAsyncError(comms[rank], &error), HCCL_SUCCESS);
    EXPECT_EQ(error, HCCL_E_REMOTE);
    EXPECT_EQ(HcclCommDestroy(comms[rank]), HCCL_SUCCESS);
  }
  return 0;
}

TEST(ranks_are_threads) { EXPECT_EQ(test::run_child("threads", {}, {"SOFTCANN_DEVICE_COUNT=3"}), 0); }

TEST(ranks_are_threads_over_tcp) {
  EXPECT_EQ(test::run_child("threads", {}, {"SOFTCANN_DEVICE_COUNT=3", "SOFTCANN_TRANSPORT=tcp", "HCCL_IF_IP=127.0.0.1"}), 0);
}

TEST(a_rank_leaves) { EXPECT_EQ(test::run_child("leaver", {}, {"SOFTCANN_DEVICE_COUNT=3"}), 0); }
