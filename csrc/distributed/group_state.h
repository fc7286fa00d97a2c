// What a process group shares with the watchdog: its operations in flight, its communicators and whether it failed.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "core/thread_annotations.h"
#include "distributed/communicator.h"
#include "distributed/flight_recorder.h"
#include "distributed/ticket.h"

namespace torch_npu::distributed {

// Lock order: mutex before anything of CANN; never held while the device is waited for.
class GroupState {
 public:
  GroupState(c10::intrusive_ptr<c10d::Store> store, int rank, int size) : store(std::move(store)), rank(rank), size(size) {}

  const c10::intrusive_ptr<c10d::Store> store;
  const int rank;
  const int size;
  std::shared_ptr<RecordedGroup> recorded = std::make_shared<RecordedGroup>();
  std::atomic<int64_t> timeout_ms{0};
  std::atomic<uint64_t> collectives{0}, point_to_points{0}, operations{0};
  std::atomic<uint64_t> completed{0};  // highest sequence number of a collective known to have run
  std::atomic<bool> watched{true};     // false: the watchdog leaves the group alone, as while its device is stopped
  std::atomic<bool> reported{false};   // the watchdog is at its report of an operation that ran into its timeout

  // Puts an operation under the watchdog's eyes, and lets go of those that have run.
  void enqueue(std::shared_ptr<Ticket> ticket);
  // Lets go of what has run. With `all`, of what has run behind something that has not, too. Throws the device's error.
  void sweep(bool all);
  std::shared_ptr<Ticket> oldest();
  std::shared_ptr<Ticket> oldest_collective();
  bool idle();
  // The first one that is past its time, or null.
  std::shared_ptr<Ticket> overdue(Clock::time_point now);
  // Drops what is in flight from the watchdog's sight.
  C10_EXPORT void forget_operations();
  // More time for what is enqueued until the first operation after this call has run.
  C10_EXPORT void extend_timeout(std::chrono::milliseconds by);
  // The timeout of an operation that is enqueued now, with what it has of extensions.
  std::chrono::milliseconds take_timeout(Ticket& ticket);
  std::shared_ptr<Ticket> last_operation();  // the one enqueued last, or null
  std::shared_ptr<Ticket> last_collective();

  void add(std::shared_ptr<Communicator> communicator);
  std::vector<std::shared_ptr<Communicator>> communicators();
  void forget_communicators();

  // The group cannot be used any more: everything in flight and every later call throws `message`. With `abort`, what
  // the device is at is ended too.
  void fail(const std::string& message, c10d::ErrorType kind, bool abort);
  c10d::ErrorType failure_kind() const { return failure_kind_.load(std::memory_order_acquire); }
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // Throws if the group has failed.
  void check() const {
    if (C10_UNLIKELY(failed())) throw_failure();
  }
  std::string failure() const;
  // What it has to say to a device error that this thread has met, and how much that has to do with it.
  struct Explanation {
    enum Weight { kNone, kPast, kToldBefore, kCurrent } weight = kNone;  // kCurrent: in flight, or a failure that is news
    std::string text;
  };
  // Nothing where there is nothing to say, or it cannot be told now.
  Explanation explain();
  // It has been taken down: its past explains nothing.
  void retire() { retired_ = true; }
  // "[rank 0, group default_pg] ", with the rank in the default group.
  std::string title() const;
  int global_rank() const { return global_rank(rank); }
  // The rank in the default group of a rank of this one.
  int global_rank(int member) const;
  std::chrono::milliseconds timeout_of(const Ticket& ticket) const;

 private:
  [[noreturn]] void throw_failure() const;
  void end_extension(const Ticket& ticket);

  mutable core::Mutex mutex_;
  std::deque<std::shared_ptr<Ticket>> tickets_ NPU_GUARDED_BY(mutex_);
  // Milliseconds: all of them, and those that an operation in flight will give back.
  std::atomic<int64_t> extension_ms_{0}, owned_ms_{0};
  std::vector<std::shared_ptr<Communicator>> communicators_ NPU_GUARDED_BY(mutex_);
  std::shared_ptr<Ticket> last_ NPU_GUARDED_BY(mutex_), last_collective_ NPU_GUARDED_BY(mutex_);
  std::atomic<bool> failed_{false};
  std::atomic<c10d::ErrorType> failure_kind_{c10d::ErrorType::SUCCESS};
  std::string failure_ NPU_GUARDED_BY(mutex_);
  std::atomic<bool> failure_told_{false}, retired_{false};
};

}  // namespace torch_npu::distributed
