// From a client's arguments to a task on its stream.
#pragma once

#include <memory>

#include "comm/comm_task.h"
#include "comm/communicator.h"

namespace softcann {

// Collects one call. Every step returns HCCL_SUCCESS or records what is wrong.
class Launch {
 public:
  Launch(const char* entry, HcclComm comm, aclrtStream stream, HcclCMDType kind, HcclDataType type, uint64_t count,
         HcclReduceOp op = HCCL_REDUCE_SUM, uint32_t root = 0);
  ~Launch();
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  const Communicator& communicator() const { return *communicator_; }
  Operation& operation() { return *operation_; }
  bool is_root() const { return operation_->call.root == communicator_->rank; }
  uint64_t item() const { return item_; }

  // The arguments of the constructor.
  HcclResult check();
  // Buffers of `count` elements.
  HcclResult send(const void* p, uint64_t count);
  HcclResult receive(void* p, uint64_t count);
  // One that is both.
  HcclResult in_place(void* p, uint64_t count, bool sends);
  HcclResult message(bool send, void* p, uint64_t count, HcclDataType type, uint32_t peer);
  // Queues the operation.
  HcclResult submit();

 private:
  void note_message() const;
  HcclResult use(const void* p, uint64_t count, uint64_t item, bool in, bool out, Buffer* buffer);

  const char* entry_;
  HcclComm handle_;
  aclrtStream stream_;
  uint64_t item_;
  Communicator* communicator_ = nullptr;
  std::unique_ptr<CommTask> task_;
  Operation* operation_;
};

}  // namespace softcann
