// What is known about one operation in flight, without its tensors: the watchdog may hold this for as long as it
// likes and never has to free a tensor (which could need the GIL).
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/ivalue.h>
#include <c10/core/ScalarType.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "core/thread_annotations.h"
#include "distributed/resources.h"

namespace torch_npu::distributed {

using Clock = std::chrono::steady_clock;

// What was asked for.
struct Operation {
  c10d::OpType type = c10d::OpType::UNKNOWN;
  const char* name = "";
  std::chrono::milliseconds timeout{-1};  // negative: the group's
  bool async = true;                      // false: runs on the caller's stream
  int peer = -1;                          // the root, or the other rank of a send or receive
  bool wait_on_host = false;              // wait() returns after it has run (barrier)
  bool point_to_point = false;            // only some ranks take part: numbered apart from the collectives

  bool is_message() const { return type == c10d::OpType::SEND || type == c10d::OpType::RECV; }
};

class Ticket {
 public:
  Operation operation;
  int peer_rank = -1;  // operation.peer's rank in the default group, as messages name it
  uint64_t sequence = 0;
  uint64_t capture = 0;  // number of the capture that it is part of; see Note [Captured collectives]
  int64_t input_elements = 0;
  int64_t output_elements = 0;
  at::ScalarType dtype = at::ScalarType::Undefined;
  Clock::time_point enqueued;
  int64_t ends_extension_ms = 0;  // of the group's timeout: given back once this has run
  uint64_t record = 0;            // in the flight recorder
  PooledEvent start;              // only where timing was asked for
  PooledEvent end;

  // True once it has run. Throws if the device reports an error, and for what was captured.
  bool query() {
    if (C10_UNLIKELY(capture != 0)) refuse_captured();
    if (done_.load(std::memory_order_acquire)) return true;
    if (!end || !end->query()) return false;
    done_.store(true, std::memory_order_release);
    return true;
  }

  // False also where the device reports an error, or is gone.
  bool query_quietly() noexcept {
    try {
      return query();
    } catch (...) {
      return false;
    }
  }

  // Keeps the first error.
  void fail(std::exception_ptr error) {
    const core::MutexLock lock(mutex_);
    if (!error_) error_ = std::move(error);
    failed_.store(true, std::memory_order_release);
  }
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  std::exception_ptr error() const {
    const core::MutexLock lock(mutex_);
    return error_;
  }
  void rethrow() const {
    if (C10_UNLIKELY(failed())) std::rethrow_exception(error());
  }

  bool point_to_point() const { return operation.point_to_point || operation.is_message(); }
  // Since it was enqueued, "3.2".
  std::string seconds(Clock::time_point now) const;
  // "all_reduce(1024 elements of Float)".
  std::string describe() const;
  // The part of it in which all ranks agree that call the same thing.
  std::string agreement() const;

  // Completes a future with a c10d::WorkResult when settle() is called, or at once if it has been.
  void tell(c10::intrusive_ptr<c10::ivalue::Future> future);
  // How it ended, for good.
  void settle(c10d::WorkResult result);

 private:
  [[noreturn]] void refuse_captured() const;

  std::atomic<bool> done_{false};
  std::atomic<bool> failed_{false};
  mutable core::Mutex mutex_;
  std::exception_ptr error_ NPU_GUARDED_BY(mutex_);
  std::optional<c10d::WorkResult> result_ NPU_GUARDED_BY(mutex_);
  std::vector<c10::intrusive_ptr<c10::ivalue::Future>> told_ NPU_GUARDED_BY(mutex_);
};

}  // namespace torch_npu::distributed
