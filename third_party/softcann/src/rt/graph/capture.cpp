#include "rt/graph/capture.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "rt/graph/condition.h"
#include "rt/graph/flow.h"
#include "rt/graph/graph_execution.h"

namespace softcann {
namespace {

// All captures that have not ended. One lock for all of them: nothing here is on a path that has to be fast.
struct Captures {
  std::mutex mutex;
  std::vector<std::shared_ptr<Capture>> active;
  std::atomic<size_t> count{0};
};

Captures& captures() {
  static auto* instance = new Captures;
  return *instance;
}

thread_local aclmdlRICaptureMode thread_mode = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;

void come_after(VectorClock* clock, const VectorClock& point) {
  for (const auto& [stream, steps] : point) {
    auto& known = (*clock)[stream];
    known = std::max(known, steps);
  }
}

}  // namespace

aclError Capture::begin(const char* entry, Stream* stream, aclmdlRICaptureMode mode, std::shared_ptr<Graph> branch) {
  if (stream == stream->context->default_stream) {
    return fail(ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, "%s: the default stream cannot be captured", entry);
  }
  if (mode != ACL_MODEL_RI_CAPTURE_MODE_GLOBAL && mode != ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL &&
      mode != ACL_MODEL_RI_CAPTURE_MODE_RELAXED) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: mode %d does not exist", entry, static_cast<int>(mode));
  }
  const std::lock_guard<std::mutex> lock(captures().mutex);
  if (stream->capture() != nullptr) {
    return fail(ACL_ERROR_RT_STREAM_CAPTURED, "%s: stream %d is being captured already", entry, stream->id);
  }
  if (branch != nullptr && branch->origin >= 0) {
    return fail(ACL_ERROR_RT_MODEL_CAPTURED, "%s: graph %u has been captured already, or is being captured", entry, branch->id);
  }
  make(stream, mode, std::move(branch));
  return ACL_SUCCESS;
}

// The caller holds the lock.
std::shared_ptr<Capture> Capture::make(Stream* stream, aclmdlRICaptureMode mode, std::shared_ptr<Graph> graph) {
  auto& all = captures();
  auto made = std::make_shared<Capture>();
  made->origin_ = stream;
  made->mode_ = mode;
  made->thread_ = std::this_thread::get_id();
  made->graph_ = graph != nullptr ? std::move(graph) : std::make_shared<Graph>(next_graph_id());
  made->graph_->origin = stream->id;
  made->streams_[stream];
  all.active.push_back(made);
  all.count.store(all.active.size());
  stream->set_capture(made.get());
  return made;
}

void Capture::finish() {
  auto& all = captures();
  for (const auto& [stream, clock] : streams_) {
    if (stream->capture() == this) stream->set_capture(nullptr);  // else it was destroyed with its context
  }
  all.active.erase(std::find_if(all.active.begin(), all.active.end(), [&](const auto& one) { return one.get() == this; }));
  all.count.store(all.active.size());
}

aclError Capture::end(Stream* stream, std::shared_ptr<Graph>* graph) {
  const std::lock_guard<std::mutex> lock(captures().mutex);
  Capture* capture = stream->capture();
  if (capture == nullptr || !capture->is_capture()) {
    return fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, "aclmdlRICaptureEnd: stream %d is not being captured", stream->id);
  }
  if (capture->origin_ != stream) {
    return fail(ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED, "aclmdlRICaptureEnd: the capture began on stream %d, not on stream %d",
                capture->origin_->id, stream->id);
  }
  if (capture->mode_ != ACL_MODEL_RI_CAPTURE_MODE_RELAXED && capture->thread_ != std::this_thread::get_id()) {
    return fail(ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD,
                "aclmdlRICaptureEnd: another thread began the capture, whose mode is not relaxed");
  }
  const aclError code = capture->check_end(stream);
  if (code == ACL_SUCCESS) {
    *graph = capture->graph_;
    if ((*graph)->communicates) (*graph)->steps = steps_of(**graph);
    (*graph)->complete = true;
  }
  capture->finish();
  return code;
}

