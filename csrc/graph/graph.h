// A graph: the work of some streams, captured once and run again as one launch.
//
// Note [Memory of a graph]
// What is allocated while a stream is captured comes from a pool of the graph's own, and so does what is freed and allocated
// again in between. The pool belongs to the graph until reset(): a replay writes where the capture wrote, however the
// program's own tensors come and go. Graphs that are never at work at the same time may share a pool.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/capture.h"
#include "core/generator.h"
#include "memory/device_allocator.h"

namespace torch_npu::graph {

class C10_EXPORT Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // From here on the current stream, which must not be the default one, takes work without running it; so do streams that
  // wait for its events. {0, 0}: a pool of its own.
  void capture_begin(memory::MempoolId pool = {0, 0}, aclmdlRICaptureMode mode = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  // On the same stream. Throws what made the capture fail; there is no graph then.
  void capture_end();
  // What the current stream, which is another one from here to end_branch(), takes in between runs at a replay where the int64
  // at `condition`, in the device's memory, is not 0 when the replay comes there. Branches may be within branches.
  void begin_branch(const void* condition);
  void end_branch();
  // Runs it on the current stream.
  void replay();
  // Waits for replays, and lets go of the graph and its memory.
  void reset();
  memory::MempoolId pool() const;
  // Writes the captured tasks as JSON.
  void debug_dump(const std::string& path) const;

 private:
  struct Branch {
    core::Stream outside, inside;
  };
  // The graphs that take the streams' work: this one and its branches.
  struct Members;

  void give_capture_up() noexcept;
  int leave_branch();
  void end_route() noexcept;
  void release_memory() noexcept;

  aclmdlRI graph_ = nullptr;
  bool capturing_ = false;
  bool holds_pool_ = false;
  memory::MempoolId pool_{0, 0};
  c10::DeviceIndex device_ = -1;
  std::optional<core::Stream> captured_, replayed_;
  core::GraphDraws draws_;
  aclmdlRICaptureMode mode_ = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
  std::vector<Branch> branches_;  // that are open
  std::shared_ptr<Members> members_;
};

// What `stream`, which is being captured, takes between the two is a group whose tasks can be replaced. The group lives as long
// as the graph.
C10_EXPORT void begin_task_group(const core::Stream& stream);
C10_EXPORT aclrtTaskGrp end_task_group(const core::Stream& stream);
// What `stream` takes between the two does not run: it replaces the group's tasks, which must be the same operators, when the
// stream comes to it.
C10_EXPORT void begin_task_update(const core::Stream& stream, aclrtTaskGrp group);
C10_EXPORT void end_task_update(const core::Stream& stream);

}  // namespace torch_npu::graph
