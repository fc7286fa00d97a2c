#include "rt/graph/graph_execution.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "rt/graph/condition.h"
#include "rt/graph/flow.h"
#include "rt/stream/event.h"

namespace softcann {

uint32_t next_graph_id() {
  static std::atomic<uint32_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

Graph::Graph(uint32_t id) : id(id) {}

Graph::~Graph() {
  for (const Node& node : nodes) node.task->discard(node.task);
}

aclError Graph::run(bool skip) const {
  if (flow != nullptr) return run_flow(*this, skip, flow->aborts.load(std::memory_order_acquire));
  for (const auto& condition : conditions) condition->assign_default();
  for (const Node& node : nodes) {
    std::unique_lock<std::mutex> lock;
    if (__builtin_expect(node.group != nullptr, 0)) lock = std::unique_lock(node.group->mutex);
    if (const aclError code = node.task->repeat(node.task, skip || Stream::drops_this_task())) return code;
  }
  return ACL_SUCCESS;
}

bool Graph::show(uint32_t event) {
  const std::lock_guard<std::mutex> lock(shown_mutex_);
  return shown_.insert(event).second;
}

void Graph::exchange(TaskGroup* group, std::vector<Task*>* tasks) {
  const std::lock_guard<std::mutex> lock(group->mutex);
  for (size_t i = 0; i < tasks->size(); ++i) std::swap(nodes[group->nodes[i]].task, (*tasks)[i]);
}

// Tasks of one stream that follow each other without waiting for another stream.
struct Step {
  size_t lane;                // 0: the stream of the execution
  std::vector<size_t> nodes;  // of the graph
  std::vector<size_t> waits;  // steps of other lanes
  bool awaited = false;
};

struct Steps {
  std::vector<Step> all;
  std::vector<size_t> last;  // of each lane but the first, which may have none
};

std::shared_ptr<const Steps> steps_of(const Graph& graph) {
  const size_t count = graph.nodes.size();
  std::vector<bool> ends(count, false);
  for (const Graph::Node& node : graph.nodes) {
    for (const size_t before : node.after) ends[before] = true;
  }
  constexpr size_t none = SIZE_MAX;
  auto made = std::make_shared<Steps>();
  Steps& steps = *made;
  std::vector<size_t> step_of(count);
  std::vector<int> streams{graph.origin};
  std::vector<size_t> open{none};  // the step that takes a lane's next task
  steps.last.push_back(none);
  for (size_t i = 0; i < count; ++i) {
    const Graph::Node& node = graph.nodes[i];
    const auto lane = static_cast<size_t>(std::find(streams.begin(), streams.end(), node.stream) - streams.begin());
    if (lane == streams.size()) {
      streams.push_back(node.stream);
      open.push_back(none);
      steps.last.push_back(none);
    }
    if (open[lane] == none || !node.after.empty()) {
      open[lane] = steps.last[lane] = steps.all.size();
      steps.all.push_back({lane, {}, {}});
      for (const size_t before : node.after) {
        steps.all.back().waits.push_back(step_of[before]);
        steps.all[step_of[before]].awaited = true;
      }
    }
    step_of[i] = open[lane];
    steps.all[open[lane]].nodes.push_back(i);
    if (ends[i]) open[lane] = none;
  }
  for (size_t lane = 1; lane < steps.last.size(); ++lane) steps.all[steps.last[lane]].awaited = true;
  return made;
}

namespace {

aclError run_to_its_end(Task* task, bool skip) {
  aclError code = ACL_SUCCESS;
  do {
    code = task->run(task, skip || Stream::drops_this_task());
  } while (code == kUnfinished);
  return code;
}

// Streams for branches, lent out one execution at a time. One that was destroyed with its device is dropped.
struct Branches {
  struct Idle {
    Stream* stream;
    int id;
  };
  std::mutex mutex;
  std::vector<Idle> idle;

  // For the work of `of`, whose abort ends it as well.
  Stream* take(const Stream* of) {
    Stream* taken = take_idle(of->context);
    if (taken == nullptr) taken = Stream::create(of->context, 0, 0);
    taken->act_for(of);
    taken->forget_error();  // an abort of the device has left one behind its work
    return taken;
  }
  void give(Stream* stream) {
    stream->forget_error();  // of a stream it had waited for: whose it is has it, too
    stream->act_for(nullptr);
    const std::lock_guard<std::mutex> lock(mutex);
    idle.push_back({stream, stream->id});
  }

 private:
  Stream* take_idle(const Context* context) {
    const std::lock_guard<std::mutex> lock(mutex);
    const auto gone = [](const Idle& one) { return !one.stream->alive() || one.stream->id != one.id; };
    idle.erase(std::remove_if(idle.begin(), idle.end(), gone), idle.end());
    const auto fits = [&](const Idle& one) { return one.stream->context == context; };
    const auto found = std::find_if(idle.begin(), idle.end(), fits);
    if (found == idle.end()) return nullptr;
    Stream* taken = found->stream;
    idle.erase(found);
    return taken;
  }
};

Branches& branches() {
  static auto* instance = new Branches;
  return *instance;
}

struct Execution {
  std::shared_ptr<Graph> graph;
  std::vector<Task*> fresh;  // by node; null where the graph's own task runs
  std::vector<Stream*> lanes;
  std::atomic<bool> stopped{false};
  std::atomic<bool> begins{false};  // no step has run yet
  std::mutex mutex;                 // guards the rest
  aclError code = ACL_SUCCESS;
  std::string text;

  void fail(aclError failure) {
    const std::lock_guard<std::mutex> lock(mutex);
    stopped.store(true, std::memory_order_release);
    std::string cause = take_task_error();
    if (code != ACL_SUCCESS) return;
    code = failure;
    text = std::move(cause);
  }

  // What a branch failed with beside its steps: nobody else would ask it.
  void adopt(Stream& branch) {
    const auto failure = branch.failure();
    if (failure == nullptr) return;
    const std::lock_guard<std::mutex> lock(mutex);
    if (code != ACL_SUCCESS) return;
    code = failure->first;
    text = failure->second;
  }

  // As a task returns it.
  aclError result() {
    const std::lock_guard<std::mutex> lock(mutex);
    if (code != ACL_SUCCESS) task_error("%s", text.c_str());
    return code;
  }

  aclError run_node(size_t i, bool skip) {
    const Graph::Node& node = graph->nodes[i];
    if (Task* task = std::exchange(fresh[i], nullptr)) return run_to_its_end(task, skip);
    std::unique_lock<std::mutex> lock;
    if (__builtin_expect(node.group != nullptr, 0)) lock = std::unique_lock(node.group->mutex);
    return node.task->repeat(node.task, skip);
  }

  void run(const std::vector<size_t>& nodes, bool skip) {
    if (skip) stopped.store(true, std::memory_order_release);
    if (begins.exchange(false)) {
      for (const auto& condition : graph->conditions) condition->assign_default();
    }
    for (const size_t i : nodes) {
      if (Stream::drops_this_task()) stopped.store(true, std::memory_order_release);
      const aclError failure = run_node(i, stopped.load(std::memory_order_acquire));
      if (failure != ACL_SUCCESS) fail(failure);
    }
  }
};

struct StepTask : Task {
  std::shared_ptr<Execution> execution;
  const std::vector<size_t>* nodes;  // of the graph
  bool closes;                       // tells the execution's error
};

void submit_step(const char* entry, const std::shared_ptr<Execution>& execution, Stream* stream, const std::vector<size_t>& nodes,
                 bool closes) {
  auto* task = new StepTask;
  task->name = entry;
  task->execution = execution;
  task->nodes = &nodes;
  task->closes = closes;
  task->repeat = [](Task* self, bool skip) {
    auto* step = static_cast<StepTask*>(self);
    step->execution->run(*step->nodes, skip);
    if (!step->closes) return ACL_SUCCESS;
    auto& lanes = step->execution->lanes;
    for (size_t lane = 1; lane < lanes.size(); ++lane) {
      step->execution->adopt(*lanes[lane]);
      branches().give(lanes[lane]);
    }
    return step->execution->result();
  };
  task->discard = [](Task* self) { delete static_cast<StepTask*>(self); };
  task->run = &run_once;
  stream->submit(task, kNeverInline);
}

// An event of the execution alone: its waits and its record keep it.
class OwnedEvent {
 public:
  OwnedEvent() = default;
  explicit OwnedEvent(Stream* stream) : event_(Event::create(0)) { event_->record(stream); }
  OwnedEvent(OwnedEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  OwnedEvent& operator=(OwnedEvent&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~OwnedEvent() {
    if (event_ == nullptr) return;
    event_->end_life();
    event_->release();
  }
  void precede(Stream* stream) const { event_->wait_on(stream); }

 private:
  Event* event_ = nullptr;
};

}  // namespace

aclError repeat_renewed(Task* self, bool skip) {
  const RenewedTask* renewed = as_renewed(self);
  return run_to_its_end(renewed->renew(*renewed), skip);
}

aclError execute_with_peers(const char* entry, const std::shared_ptr<Graph>& graph, Stream* stream) {
  if (stream->capture() != nullptr) return refuse_in_capture(stream, "the execution of a graph that communicates");
  static const std::vector<size_t> nothing;
  const Steps& steps = *graph->steps;
  auto execution = std::make_shared<Execution>();
  execution->graph = graph;
  execution->begins = true;
  for (const Graph::Node& node : graph->nodes) {
    const RenewedTask* renewed = as_renewed(node.task);
    execution->fresh.push_back(renewed != nullptr ? renewed->renew(*renewed) : nullptr);
  }
  auto& lanes = execution->lanes;
  lanes.push_back(stream);
  if (steps.last.size() == 1) {
    submit_step(entry, execution, stream, steps.all.front().nodes, true);
    return ACL_SUCCESS;
  }
  submit_step(entry, execution, stream, nothing, false);  // branches skip what they have where the stream had failed before
  const OwnedEvent begin(stream);
  for (size_t lane = 1; lane < steps.last.size(); ++lane) {
    lanes.push_back(branches().take(stream));
    lanes.back()->overflow_switch.store(stream->overflow_switch.load(std::memory_order_relaxed), std::memory_order_relaxed);
    begin.precede(lanes.back());
  }
  std::vector<OwnedEvent> ends(steps.all.size());
  for (size_t i = 0; i < steps.all.size(); ++i) {
    const Step& step = steps.all[i];
    for (const size_t before : step.waits) ends[before].precede(lanes[step.lane]);
    submit_step(entry, execution, lanes[step.lane], step.nodes, false);
    if (step.awaited) ends[i] = OwnedEvent(lanes[step.lane]);
  }
  for (size_t lane = 1; lane < lanes.size(); ++lane) ends[steps.last[lane]].precede(stream);
  submit_step(entry, execution, stream, nothing, true);
  return ACL_SUCCESS;
}

}  // namespace softcann