// Whether what was captured is a graph.
aclError Capture::check_end(Stream* stream) const {
  if (!failure_.empty()) return fail(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, "the capture failed: %s", failure_.c_str());
  if (!open_groups_.empty()) {
    return fail(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED,
                "aclmdlRICaptureEnd: the task group that began on stream %d has not ended", open_groups_.begin()->first->id);
  }
  for (const auto& branch : graph_->branches) {
    if (branch->complete) continue;
    return fail(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED,
                "aclmdlRICaptureEnd: branch %u of a conditional task has not been captured", branch->id);
  }
  const VectorClock& last = streams_.at(stream);
  for (const auto& [other, clock] : streams_) {
    const auto own = clock.find(other), seen = last.find(other);
    if (own == clock.end() || (seen != last.end() && seen->second >= own->second)) continue;
    return fail(ACL_ERROR_RT_STREAM_UNJOINED,
                "aclmdlRICaptureEnd: stream %d does not wait for the last of what was captured on stream %d", stream->id,
                other->id);
  }
  return ACL_SUCCESS;
}

aclError Capture::begin_group(Stream* stream) {
  const std::lock_guard<std::mutex> lock(captures().mutex);
  Capture* capture = stream->capture();
  if (capture == nullptr || !capture->is_capture()) {
    return fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, "aclmdlRICaptureTaskGrpBegin: stream %d is not being captured", stream->id);
  }
  if (capture->open_groups_.count(stream) != 0) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclmdlRICaptureTaskGrpBegin: a task group has begun on stream %d and not ended",
                stream->id);
  }
  auto& groups = capture->graph_->groups;
  groups.push_back(std::make_unique<TaskGroup>());
  capture->open_groups_[stream] = groups.back().get();
  return ACL_SUCCESS;
}

aclError Capture::end_group(Stream* stream, std::shared_ptr<Graph>* graph, TaskGroup** group) {
  const std::lock_guard<std::mutex> lock(captures().mutex);
  Capture* capture = stream->capture();
  if (capture == nullptr || capture->open_groups_.count(stream) == 0) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclmdlRICaptureTaskGrpEnd: no task group has begun on stream %d", stream->id);
  }
  *graph = capture->graph_;
  *group = capture->open_groups_.extract(stream).mapped();
  return ACL_SUCCESS;
}

aclError Capture::begin_update(Stream* stream, const std::shared_ptr<Graph>& graph, TaskGroup* group) {
  const std::lock_guard<std::mutex> lock(captures().mutex);
  if (!graph->complete) {
    return fail(ACL_ERROR_RT_MODEL_CAPTURED, "aclmdlRICaptureTaskUpdateBegin: graph %u is still being captured", graph->id);
  }
  if (stream->capture() != nullptr) {
    return fail(ACL_ERROR_RT_STREAM_CAPTURED,
                "aclmdlRICaptureTaskUpdateBegin: stream %d is being captured, or updates tasks already", stream->id);
  }
  const auto update = make(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED, nullptr);
  update->updated_ = graph;
  update->updated_group_ = group;
  return ACL_SUCCESS;
}

