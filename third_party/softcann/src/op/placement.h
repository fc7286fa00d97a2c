// Lets a function that allocates its own result allocate it in a given output's memory. See Note [Placement].
#pragma once

#include <ATen/core/Tensor.h>

#include "op/pool.h"

namespace softcann::op {

// Note [Placement]
// Many ATen functions have no variant that writes into a given tensor, or one that computes elsewhere and copies. While
// a Placement is alive, the first allocation of exactly the output's size on this thread (the one after `skip` others)
// gets the output's memory. That is sound whatever it is used for: if it was a temporary, it is dead by the time the
// true result, allocated elsewhere, is copied into the output. The output must not share memory with an input; and
// only dense outputs qualify, for others nothing happens.
class Placement {
 public:
  explicit Placement(const at::Tensor& out, int skip = 0) : saved_(this_thread.placement) {
    PlacedBlock& block = this_thread.placement;
    block = {};
    if (out.defined() && out.is_non_overlapping_and_dense() && out.nbytes() > 0) {
      block = {out.mutable_data_ptr(), out.nbytes(), skip};
    }
  }
  ~Placement() { this_thread.placement = saved_; }
  Placement(const Placement&) = delete;
  Placement& operator=(const Placement&) = delete;

 private:
  PlacedBlock saved_;
};

}  // namespace softcann::op
