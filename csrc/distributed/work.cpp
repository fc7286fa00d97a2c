#include "distributed/work.h"

#include <thread>

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/stack.h>
#include <c10/core/StreamGuard.h>
#include <c10/util/Exception.h>

#include "core/options.h"
#include "distributed/error.h"
#include "distributed/param_comms.h"
#include "memory/device_allocator.h"

namespace torch_npu::distributed {

Work::Work(std::shared_ptr<GroupState> group, std::shared_ptr<Ticket> ticket, core::Stream stream,
           std::vector<at::Tensor> outputs)
    : c10d::Work(group->rank, ticket->operation.type),
      group_(std::move(group)),
      ticket_(std::move(ticket)),
      stream_(stream),
      outputs_(std::move(outputs)) {}

Work::~Work() {
  if (after_ && ticket_->query_quietly()) give_stream(*after_, false);  // otherwise something is queued on it: it is not reused
  for (const auto& tensor : kept_) {
    try {
      if (tensor.has_storage()) memory::record_stream(tensor.storage().data_ptr(), stream_);
    } catch (...) {
      // The device is gone (process exit), and its memory with it.
    }
  }
}

bool Work::isCompleted() { return ticket_->failed() || ticket_->query(); }
bool Work::isSuccess() const { return !ticket_->failed() && ticket_->query(); }
std::exception_ptr Work::exception() const { return ticket_->error(); }

void Work::synchronize() {
  ticket_->rethrow();
  if (ticket_->operation.async) {
    const auto current = core::current_stream(stream_.device_index());
    if (current != stream_) ticket_->end->block(current);
    kept_.clear();
  }
}

bool Work::wait(std::chrono::milliseconds timeout) {
  const ParametersRecord parameters(*group_->recorded);
  synchronize();
  if (ticket_->capture != 0) return true;
  if (C10_UNLIKELY(ticket_->operation.wait_on_host || timeout != kNoTimeout || core::options().hccl_blocking_wait)) {
    wait_on_host(timeout);
  }
  return true;
}

// How the host waits: it spins, yields, and sleeps the longer the longer it waits.
constexpr uint64_t kSpins = 2000;
constexpr auto kYields = std::chrono::milliseconds(1), kShortSleeps = std::chrono::milliseconds(20);
constexpr auto kShortSleep = std::chrono::microseconds(50), kLongSleep = std::chrono::microseconds(500);
constexpr auto kPatienceForReport = std::chrono::seconds(6);

void Work::wait_on_host(std::chrono::milliseconds timeout) {
  if (timeout == kNoTimeout || timeout.count() < 0) {
    timeout = ticket_->operation.timeout.count() >= 0 ? ticket_->operation.timeout
                                                      : std::chrono::milliseconds(group_->timeout_ms.load());
  }
  const auto begin = Clock::now();
  for (uint64_t turn = 0;; ++turn) {
    ticket_->rethrow();
    if (ticket_->query()) return;
    if (turn < kSpins) continue;
    const auto waited = Clock::now() - begin;
    // The watchdog's report is the better one: it gets a few seconds to begin, and all that it needs. But it knows nothing of a
    // limit of this call alone.
    const bool watchdog_is_silent = waited > timeout + kPatienceForReport && !group_->reported;
    const bool own_limit_is_over = waited > timeout && timeout.count() < group_->timeout_ms.load();
    if (watchdog_is_silent || own_limit_is_over) {
      throw_backend_error(c10::str("waited ", std::chrono::duration_cast<std::chrono::milliseconds>(waited).count(), " ms for ",
                                   ticket_->describe(), ", sequence number ", ticket_->sequence, ", longer than the timeout of ",
                                   timeout.count(), " ms"));
    }
    if (waited < kYields) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(waited < kShortSleeps ? kShortSleep : kLongSleep);
    }
  }
}

void Work::abort() { group_->fail(ticket_->describe() + " was aborted", c10d::ErrorType::COMM_ERROR, true); }

// What PyTorch's hooks of DistributedDataParallel expect of the parts that come from the ranks: one tensor, by rank. On the
// current stream.
std::vector<at::Tensor> Work::future_value() const {
  const auto type = ticket_->operation.type;
  if ((type != c10d::OpType::ALLGATHER && type != c10d::OpType::GATHER) || outputs_.size() < 2) return outputs_;
  for (const auto& output : outputs_) {
    if (output.sizes() != outputs_[0].sizes() || output.scalar_type() != outputs_[0].scalar_type()) return outputs_;
  }
  return {at::stack(outputs_)};
}

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture() {
  if (!future_) {
    const c10::Device device(c10::DeviceType::PrivateUse1, stream_.device_index());
    future_ =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), std::vector<c10::Device>{device});
    // The future records its events on the current stream, which is to be the operation's; once others are queued
    // behind it there, one of its own that waits for this operation alone.
    if (ticket_->operation.async && ticket_->capture == 0 && group_->last_operation() != ticket_) {
      after_ = take_stream(stream_.device_index(), false);
      ticket_->end->block(*after_);
    }
    c10::StreamGuard guard(after_.value_or(stream_).unwrap());
    future_->markCompleted(c10::IValue(future_value()));
  }
  return future_;
}

c10::intrusive_ptr<c10::ivalue::Future> Work::getFutureResult() {
  auto result = c10::make_intrusive<c10::ivalue::Future>(c10::IntType::get());
  if (ticket_->capture != 0) ticket_->query();                               // nobody would complete it
  if (ticket_->query_quietly()) ticket_->settle(c10d::WorkResult::SUCCESS);  // the watchdog looks ten times a second
  ticket_->tell(result);
  return result;
}

float Work::getDuration() const {
  TORCH_CHECK(ticket_->start, "the duration of ", ticket_->describe(),
              " was not measured; set TORCH_HCCL_ENABLE_TIMING=1 or call "
              "enable_collectives_timing() of the backend before it");
  TORCH_CHECK(ticket_->query(), ticket_->describe(), " has not ended yet");
  return static_cast<float>(ticket_->start->elapsed_time(*ticket_->end));
}

}  // namespace torch_npu::distributed
