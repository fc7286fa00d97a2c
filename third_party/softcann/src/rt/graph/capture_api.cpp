// Graphs, as clients call them.
#include <algorithm>
#include <cstdio>
#include <optional>

#include "rt/graph/capture.h"
#include "rt/graph/flow.h"
#include "rt/graph/graph_execution.h"

using namespace softcann;

namespace {

struct DestroyCallback {
  aclrtCallback function;
  void* user_data;
};

// The handles that clients have: from the beginning of a capture on, when they may ask for the graph's number. They are numbers
// that never come again.
struct GraphHandles {
  struct Group {
    std::weak_ptr<Graph> graph;
    TaskGroup* group;  // gone with its graph
  };
  std::mutex mutex;
  std::map<aclmdlRI, std::shared_ptr<Graph>> graphs;
  std::map<aclrtTaskGrp, Group> groups;
  uintptr_t groups_made = 0;
  std::map<aclmdlRI, std::vector<DestroyCallback>> at_destroy;
};

GraphHandles& handles() {
  static auto* instance = new GraphHandles;
  return *instance;
}

void* nth_handle(uintptr_t number, uintptr_t kind) { return reinterpret_cast<void*>(number << 8 | kind); }
aclmdlRI handle_of(const std::shared_ptr<Graph>& graph) { return nth_handle(uintptr_t{graph->id} + 1, 0x47); }

// The caller holds the lock.
void forget(const Graph& graph) {
  for (const auto& branch : graph.branches) {
    forget(*branch);
    handles().graphs.erase(handle_of(branch));
  }
  std::erase_if(handles().groups, [&](const auto& entry) { return entry.second.graph.lock().get() == &graph; });
}

struct GraphTask : Task {
  std::shared_ptr<Graph> graph;
  std::optional<uint32_t> began;  // of a built graph that is executed for itself: see run_flow()

  aclError execute(bool skip) const { return began.has_value() ? run_flow(*graph, skip, *began) : graph->run(skip); }
};

// Operators that take longer than this may use threads of their own, which are set for a stream's worker.
constexpr uint64_t kInlineLimit = 10000;

aclError execute(const char* entry, aclmdlRI handle, Stream* stream) {
  aclError error = ACL_SUCCESS;
  auto graph = find_graph(entry, handle, &error);
  if (graph == nullptr) return error;
  if (graph->is_branch)
    return fail(ACL_ERROR_INVALID_PARAM, "%s: graph %u is the branch of a conditional task", entry, graph->id);
  if (!graph->complete)
    return fail(ACL_ERROR_RT_MODEL_CAPTURED, "%s: graph %u is still being captured, or built", entry, graph->id);
  if (graph->communicates) return execute_with_peers(entry, graph, stream);
  auto* task = new GraphTask;
  task->name = entry;
  task->repeat = [](Task* self, bool skip) { return static_cast<GraphTask*>(self)->execute(skip); };
  task->discard = [](Task* self) { delete static_cast<GraphTask*>(self); };
  task->run = &run_once;
  if (graph->flow != nullptr && stream->capture() == nullptr) task->began = graph->flow->aborts.load(std::memory_order_acquire);
  // A built graph may go round in circles.
  const uint64_t cost = graph->flow != nullptr ? kNeverInline : graph->cost_ns;
  task->graph = std::move(graph);
  stream->submit(task, cost <= kInlineLimit ? static_cast<uint32_t>(cost) : kNeverInline);
  return ACL_SUCCESS;
}

}  // namespace

namespace softcann {

aclmdlRI publish_graph(const std::shared_ptr<Graph>& graph) {
  const std::lock_guard<std::mutex> lock(handles().mutex);
  handles().graphs.emplace(handle_of(graph), graph);
  return handle_of(graph);
}

std::shared_ptr<Graph> find_graph(const char* entry, aclmdlRI handle, aclError* error) {
  const std::lock_guard<std::mutex> lock(handles().mutex);
  const auto found = handles().graphs.find(handle);
  if (found != handles().graphs.end()) return found->second;
  *error = fail(ACL_ERROR_RT_INVALID_HANDLE, "%s: graph %p does not exist (destroyed, or never captured)", entry, handle);
  return nullptr;
}

}  // namespace softcann

