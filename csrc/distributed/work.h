// The handle of one operation.
//
// Note [Tensors of an asynchronous operation]
// It runs on the communicator's stream, on memory that belongs to the caller's. The work keeps the tensors until
// wait() has made the caller's stream wait for the end: then the allocator's own order is enough. A work that ends
// without wait() tells the allocator about the other stream instead (record_stream). An operation that runs on the
// caller's stream (async_op=False) needs neither.
#pragma once

#include <optional>

#include "core/compat.h"
#include "distributed/group_state.h"

namespace torch_npu::distributed {

class Work final : public c10d::Work {
 public:
  Work(std::shared_ptr<GroupState> group, std::shared_ptr<Ticket> ticket, core::Stream stream, std::vector<at::Tensor> outputs);
  ~Work() override;

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  std::vector<at::Tensor> result() override { return outputs_; }
  // The caller's stream waits; so does the host where blocking wait, a barrier or a timeout asks for it.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void synchronize() override;
  void blockCurrentStream() NPU_OVERRIDE_2_9 { synchronize(); }
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override;
  // Milliseconds on the device; needs TORCH_HCCL_ENABLE_TIMING or enable_collectives_timing().
  float getDuration() const override;
  uint64_t getSequencenumber() const override { return ticket_->sequence; }

  // Keeps tensors alive, see the note above.
  void keep(at::TensorList tensors) { kept_.insert(kept_.end(), tensors.begin(), tensors.end()); }

 private:
  void wait_on_host(std::chrono::milliseconds timeout);
  std::vector<at::Tensor> future_value() const;

  std::shared_ptr<GroupState> group_;
  std::shared_ptr<Ticket> ticket_;
  core::Stream stream_;
  std::vector<at::Tensor> outputs_, kept_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::optional<core::Stream> after_;  // of the future, where stream_ has gone on
};

}  // namespace torch_npu::distributed
