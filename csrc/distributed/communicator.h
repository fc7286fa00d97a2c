// An HCCL communicator of this rank and the stream its asynchronous collectives run on.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "distributed/error.h"
#include "distributed/resources.h"
#include "hccl/hccl.h"

namespace torch_npu::distributed {

class Ticket;

class Communicator {
 public:
  // Takes `comm` over.
  Communicator(HcclComm comm, core::Stream stream, bool high_priority);
  // Aborts unless destroy() came first.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Keeps the communicator for as long as this lives: it is ended by another thread (the watchdog, or the user's abort)
  // only between two calls into HCCL. To be held while something is queued, not while anything is waited for.
  class Use {
   public:
    explicit Use(Communicator& communicator) : lock_(communicator.in_use_), comm_(communicator.comm_) {}
    // Null once it has ended.
    HcclComm raw() const { return comm_; }

   private:
    std::lock_guard<std::timed_mutex> lock_;
    HcclComm comm_;
  };
  core::Stream stream() const { return stream_; }
  c10::DeviceIndex device() const { return stream_.device_index(); }

  // Makes the communicator's stream wait for what is queued on the caller's.
  void follow(const core::Stream& current);
  // HCCL wants the operations of a communicator one after the other: makes `stream` wait for the last one, if that is
  // on another stream. `capture`: the number of the one that the next operation is part of, or 0; a capture knows nothing of
  // what runs outside it, nor the other way round.
  void come_after_last(const core::Stream& stream, uint64_t capture);
  void set_last(std::shared_ptr<Ticket> ticket, const core::Stream& stream);

  // HCCL's report of a failure that came after the call, such as a lost peer; nothing when all is well.
  struct AsyncError {
    c10d::ErrorType kind;
    std::string text;
  };
  std::optional<AsyncError> async_error() noexcept;

  // Ends the communicator; nothing of it may be in flight. What HCCL reports becomes a warning: the group is gone all the same.
  void destroy();
  // Ends it at once: what is in flight fails.
  void abort() noexcept;

 private:
  HcclResult end() noexcept;

  std::timed_mutex in_use_;  // of comm_'s end against calls by other threads
  HcclComm comm_;
  core::Stream stream_;
  core::Event ready_;
  std::shared_ptr<Ticket> last_;
  core::Stream last_stream_;
  bool high_priority_;
};

// How to connect: the ranks find each other through what rank 0 publishes.
struct Rendezvous {
  uint32_t ranks = 1;
  uint32_t rank = 0;
  std::function<void(const HcclRootInfo&)> publish;  // called on rank 0
  std::function<HcclRootInfo()> fetch;               // called on the others; waits
};

// Connects on the current device. Throws c10::DistBackendError.
std::shared_ptr<Communicator> connect(const Rendezvous& rendezvous, const HcclCommConfig& config, bool configured,
                                      core::Stream stream, bool high_priority);

// A config in which everything is left to HCCL.
HcclCommConfig default_config();

}  // namespace torch_npu::distributed
