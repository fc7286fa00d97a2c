// How the ranks of a communicator reach each other.
#pragma once

#include <memory>
#include <string>

#include "comm/operation.h"

namespace softcann {

// How long to wait, in seconds; 0: without limit.
struct TimeLimits {
  int64_t connect_s = 120;
  int64_t execute_s = 1836;
};

// One rank's end. Operations are numbered by the caller: each takes part in the numbering at the time of the client's
// call, on the caller's thread, while run() happens later, on any thread.
class Transport {
 public:
  virtual ~Transport() = default;

  // Gives the operation its number.
  virtual void number(Operation& operation) = 0;
  // Is it worth trying on the caller's thread? Returns the expected nanoseconds, or kNeverInline.
  virtual uint32_t cost(const Operation& operation) const = 0;
  // Does this rank's part. `brief`: returns kUnfinished rather than waiting for long; then it is called again.
  virtual aclError run(Operation& operation, bool brief) = 0;
  // Makes `data` (at most 120 bytes) known to the other ranks under a key that is not 0; false when too many are known.
  virtual bool invite(uint64_t key, const void* data, size_t bytes) = 0;
  virtual void withdraw(uint64_t key) = 0;
  // What `rank` makes known; false when it does not (yet).
  virtual bool invited(uint32_t rank, uint64_t key, void* data, size_t bytes) = 0;
  // Takes this rank out; whoever waits for it, here or elsewhere, gets an error.
  virtual void leave() = 0;
  // The communicator breaks, for all ranks.
  virtual void fail(HcclResult code, const std::string& text) = 0;
  // HCCL_SUCCESS, or what broke it.
  virtual HcclResult failure(std::string* text) const = 0;
};

}  // namespace softcann
