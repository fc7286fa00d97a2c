// Finds out, when a collective hangs, which ranks did not come to it.
//
// The rank in trouble raises a flag in the group's store; the watchdog of every other rank sees it within a second and
// writes down how far its rank has come. Nothing is written while all is well.
#pragma once

#include "distributed/group_state.h"

namespace torch_npu::distributed {

class DesyncDebugger {
 public:
  explicit DesyncDebugger(GroupState& group);

  // Answers a flag that is up. True the first time it does.
  bool answer(GroupState& group);
  // What the other ranks say about the operation that hangs. Takes up to three seconds.
  std::string report(GroupState& group, const Ticket& ticket);

 private:
  void publish(GroupState& group);

  c10::intrusive_ptr<c10d::Store> store_;  // a connection of its own; null where the store is gone
  bool answered_ = false;
};

}  // namespace torch_npu::distributed
