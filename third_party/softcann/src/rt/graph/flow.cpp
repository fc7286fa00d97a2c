#include "rt/graph/flow.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "rt/base/error.h"

namespace softcann {
namespace {

// Marks control tasks; run_flow() reads them.
aclError control(Task*, bool) { return ACL_SUCCESS; }

template <class T>
bool compare(aclrtCondition condition, const void* left, const void* right) {
  T a, b;
  std::memcpy(&a, left, sizeof a);
  std::memcpy(&b, right, sizeof b);
  switch (condition) {
    case ACL_RT_EQUAL:
      return a == b;
    case ACL_RT_NOT_EQUAL:
      return a != b;
    case ACL_RT_GREATER:
      return a > b;
    case ACL_RT_GREATER_OR_EQUAL:
      return a >= b;
    case ACL_RT_LESS:
      return a < b;
    default:
      return a <= b;
  }
}

bool holds(const ControlTask& task) {
  return task.wide ? compare<int64_t>(task.condition, task.left, task.right)
                   : compare<int32_t>(task.condition, task.left, task.right);
}

class FlowRun {
 public:
  FlowRun(const Graph& graph, uint32_t began)
      : graph_(graph), flow_(*graph.flow), aborts_(began), lanes_(flow_.lanes.size()), done_(graph.nodes.size()) {
    for (size_t i = 0; i < lanes_.size(); ++i) lanes_[i].active = flow_.heads[i];
  }

  aclError run(bool skip) {
    if (skip) return run_heads_skipped();
    if (flow_.broken.load(std::memory_order_acquire)) {
      task_error("a task was submitted to a stream of graph %u after aclmdlRIBuildEnd", graph_.id);
      return ACL_ERROR_RT_MODEL_EXECUTE;
    }
    for (size_t lane = next(); lane != kNone; lane = next()) {
      if (Stream::drops_this_task()) return ACL_SUCCESS;  // whoever drops it says so
      if (flow_.aborts.load(std::memory_order_acquire) != aborts_) {
        task_error("graph %u was stopped by aclmdlRIAbort", graph_.id);
        return ACL_ERROR_RT_MODEL_ABORT_NORMAL;
      }
      if (const aclError code = step(lane)) return code;
    }
    if (ended_) return ACL_SUCCESS;
    task_error("graph %u did not come to its end (aclmdlRIEndTask): none of its streams could go on", graph_.id);
    return ACL_ERROR_RT_MODEL_EXECUTE;
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;
  struct Lane {
    size_t at = 0;  // in its list of nodes
    bool active = false;
    uint64_t turns = 0;  // how often it jumped back
  };

  // Host functions run on a failed stream, too; of the lanes that run in any case.
  aclError run_heads_skipped() {
    for (const Graph::Node& node : graph_.nodes) {
      if (flow_.heads[flow_.lane_of(node.stream)]) (void)node.task->repeat(node.task, true);
    }
    return ACL_SUCCESS;
  }

  size_t node_at(size_t lane) const {
    const auto& nodes = flow_.lanes[lane];
    return lanes_[lane].at < nodes.size() ? nodes[lanes_[lane].at] : kNone;
  }

  size_t next() {
    size_t best = kNone;
    for (size_t i = 0; i < lanes_.size(); ++i) {
      if (!lanes_[i].active) continue;
      const size_t node = node_at(i);
      if (node == kNone) {
        lanes_[i].active = false;
        continue;
      }
      const auto& after = graph_.nodes[node].after;
      if (!std::all_of(after.begin(), after.end(), [this](size_t before) { return done_[before]; })) continue;
      if (best == kNone || std::tie(lanes_[i].turns, node) < std::make_tuple(lanes_[best].turns, node_at(best))) best = i;
    }
    return best;
  }

  aclError step(size_t lane) {
    const size_t node = node_at(lane);
    Task* task = graph_.nodes[node].task;
    ++lanes_[lane].at;
    done_[node] = true;
    const ControlTask* decides = as_control(task);
    if (decides == nullptr) return task->repeat(task, false);
    switch (decides->kind) {
      case ControlTask::Kind::activate:
        return activate(decides->target);
      case ControlTask::Kind::choose:
        if (!holds(*decides)) return ACL_SUCCESS;
        lanes_[lane].active = false;
        return activate(decides->target);
      case ControlTask::Kind::jump:
        return jump(lane, node, *decides);
      case ControlTask::Kind::end:
        ended_ = true;
        return ACL_SUCCESS;
      case ControlTask::Kind::label:
        return ACL_SUCCESS;
    }
    return ACL_SUCCESS;
  }

  // From its beginning, unless it runs.
  aclError activate(int stream) {
    const size_t lane = flow_.lane_of(stream);
    if (lane == flow_.streams.size()) {
      task_error("stream %d is not bound to graph %u", stream, graph_.id);
      return ACL_ERROR_RT_STREAM_MODEL;
    }
    if (!lanes_[lane].active) go(lane, 0);
    return ACL_SUCCESS;
  }

  void go(size_t lane, size_t position) {
    if (lanes_[lane].at > position) ++lanes_[lane].turns;
    lanes_[lane].at = position;
    lanes_[lane].active = true;
  }

  aclError jump(size_t from, size_t node, const ControlTask& task) {
    uint32_t index = 0;
    std::memcpy(&index, task.index, sizeof index);
    const uint64_t label = task.labels[std::min<size_t>(index, task.labels.size() - 1)];
    for (size_t lane = 0; lane < lanes_.size(); ++lane) {
      const auto& nodes = flow_.lanes[lane];
      for (size_t at = 0; at < nodes.size(); ++at) {
        const ControlTask* found = as_control(graph_.nodes[nodes[at]].task);
        if (found == nullptr || found->kind != ControlTask::Kind::label || found->label != label) continue;
        lanes_[from].active = false;
        go(lane, at);
        return ACL_SUCCESS;
      }
    }
    task_error("%s, task %zu: label %u of its list is set on no stream of graph %u", task.name, node, index, graph_.id);
    return ACL_ERROR_RT_MODEL_EXECUTE;
  }

  const Graph& graph_;
  const Flow& flow_;
  const uint32_t aborts_;
  std::vector<Lane> lanes_;
  std::vector<bool> done_;  // nodes
  bool ended_ = false;
};

}  // namespace

ControlTask::ControlTask(Kind kind, const char* entry) : kind(kind) {
  name = entry;
  run = &run_once;
  repeat = &control;
  discard = [](Task* self) { delete static_cast<ControlTask*>(self); };
}

const ControlTask* as_control(const Task* task) {
  return task->repeat == &control ? static_cast<const ControlTask*>(task) : nullptr;
}

size_t Flow::lane_of(int stream) const {
  return static_cast<size_t>(std::find(streams.begin(), streams.end(), stream) - streams.begin());
}

void lay_out(Graph* graph) {
  Flow& flow = *graph->flow;
  flow.lanes.resize(flow.streams.size());
  for (size_t i = 0; i < graph->nodes.size(); ++i) flow.lanes[flow.lane_of(graph->nodes[i].stream)].push_back(i);
}

aclError run_flow(const Graph& graph, bool skip, uint32_t began) { return FlowRun(graph, began).run(skip); }

}  // namespace softcann
