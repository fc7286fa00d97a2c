#include "graph/graph.h"

#include <algorithm>
#include <mutex>

#include <c10/util/ScopeExit.h>

#include "acl/graph.h"
#include "core/error.h"
#include "core/recovery.h"
#include "memory/heap.h"
#include "op/launch_hooks.h"

namespace torch_npu::graph {

struct Graph::Members {
  std::mutex mutex;
  std::vector<aclmdlRI> graphs;

  void add(aclmdlRI graph) {
    const std::lock_guard<std::mutex> lock(mutex);
    graphs.push_back(graph);
  }
  bool have(aclmdlRI graph) {
    const std::lock_guard<std::mutex> lock(mutex);
    return graph && std::find(graphs.begin(), graphs.end(), graph) != graphs.end();
  }
};

Graph::~Graph() {
  if (core::process_ends()) return;
  try {
    if (capturing_) {
      const auto current = core::exchange_stream(*captured_);
      auto back = c10::make_scope_exit([&] { core::exchange_stream(current); });
      capture_end();
    }
  } catch (const std::exception&) {
    // Whoever gives a capture up does not want its error.
  }
  try {
    reset();
  } catch (const std::exception& error) {
    TORCH_WARN("giving up a graph: ", error.what());
  }
}

void Graph::capture_begin(memory::MempoolId pool, aclmdlRICaptureMode mode) {
  TORCH_CHECK(!capturing_ && !graph_, "this graph has been captured already; reset() it first");
  const auto stream = core::current_stream();
  TORCH_CHECK(stream != core::default_stream(stream.device_index()),
              "a graph cannot be captured on the default stream; use torch.npu.graph(), or another stream");
  device_ = stream.device_index();
  auto& heap = memory::heap(device_);
  pool_ = pool == memory::MempoolId{0, 0} ? memory::new_pool_id(false) : pool;
  heap.hold_pool(pool_, {});
  holds_pool_ = true;
  auto failed = c10::make_scope_exit([this] { release_memory(); });
  core::ensure_bound();
  NPU_CHECK(acl::aclmdlRICaptureBegin(stream.raw(), mode));
  ++core::captures_under_way;
  captured_ = stream;
  capturing_ = true;
  try {
    const aclmdlRI graph = core::captured_into(stream);
    draws_.begin_capture(graph);
    mode_ = mode;
    members_ = std::make_shared<Members>();
    members_->add(graph);
    const auto members = members_;
    heap.begin_route(pool_, [members](c10::Stream of) { return members->have(core::captured_into(core::Stream(of))); }, true);
  } catch (...) {
    give_capture_up();
    draws_.end_capture();
    --core::captures_under_way;
    capturing_ = false;
    throw;
  }
  failed.release();
}

// Leaves no stream in a capture that nobody can end any more.
void Graph::give_capture_up() noexcept {
  aclmdlRI none = nullptr;
  NPU_CHECK_WARN(acl::aclmdlRICaptureEnd(captured_->raw(), &none));
  if (none) NPU_CHECK_WARN(acl::aclmdlRIDestroy(none));
}

void Graph::end_route() noexcept {
  try {
    memory::heap(device_).end_route(pool_);
    memory::heap(device_).release_pool(pool_);  // the route held it as well
  } catch (const std::exception& error) {
    TORCH_WARN("ending a capture: ", error.what());
  }
}

void Graph::begin_branch(const void* condition) {
  constexpr int kMostStreams = 32;
  TORCH_CHECK(capturing_, "a branch is part of a capture, and none has begun");
  const core::DeviceGuard guard(device_);
  core::ensure_bound();
  const auto outside = core::current_stream();
  const aclmdlRI graph = core::captured_into(outside);
  TORCH_CHECK(members_->have(graph), "the current stream is not being captured into this graph");
  aclmdlRICondHandle handle = nullptr;
  NPU_CHECK(acl::aclmdlRICondHandleCreate(graph, 0, ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT, &handle));
  uint64_t* value = nullptr;
  NPU_CHECK(acl::aclmdlRICondHandleGetCondPtr(handle, &value));
  NPU_CHECK(acl::aclrtMemcpyAsync(value, sizeof *value, condition, sizeof *value, ACL_MEMCPY_DEVICE_TO_DEVICE, outside.raw()));
  aclmdlRI branch = nullptr;
  NPU_CHECK(acl::aclmdlRIAddCondTask({handle, ACL_MODEL_RI_COND_TYPE_IF, 1, &branch}, outside.raw(), 0));
  auto inside = core::stream_from_pool(false, device_);
  for (int i = 0; core::captured_into(inside) && i < kMostStreams; ++i) inside = core::stream_from_pool(false, device_);
  members_->add(branch);
  NPU_CHECK(acl::aclmdlRICaptureToModelRIBegin(inside.raw(), branch, mode_));
  branches_.push_back({outside, inside});
  core::exchange_stream(inside);
}

// CANN's status.
int Graph::leave_branch() {
  const auto branch = branches_.back();
  branches_.pop_back();
  const int status = acl::aclmdlRICaptureEnd(branch.inside.raw(), nullptr);
  core::exchange_stream(branch.outside);
  return status;
}

void Graph::end_branch() {
  TORCH_CHECK(!branches_.empty(), "no branch has begun");
  const core::DeviceGuard guard(device_);
  core::ensure_bound();
  TORCH_CHECK(core::current_stream() == branches_.back().inside, "a branch must end on the stream on which it began");
  if (const int status = leave_branch()) core::throw_cann_error(status, "aclmdlRICaptureEnd", __FILE__, __LINE__);
}

void Graph::capture_end() {
  TORCH_CHECK(capturing_, "no capture has begun");
  const core::DeviceGuard guard(device_);
  core::ensure_bound();
  const bool unfinished = !branches_.empty();  // an exception has left it
  while (!branches_.empty()) leave_branch();
  TORCH_CHECK(core::current_stream() == *captured_, "a capture must end on the stream on which it began");
  const int status = acl::aclmdlRICaptureEnd(captured_->raw(), &graph_);
  capturing_ = false;
  draws_.end_capture();
  --core::captures_under_way;
  end_route();
  if (status != 0) {
    graph_ = nullptr;
    auto cleanup = c10::make_scope_exit([this] {
      // Most failures end the capture all the same; this one may have come before.
      auto capture = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
      aclmdlRI none = nullptr;
      const bool known = acl::aclmdlRICaptureGetInfo(captured_->raw(), &capture, &none) == 0;
      if (known && capture != ACL_MODEL_RI_CAPTURE_STATUS_NONE) give_capture_up();
      draws_.clear();
      release_memory();
    });
    core::throw_cann_error(status, "aclmdlRICaptureEnd", __FILE__, __LINE__);
  }
  if (unfinished) {
    reset();
    TORCH_CHECK(false, "the capture has ended within a branch; there is no graph");
  }
}

void Graph::replay() {
  TORCH_CHECK(graph_, "there is nothing to replay: the graph has not been captured");
  const core::DeviceGuard guard(device_);
  const auto stream = core::current_stream();
  core::ensure_bound();
  draws_.before_replay();
  op::launch_with_hooks({"aclmdlRIExecuteAsync", stream.raw()},
                        [&] { NPU_CHECK(acl::aclmdlRIExecuteAsync(graph_, stream.raw())); });
  replayed_ = stream;
}

void Graph::reset() {
  TORCH_CHECK(!capturing_, "a graph cannot be reset while it is being captured");
  if (graph_) {
    const core::DeviceGuard guard(device_);
    core::ensure_bound();
    if (replayed_) acl::aclrtSynchronizeStream(replayed_->raw());  // its error is for whoever waits for the stream
    NPU_CHECK_WARN(acl::aclmdlRIDestroy(std::exchange(graph_, nullptr)));
  }
  replayed_.reset();
  draws_.clear();
  release_memory();
}

void Graph::release_memory() noexcept {
  if (!std::exchange(holds_pool_, false)) return;
  try {
    memory::heap(device_).release_pool(pool_);
  } catch (const std::exception& error) {
    TORCH_WARN("giving up the memory of a graph: ", error.what());
  }
}

memory::MempoolId Graph::pool() const {
  TORCH_CHECK(holds_pool_, "the graph has no memory pool before it is captured");
  return pool_;
}

void Graph::debug_dump(const std::string& path) const {
  TORCH_CHECK(graph_, "there is nothing to show: the graph has not been captured");
  NPU_CHECK(acl::aclmdlRIDebugJsonPrint(graph_, path.c_str(), 0));
}

void begin_task_group(const core::Stream& stream) {
  const core::DeviceGuard guard(stream.device_index());
  core::ensure_bound();
  NPU_CHECK(acl::aclmdlRICaptureTaskGrpBegin(stream.raw()));
}

aclrtTaskGrp end_task_group(const core::Stream& stream) {
  const core::DeviceGuard guard(stream.device_index());
  core::ensure_bound();
  aclrtTaskGrp group = nullptr;
  NPU_CHECK(acl::aclmdlRICaptureTaskGrpEnd(stream.raw(), &group));
  return group;
}

void begin_task_update(const core::Stream& stream, aclrtTaskGrp group) {
  const core::DeviceGuard guard(stream.device_index());
  core::ensure_bound();
  NPU_CHECK(acl::aclmdlRICaptureTaskUpdateBegin(stream.raw(), group));
}

void end_task_update(const core::Stream& stream) {
  const core::DeviceGuard guard(stream.device_index());
  core::ensure_bound();
  NPU_CHECK(acl::aclmdlRICaptureTaskUpdateEnd(stream.raw()));
}

}  // namespace torch_npu::graph