#define GRAPH_OR_RETURN(variable, entry, handle)                      \
  aclError variable##_error = ACL_SUCCESS;                            \
  const auto variable = find_graph(entry, handle, &variable##_error); \
  if (variable == nullptr) return variable##_error

extern "C" {

aclError aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode mode) {
  SOFTCANN_ENTRY(aclmdlRICaptureBegin);
  STREAM_OR_RETURN(s, stream);
  if (const aclError code = Capture::begin("aclmdlRICaptureBegin", s, mode)) return code;
  bool valid = false;
  publish_graph(Capture::graph_of(s, &valid));
  return ACL_SUCCESS;
}

// `modelRI` is a branch, of aclmdlRIAddCondTask.
aclError aclmdlRICaptureToModelRIBegin(aclrtStream stream, aclmdlRI modelRI, aclmdlRICaptureMode mode) {
  SOFTCANN_ENTRY(aclmdlRICaptureToModelRIBegin);
  STREAM_OR_RETURN(s, stream);
  GRAPH_OR_RETURN(graph, "aclmdlRICaptureToModelRIBegin", modelRI);
  return Capture::begin("aclmdlRICaptureToModelRIBegin", s, mode, graph);
}

aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI* modelRI) {
  SOFTCANN_ENTRY(aclmdlRICaptureEnd);
  STREAM_OR_RETURN(s, stream);
  bool valid = false;
  const auto captured = Capture::graph_of(s, &valid);
  // Of a branch the client has the handle.
  if (captured == nullptr || !captured->is_branch) SOFTCANN_REQUIRE(modelRI, "modelRI");
  if (modelRI != nullptr) *modelRI = nullptr;
  std::shared_ptr<Graph> graph;
  const aclError code = Capture::end(s, &graph);
  if (code == ACL_SUCCESS) {
    if (modelRI != nullptr) *modelRI = handle_of(graph);
  } else if (captured != nullptr && s->capture() == nullptr) {  // it has come to nothing
    const std::lock_guard<std::mutex> lock(handles().mutex);
    forget(*captured);
    if (!captured->is_branch) handles().graphs.erase(handle_of(captured));
  }
  return code;
}

aclError aclmdlRICaptureGetInfo(aclrtStream stream, aclmdlRICaptureStatus* status, aclmdlRI* modelRI) {
  SOFTCANN_ENTRY(aclmdlRICaptureGetInfo);
  STREAM_OR_RETURN(s, stream);
  bool valid = false;
  const auto graph = Capture::graph_of(s, &valid);
  if (status != nullptr) {
    *status = graph == nullptr ? ACL_MODEL_RI_CAPTURE_STATUS_NONE
              : valid          ? ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE
                               : ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED;
  }
  if (modelRI != nullptr) *modelRI = graph == nullptr ? nullptr : handle_of(graph);
  return ACL_SUCCESS;
}

aclError aclmdlRICaptureTaskGrpBegin(aclrtStream stream) {
  SOFTCANN_ENTRY(aclmdlRICaptureTaskGrpBegin);
  STREAM_OR_RETURN(s, stream);
  return Capture::begin_group(s);
}

aclError aclmdlRICaptureTaskGrpEnd(aclrtStream stream, aclrtTaskGrp* handle) {
  SOFTCANN_ENTRY(aclmdlRICaptureTaskGrpEnd);
  SOFTCANN_REQUIRE(handle, "handle");
  STREAM_OR_RETURN(s, stream);
  std::shared_ptr<Graph> graph;
  TaskGroup* group = nullptr;
  if (const aclError code = Capture::end_group(s, &graph, &group)) return code;
  const std::lock_guard<std::mutex> lock(handles().mutex);
  *handle = nth_handle(++handles().groups_made, 0x54);
  handles().groups[*handle] = {graph, group};
  return ACL_SUCCESS;
}

aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream stream, aclrtTaskGrp handle) {
  SOFTCANN_ENTRY(aclmdlRICaptureTaskUpdateBegin);
  STREAM_OR_RETURN(s, stream);
  std::shared_ptr<Graph> graph;
  TaskGroup* group = nullptr;
  {
    const std::lock_guard<std::mutex> lock(handles().mutex);
    const auto found = handles().groups.find(handle);
    if (found != handles().groups.end()) {
      graph = found->second.graph.lock();
      group = found->second.group;
    }
  }
  if (graph == nullptr) {
    return fail(ACL_ERROR_RT_INVALID_HANDLE,
                "aclmdlRICaptureTaskUpdateBegin: task group %p does not exist, or its graph does not", handle);
  }
  return Capture::begin_update(s, graph, group);
}

aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream stream) {
  SOFTCANN_ENTRY(aclmdlRICaptureTaskUpdateEnd);
  STREAM_OR_RETURN(s, stream);
  return Capture::end_update(s);
}

aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode* mode) {
  SOFTCANN_ENTRY(aclmdlRICaptureThreadExchangeMode);
  SOFTCANN_REQUIRE(mode, "mode");
  *mode = exchange_thread_mode(*mode);
  return ACL_SUCCESS;
}

aclError aclmdlRIExecuteAsync(aclmdlRI modelRI, aclrtStream stream) {
  SOFTCANN_ENTRY(aclmdlRIExecuteAsync);
  STREAM_OR_RETURN(s, stream);
  return execute("aclmdlRIExecuteAsync", modelRI, s);
}

aclError aclmdlRIExecute(aclmdlRI modelRI, int32_t timeout) {
  SOFTCANN_ENTRY(aclmdlRIExecute);
  if (timeout < -1) return fail(ACL_ERROR_INVALID_PARAM, "aclmdlRIExecute: timeout %d; -1 is without limit", timeout);
  STREAM_OR_RETURN(s, nullptr);
  if (const aclError code = execute("aclmdlRIExecute", modelRI, s)) return code;
  return s->synchronize(timeout < 0 ? -1 : int64_t{timeout} * 1000000);
}

aclError aclmdlRIDestroy(aclmdlRI modelRI) {
  SOFTCANN_ENTRY(aclmdlRIDestroy);
  GRAPH_OR_RETURN(graph, "aclmdlRIDestroy", modelRI);
  if (graph->is_branch) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclmdlRIDestroy: graph %u is a branch and ends with the graph it is of", graph->id);
  }
  if (graph->flow != nullptr) {
    Capture::forget_build(graph);
  } else if (!graph->complete) {
    return fail(ACL_ERROR_RT_MODEL_CAPTURED, "aclmdlRIDestroy: graph %u is still being captured", graph->id);
  }
  std::vector<DestroyCallback> callbacks;
  {
    const std::lock_guard<std::mutex> lock(handles().mutex);
    forget(*graph);
    handles().graphs.erase(modelRI);
    callbacks = std::move(handles().at_destroy[modelRI]);
    handles().at_destroy.erase(modelRI);
  }
  for (const DestroyCallback& one : callbacks) one.function(one.user_data);
  return ACL_SUCCESS;
}

aclError aclmdlRIDestroyRegisterCallback(aclmdlRI modelRI, aclrtCallback func, void* userData) {
  SOFTCANN_ENTRY(aclmdlRIDestroyRegisterCallback);
  SOFTCANN_REQUIRE(func, "func");
  GRAPH_OR_RETURN(graph, "aclmdlRIDestroyRegisterCallback", modelRI);
  const std::lock_guard<std::mutex> lock(handles().mutex);
  handles().at_destroy[modelRI].push_back({func, userData});
  return ACL_SUCCESS;
}