namespace {

struct UpdateTask : Task {
  std::shared_ptr<Graph> graph;
  TaskGroup* group;
  std::vector<Task*> tasks;
};

aclError update_tasks(Task* self, bool skip) {
  const std::unique_ptr<UpdateTask> update(static_cast<UpdateTask*>(self));
  if (!skip) update->graph->exchange(update->group, &update->tasks);
  for (Task* task : update->tasks) task->discard(task);
  return ACL_SUCCESS;
}

// The same operators as there are, in the same order.
aclError check_update(const Graph& graph, const TaskGroup& group, const std::vector<Graph::Node>& fresh) {
  if (fresh.size() != group.nodes.size()) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclmdlRICaptureTaskUpdateEnd: %zu tasks for a group of %zu", fresh.size(),
                group.nodes.size());
  }
  for (size_t i = 0; i < fresh.size(); ++i) {
    const char* before = graph.nodes[group.nodes[i]].task->name;
    if (as_renewed(fresh[i].task) != nullptr) {
      return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                  "aclmdlRICaptureTaskUpdateEnd: task %zu, %s, communicates, and such cannot be updated", i, fresh[i].task->name);
    }
    if (std::strcmp(before, fresh[i].task->name) != 0) {
      return fail(ACL_ERROR_INVALID_PARAM, "aclmdlRICaptureTaskUpdateEnd: task %zu of the group is %s, not %s", i, before,
                  fresh[i].task->name);
    }
  }
  return ACL_SUCCESS;
}

}  // namespace

aclError Capture::end_update(Stream* stream) {
  std::shared_ptr<Capture> update;
  {
    const std::lock_guard<std::mutex> lock(captures().mutex);
    Capture* capture = stream->capture();
    if (capture == nullptr || capture->updated_ == nullptr) {
      return fail(ACL_ERROR_INVALID_PARAM, "aclmdlRICaptureTaskUpdateEnd: no update has begun on stream %d", stream->id);
    }
    update = capture->shared_from_this();
    update->finish();
  }
  if (!update->failure_.empty()) {
    return fail(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, "the update of tasks failed: %s", update->failure_.c_str());
  }
  std::vector<Graph::Node>& fresh = update->graph_->nodes;
  {
    const std::lock_guard<std::mutex> lock(update->updated_group_->mutex);
    if (const aclError code = check_update(*update->updated_, *update->updated_group_, fresh)) return code;
  }
  auto* task = new UpdateTask;
  task->name = "aclmdlRICaptureTaskUpdateEnd";
  task->graph = update->updated_;
  task->group = update->updated_group_;
  for (const Graph::Node& node : fresh) task->tasks.push_back(node.task);
  fresh.clear();
  task->run = &update_tasks;
  stream->submit(task, 0);
  return ACL_SUCCESS;
}

std::shared_ptr<Graph> Capture::begin_build() {
  const std::lock_guard<std::mutex> lock(captures().mutex);
  auto& all = captures();
  auto made = std::make_shared<Capture>();
  made->mode_ = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
  made->graph_ = std::make_shared<Graph>(next_graph_id());
  made->graph_->flow = std::make_unique<Flow>();
  all.active.push_back(made);
  all.count.store(all.active.size());
  return made->graph_;
}

// The caller holds the lock.
std::shared_ptr<Capture> Capture::of_build(const std::shared_ptr<Graph>& graph) {
  for (const auto& one : captures().active) {
    if (one->graph_ == graph) return one;
  }
  return nullptr;
}

aclError Capture::bind(const std::shared_ptr<Graph>& graph, Stream* stream, bool head) {
  const std::lock_guard<std::mutex> lock(captures().mutex);
  const auto build = of_build(graph);
  if (build == nullptr || graph->complete) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclmdlRIBindStream: graph %u is complete", graph->id);
  }
  if (stream->capture() != nullptr) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclmdlRIBindStream: stream %d is bound already, or being captured", stream->id);
  }
  build->streams_[stream];
  graph->flow->streams.push_back(stream->id);
  graph->flow->heads.push_back(head);
  stream->set_capture(build.get());
  return ACL_SUCCESS;
}

