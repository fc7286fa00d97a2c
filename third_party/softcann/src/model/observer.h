// Tells others of the operators that a model runs: a dump (rt/dump/dump.h), a profile, and who subscribed to the model's profile.
#pragma once

#include <memory>

#include "model/interpreter.h"
#include "rt/dump/dump.h"
#include "rt/models/model.h"

namespace softcann::model {

// Of one run.
class Observer {
 public:
  Observer(const ModelCall& call, const ModelInfo& info);

  void begin(const Machine& machine, const Instruction& instruction);
  // `done`: false where the operator was left to its parts, which come next.
  void end(const Machine& machine, const Instruction& instruction, bool done);
  // The one that begun last has thrown.
  void fail();

 private:
  const ModelCall& call_;
  const ModelInfo& info_;
  int64_t run_ = 0;
  dump::Ranges ranges_;
  bool dumps_;
  std::unique_ptr<dump::Call> dumped_;
  std::vector<dump::Tensor> tensors_;
  int64_t begin_ns_ = 0;
};

// Null where nobody wants to know.
std::unique_ptr<Observer> observe(const ModelCall& call, const ModelInfo& info);
// After a run that failed, where failures are dumped: what the operator read that did.
void dump_failure(const Machine& machine, const ModelCall& call, const ModelInfo& info);

}  // namespace softcann::model
