// The flight recorder: the last operations of every group, in the form that PyTorch's own analyser
// (torch.distributed.flight_recorder, torchfrtrace) reads.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include "core/thread_annotations.h"
#include "distributed/ticket.h"

namespace torch_npu::distributed {

// What does not change from one entry of a group to the next.
class RecordedGroup {
 public:
  size_t id = 0;
  int rank = 0;
  std::string name;
  std::vector<uint64_t> ranks;  // global
  bool is_default = false;

  // What the group is for, in the user's words. c10d tells it once the group is made, when other threads may read it.
  std::string description() const {
    const core::MutexLock lock(mutex_);
    return description_;
  }
  void describe(const std::string& text) {
    const core::MutexLock lock(mutex_);
    description_ = text;
  }

 private:
  mutable core::Mutex mutex_;
  std::string description_ NPU_GUARDED_BY(mutex_) = "undefined";
};

struct DumpChoice {
  bool collectives = true;
  bool stacks = true;  // needs the GIL
  bool only_active = false;
};

// Of dicts with texts as keys, lists, texts, numbers and truth values.
std::string as_json(const c10::IValue& value);

class C10_EXPORT FlightRecorder {
 public:
  static FlightRecorder& instance();

  // Number of entries it keeps; 0 records nothing.
  size_t capacity() const { return capacity_; }

  uint64_t record(std::shared_ptr<const RecordedGroup> group, const Ticket& ticket, uint64_t collective_sequence,
                  uint64_t p2p_sequence, uint64_t operation_id, std::chrono::milliseconds timeout, at::TensorList inputs,
                  at::TensorList outputs);
  // `milliseconds` negative: not measured.
  void complete(uint64_t id, float milliseconds);
  void retire(uint64_t id);  // failed or given up
  void add_group(std::shared_ptr<const RecordedGroup> group);
  void reset();

  // The same in two forms. Reading JSON runs no code; PyTorch's analyser wants a pickle.
  std::string pickle(const DumpChoice& choice);
  std::string json(const DumpChoice& choice);

 private:
  struct Entry {
    uint64_t id = 0;
    std::shared_ptr<const RecordedGroup> group;
    Operation operation;
    uint64_t collective_sequence = 0, p2p_sequence = 0, operation_id = 0;
    int64_t created_ns = 0, completed_ns = 0;
    int64_t timeout_ms = 0;
    float duration_ms = -1;
    bool retired = false;
    pthread_t thread{};
    c10::SmallVector<int64_t, 8> shapes;  // rank, sizes...; inputs first
    c10::SmallVector<at::ScalarType, 4> dtypes;
    size_t inputs = 0;
    std::shared_ptr<torch::CapturedTraceback> stack;
  };
  friend class DumpWriter;

  FlightRecorder();
  Entry* find(uint64_t id) NPU_REQUIRES(mutex_);
  std::vector<Entry> copy();

  const size_t capacity_;
  const bool stacks_;
  core::Mutex mutex_;
  std::vector<Entry> entries_ NPU_GUARDED_BY(mutex_);
  uint64_t next_ NPU_GUARDED_BY(mutex_) = 0;
  uint64_t first_ NPU_GUARDED_BY(mutex_) = 0;  // entries before were reset
  std::vector<std::shared_ptr<const RecordedGroup>> groups_ NPU_GUARDED_BY(mutex_);
};

}  // namespace torch_npu::distributed