aclError Capture::unbind(const std::shared_ptr<Graph>& graph, Stream* stream) {
  const std::lock_guard<std::mutex> lock(captures().mutex);
  const auto build = of_build(graph);
  if (build == nullptr || stream->capture() != build.get()) {
    return fail(ACL_ERROR_RT_STREAM_MODEL, "aclmdlRIUnbindStream: stream %d is not bound to graph %u", stream->id, graph->id);
  }
  if (!graph->complete && build->failure_.empty()) {
    build->failure_ = "stream " + std::to_string(stream->id) + " was unbound before aclmdlRIBuildEnd";
  }
  stream->set_capture(nullptr);
  build->streams_.erase(stream);
  return ACL_SUCCESS;
}

aclError Capture::end_build(const std::shared_ptr<Graph>& graph) {
  const std::lock_guard<std::mutex> lock(captures().mutex);
  const auto build = of_build(graph);
  if (build == nullptr || graph->complete) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclmdlRIBuildEnd: graph %u is complete", graph->id);
  }
  if (!build->failure_.empty()) {
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclmdlRIBuildEnd: %s", build->failure_.c_str());
  }
  const auto& heads = graph->flow->heads;
  if (std::find(heads.begin(), heads.end(), true) == heads.end()) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclmdlRIBuildEnd: graph %u has no stream of ACL_MODEL_STREAM_FLAG_HEAD", graph->id);
  }
  lay_out(graph.get());
  graph->complete = true;
  return ACL_SUCCESS;
}

void Capture::forget_build(const std::shared_ptr<Graph>& graph) {
  const std::lock_guard<std::mutex> lock(captures().mutex);
  if (const auto build = of_build(graph)) build->finish();
}

std::vector<Stream*> Capture::bound(const std::shared_ptr<Graph>& graph) {
  const std::lock_guard<std::mutex> lock(captures().mutex);
  std::vector<Stream*> found;
  const auto build = of_build(graph);
  if (build == nullptr) return found;
  for (const auto& [stream, clock] : build->streams_) {
    if (stream->capture() == build.get()) found.push_back(stream);
  }
  std::sort(found.begin(), found.end(), [](const Stream* a, const Stream* b) { return a->id < b->id; });
  return found;
}

std::shared_ptr<Graph> Capture::built_by(const Stream* stream) {
  if (stream->capture() == nullptr) return nullptr;
  const std::lock_guard<std::mutex> lock(captures().mutex);
  const Capture* capture = stream->capture();
  if (capture == nullptr || !capture->builds() || capture->graph_->complete) return nullptr;
  return capture->graph_;
}

std::shared_ptr<Graph> Capture::graph_of(const Stream* stream, bool* valid) {
  if (stream->capture() == nullptr) return nullptr;
  const std::lock_guard<std::mutex> lock(captures().mutex);
  const Capture* capture = stream->capture();
  if (capture == nullptr || !capture->is_capture()) return nullptr;
  *valid = capture->failure_.empty();
  return capture->graph_;
}

void Capture::add(Stream* stream, Task* task, uint32_t cost_ns) {
  auto& all = captures();
  std::unique_lock<std::mutex> lock(all.mutex);
  Capture* capture = stream->capture();
  if (capture == nullptr) {  // another thread has ended it
    lock.unlock();
    if (const RenewedTask* renewed = as_renewed(task)) task->discard(std::exchange(task, renewed->renew(*renewed)));
    return stream->submit(task, cost_ns);
  }
  if (capture->graph_->complete) {  // a built graph's stream that is still bound to it
    capture->graph_->flow->broken.store(true, std::memory_order_release);
    lock.unlock();
    return task->discard(task);
  }
  const auto group = capture->open_groups_.find(stream);
  const bool grouped = group != capture->open_groups_.end();
  if (grouped) group->second->nodes.push_back(capture->graph_->nodes.size());
  Graph::Node node{task, stream->id, grouped ? group->second : nullptr, {}};
  VectorClock &clock = capture->streams_[stream], &seen = capture->seen_[stream];
  for (const auto& [other, steps] : clock) {
    if (other != stream && steps > seen[other]) node.after.push_back(capture->steps_of_[other][steps - 1]);
  }
  seen = clock;
  capture->steps_of_[stream].push_back(capture->graph_->nodes.size());
  capture->graph_->nodes.push_back(std::move(node));
  capture->graph_->cost_ns += cost_ns;
  capture->graph_->communicates |= as_renewed(task) != nullptr;
  if (capture->graph_->is_branch && capture->graph_->communicates && capture->failure_.empty()) {
    capture->failure_ = std::string(task->name) + " communicates, which the branch of a conditional task cannot";
  }
  if (capture->builds() && capture->graph_->communicates && capture->failure_.empty()) {
    capture->failure_ = std::string(task->name) + " communicates, which a graph that is built cannot; capture it";
  }
  ++clock[stream];
}