aclError aclmdlRIDestroyUnregisterCallback(aclmdlRI modelRI, aclrtCallback func) {
  SOFTCANN_ENTRY(aclmdlRIDestroyUnregisterCallback);
  SOFTCANN_REQUIRE(func, "func");
  GRAPH_OR_RETURN(graph, "aclmdlRIDestroyUnregisterCallback", modelRI);
  const std::lock_guard<std::mutex> lock(handles().mutex);
  auto& callbacks = handles().at_destroy[modelRI];
  const auto same = [func](const DestroyCallback& one) { return one.function == func; };
  const auto kept = std::remove_if(callbacks.begin(), callbacks.end(), same);
  if (kept == callbacks.end())
    return fail(ACL_ERROR_INVALID_PARAM, "aclmdlRIDestroyUnregisterCallback: graph %u has no such callback", graph->id);
  callbacks.erase(kept, callbacks.end());
  return ACL_SUCCESS;
}

aclError aclmdlRIGetId(aclmdlRI modelRI, uint32_t* modelRIId) {
  SOFTCANN_ENTRY(aclmdlRIGetId);
  SOFTCANN_REQUIRE(modelRIId, "modelRIId");
  GRAPH_OR_RETURN(graph, "aclmdlRIGetId", modelRI);
  *modelRIId = graph->id;
  return ACL_SUCCESS;
}

aclError aclmdlRISetName(aclmdlRI modelRI, const char* name) {
  SOFTCANN_ENTRY(aclmdlRISetName);
  SOFTCANN_REQUIRE(name, "name");
  GRAPH_OR_RETURN(graph, "aclmdlRISetName", modelRI);
  graph->name = name;
  return ACL_SUCCESS;
}

aclError aclmdlRIGetName(aclmdlRI modelRI, uint32_t maxLen, char* name) {
  SOFTCANN_ENTRY(aclmdlRIGetName);
  SOFTCANN_REQUIRE(name, "name");
  GRAPH_OR_RETURN(graph, "aclmdlRIGetName", modelRI);
  if (graph->name.size() >= maxLen) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclmdlRIGetName: the name has %zu characters, the room is for %u", graph->name.size(),
                maxLen);
  }
  std::copy_n(graph->name.c_str(), graph->name.size() + 1, name);
  return ACL_SUCCESS;
}

aclError aclmdlRIDebugPrint(aclmdlRI modelRI) {
  SOFTCANN_ENTRY(aclmdlRIDebugPrint);
  GRAPH_OR_RETURN(graph, "aclmdlRIDebugPrint", modelRI);
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    std::fprintf(stderr, "graph %u, task %zu: stream %d, %s\n", graph->id, i, graph->nodes[i].stream, graph->nodes[i].task->name);
  }
  return ACL_SUCCESS;
}

aclError aclmdlRIDebugJsonPrint(aclmdlRI modelRI, const char* path, uint32_t) {
  SOFTCANN_ENTRY(aclmdlRIDebugJsonPrint);
  SOFTCANN_REQUIRE(path, "path");
  GRAPH_OR_RETURN(graph, "aclmdlRIDebugJsonPrint", modelRI);
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path, "w"), [](FILE* f) { return f ? std::fclose(f) : 0; });
  if (file == nullptr) return fail(ACL_ERROR_RT_FILE_OPEN, "aclmdlRIDebugJsonPrint: %s cannot be written", path);
  std::fprintf(file.get(), "{\"graph\": %u, \"tasks\": [", graph->id);
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    std::fprintf(file.get(), "%s\n  {\"id\": %zu, \"stream\": %d, \"name\": \"%s\"}", i == 0 ? "" : ",", i,
                 graph->nodes[i].stream, graph->nodes[i].task->name);
  }
  std::fputs("\n]}\n", file.get());
  return ACL_SUCCESS;
}
}
