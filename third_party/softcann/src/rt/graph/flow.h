// Graphs that a client builds of streams it binds to them (aclmdlRIBuildBegin), and the tasks that decide which stream goes on.
#pragma once

#include <memory>
#include <vector>

#include "rt/graph/capture.h"

namespace softcann {

// Note [Built graphs]
// Each bound stream is a lane of the graph. An execution is one task, which takes the lanes' tasks in turns: of those lanes that
// can go on, the one whose next task was submitted first; one that has jumped back comes after all that have not. So an order
// that holds between the lanes by events, or by the order of submission, holds in each execution. The head lanes run from the
// beginning, the others once they are activated. What was not activated does not run; a graph whose end no lane comes to has
// failed.
struct ControlTask : Task {
  enum class Kind { activate, choose, label, jump, end };
  Kind kind = Kind::label;
  int target = -1;  // the stream to activate, or to go on with
  // choose
  const void *left = nullptr, *right = nullptr;
  aclrtCondition condition = ACL_RT_EQUAL;
  bool wide = false;  // 64 bits
  // jump: by the number at `index`, the last where it is larger
  const uint32_t* index = nullptr;
  std::vector<uint64_t> labels;  // their serial numbers
  uint64_t label = 0;            // label: its own

  ControlTask(Kind kind, const char* entry);
};

// As a control task; null for a task that computes.
const ControlTask* as_control(const Task* task);

struct Flow {
  std::vector<int> streams;                // of each lane
  std::vector<bool> heads;                 // lanes that run from the beginning
  std::vector<std::vector<size_t>> lanes;  // nodes of each
  std::atomic<uint32_t> aborts{0};         // executions that began before the last one stop
  std::atomic<bool> broken{false};         // tasks came after the end

  size_t lane_of(int stream) const;
};

// The lanes of a graph that is complete.
void lay_out(Graph* graph);
// `began`: how many aborts there had been when the client asked for the execution.
aclError run_flow(const Graph& graph, bool skip, uint32_t began);

}  // namespace softcann