VectorClock Capture::now(const Stream* stream) {
  const std::lock_guard<std::mutex> lock(captures().mutex);
  const Capture* capture = stream->capture();
  return capture == nullptr ? VectorClock() : capture->streams_.at(const_cast<Stream*>(stream));
}

aclError Capture::join(Stream* stream, const VectorClock& point) {
  const std::lock_guard<std::mutex> lock(captures().mutex);
  if (stream->capture() != nullptr && stream->capture() != this) {
    return fail(ACL_ERROR_STREAM_CAPTURE_CONFLICT, "stream %d is being captured into another graph", stream->id);
  }
  if (stream->capture() == nullptr && builds()) {
    return fail(ACL_ERROR_RT_STREAM_MODEL, "stream %d is not bound to graph %u, on a stream of which the event was recorded",
                stream->id, graph_->id);
  }
  if (stream == stream->context->default_stream) {
    failure_ = failure_.empty() ? "the default stream waited for a captured event" : failure_;
    return fail(ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, "the default stream cannot join a capture");
  }
  come_after(&streams_[stream], point);
  stream->set_capture(this);
  return ACL_SUCCESS;
}

void Capture::invalidate(const std::string& reason) {
  const std::lock_guard<std::mutex> lock(captures().mutex);
  if (failure_.empty()) failure_ = reason;
}

aclError refuse_in_capture(Stream* stream, const char* entry) {
  const std::lock_guard<std::mutex> lock(captures().mutex);
  Capture* capture = stream->capture();
  if (capture != nullptr && capture->builds()) {
    return fail(ACL_ERROR_RT_STREAM_MODEL, "%s: stream %d is bound to graph %u (aclmdlRIUnbindStream)", entry, stream->id,
                capture->graph_->id);
  }
  const std::string reason = std::string(entry) + " on stream " + std::to_string(stream->id) + ", which is being captured";
  if (capture != nullptr && capture->failure_.empty()) capture->failure_ = reason;
  return fail(ACL_ERROR_RT_STREAM_CAPTURED, "%s: it cannot be part of a graph", reason.c_str());
}

aclError refuse_unsafe(const char* entry) {
  auto& all = captures();
  if (__builtin_expect(all.count.load(std::memory_order_relaxed) == 0, 1)) return ACL_SUCCESS;
  if (thread_mode == ACL_MODEL_RI_CAPTURE_MODE_RELAXED) return ACL_SUCCESS;
  const std::lock_guard<std::mutex> lock(all.mutex);
  for (const auto& capture : all.active) {
    const bool own = capture->thread_ == std::this_thread::get_id() && capture->mode_ != ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
    const bool everybodys = capture->mode_ == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL && thread_mode == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
    if (!own && !everybodys) continue;
    if (capture->failure_.empty())
      capture->failure_ = std::string(entry) + " while stream " + std::to_string(capture->origin_->id) + " was captured";
    return fail(ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "%s: not while stream %d is being captured in this mode", entry,
                capture->origin_->id);
  }
  return ACL_SUCCESS;
}

aclmdlRICaptureMode exchange_thread_mode(aclmdlRICaptureMode mode) { return std::exchange(thread_mode, mode); }

}  // namespace softcann
