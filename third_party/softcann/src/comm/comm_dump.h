// What a dump (rt/dump/dump.h) wants of collectives and messages.
#pragma once

#include <memory>

#include "comm/operation.h"
#include "rt/dump/dump.h"

namespace softcann {

// One call, from before its first attempt to its end.
class CommDump {
 public:
  // Null where it is not dumped. `task`: the one that carries it out.
  static std::shared_ptr<CommDump> begin(const char* name, const Operation& operation, const Task* task);
  void end(const Operation& operation, bool failed);

 private:
  void take(const Operation& operation, bool written);

  dump::Call call_;
  std::vector<dump::Tensor> tensors_;
};

}  // namespace softcann
