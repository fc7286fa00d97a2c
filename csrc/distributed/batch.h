// What is gathered between startCoalescing and endCoalescing: collectives run at once, one after the other, on the
// communicator's stream; sends and receives are collected and go as one exchange, so that their order does not matter.
#pragma once

#include <vector>

#include "distributed/process_group.h"

namespace torch_npu::distributed {

struct ProcessGroupHCCL::Batch {
  std::shared_ptr<Communicator> communicator;  // null until the first operation
  std::vector<HcclSendRecvItem> items;
  std::vector<at::Tensor> inputs, outputs;
  std::vector<at::Tensor> sent, received;                      // of the items, as the caller has them
  std::vector<at::Tensor> to_self, from_self;                  // what this rank sends itself, in order
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_back;  // {from, to} once the items have run
  std::vector<int> peers;
  bool sends = false, receives = false, collectives = false;

  void begin(const std::shared_ptr<Communicator>& chosen, const core::Stream& current);
  void keep(at::TensorList in, at::TensorList out);
  // Sends the items off.
  void flush(HcclComm comm);
  // The n-th send of this rank to itself is its n-th receive from itself.
  void copy_to_self();
};

}  // namespace torch_npu::distributed
