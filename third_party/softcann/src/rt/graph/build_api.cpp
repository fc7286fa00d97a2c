// Graphs that clients build stream by stream, and the tasks by which one stream of a graph starts another or goes on elsewhere.
#include <algorithm>
#include <map>
#include <mutex>

#include "rt/base/handles.h"
#include "rt/graph/flow.h"
#include "rt/memory/check.h"

using namespace softcann;

namespace {

// What aclrtLabel and aclrtLabelList stand for. Tasks keep a label's number, which never comes again.
struct Label : Handled {
  uint64_t serial = 0;
  bool set = false;
};
struct LabelList : Handled {
  std::vector<uint64_t> labels;
};

struct Labels {
  static constexpr size_t kMost = 65535;  // of a process at a time
  std::mutex mutex;
  HandleBlocks<Label> labels;
  HandleBlocks<LabelList> lists;
  uint64_t made = 0;
  size_t alive = 0;
};

Labels& labels() {
  static auto* instance = new Labels;
  return *instance;
}

aclError not_bound(const char* entry, const Stream* stream) {
  return fail(ACL_ERROR_RT_STREAM_MODEL, "%s: stream %d is not bound to a graph that is being built (aclmdlRIBindStream)", entry,
              stream->id);
}

aclError check_number(const char* entry, const char* what, const void* address, size_t bytes) {
  if (address == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "%s: %s is a null pointer", entry, what);
  return check_device_range(address, bytes);
}

// One that is being built; else null, with the reason recorded.
std::shared_ptr<Graph> find_built(const char* entry, aclmdlRI handle, aclError* error) {
  auto graph = find_graph(entry, handle, error);
  if (graph != nullptr && graph->flow == nullptr) {
    *error = fail(ACL_ERROR_INVALID_PARAM, "%s: graph %u was captured, not built (aclmdlRIBuildBegin)", entry, graph->id);
    return nullptr;
  }
  return graph;
}

}  // namespace

#define BUILT_OR_RETURN(variable, entry, handle)                      \
  aclError variable##_error = ACL_SUCCESS;                            \
  const auto variable = find_built(entry, handle, &variable##_error); \
  if (variable == nullptr) return variable##_error

#define LABEL_OR_RETURN(variable, entry, handle) ALIVE_OR_RETURN(variable, labels().labels, entry, "label", handle)
#define LABEL_LIST_OR_RETURN(variable, entry, handle) ALIVE_OR_RETURN(variable, labels().lists, entry, "label list", handle)

extern "C" {

aclError aclmdlRIBuildBegin(aclmdlRI* modelRI, uint32_t flag) {
  SOFTCANN_ENTRY(aclmdlRIBuildBegin);
  SOFTCANN_REQUIRE(modelRI, "modelRI");
  SOFTCANN_CONTEXT(context, "aclmdlRIBuildBegin");
  if (flag != 0) return fail(ACL_ERROR_INVALID_PARAM, "aclmdlRIBuildBegin: flag %u; 0 is the only one", flag);
  *modelRI = publish_graph(Capture::begin_build());
  return ACL_SUCCESS;
}

aclError aclmdlRIBindStream(aclmdlRI modelRI, aclrtStream stream, uint32_t flag) {
  SOFTCANN_ENTRY(aclmdlRIBindStream);
  SOFTCANN_REQUIRE(stream, "stream");
  BUILT_OR_RETURN(graph, "aclmdlRIBindStream", modelRI);
  STREAM_OR_RETURN(s, stream);
  if ((s->flags & ACL_STREAM_PERSISTENT) == 0) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclmdlRIBindStream: stream %d was created without ACL_STREAM_PERSISTENT", s->id);
  }
  if (flag != ACL_MODEL_STREAM_FLAG_HEAD && flag != ACL_MODEL_STREAM_FLAG_DEFAULT) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclmdlRIBindStream: flag %#x is neither ACL_MODEL_STREAM_FLAG_HEAD nor _DEFAULT", flag);
  }
  return Capture::bind(graph, s, flag == ACL_MODEL_STREAM_FLAG_HEAD);
}

aclError aclmdlRIUnbindStream(aclmdlRI modelRI, aclrtStream stream) {
  SOFTCANN_ENTRY(aclmdlRIUnbindStream);
  SOFTCANN_REQUIRE(stream, "stream");
  BUILT_OR_RETURN(graph, "aclmdlRIUnbindStream", modelRI);
  STREAM_OR_RETURN(s, stream);
  return Capture::unbind(graph, s);
}

aclError aclmdlRIEndTask(aclmdlRI modelRI, aclrtStream stream) {
  SOFTCANN_ENTRY(aclmdlRIEndTask);
  BUILT_OR_RETURN(graph, "aclmdlRIEndTask", modelRI);
  STREAM_OR_RETURN(s, stream);
  if (Capture::built_by(s) != graph) return not_bound("aclmdlRIEndTask", s);
  const auto ends = [](const Graph::Node& node) {
    const ControlTask* found = as_control(node.task);
    return found != nullptr && found->kind == ControlTask::Kind::end;
  };
  if (std::any_of(graph->nodes.begin(), graph->nodes.end(), ends)) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclmdlRIEndTask: graph %u has its end already", graph->id);
  }
  s->submit(new ControlTask(ControlTask::Kind::end, "aclmdlRIEndTask"), 0);
  return ACL_SUCCESS;
}

aclError aclmdlRIBuildEnd(aclmdlRI modelRI, void* reserve) {
  SOFTCANN_ENTRY(aclmdlRIBuildEnd);
  BUILT_OR_RETURN(graph, "aclmdlRIBuildEnd", modelRI);
  if (reserve != nullptr) return fail(ACL_ERROR_INVALID_PARAM, "aclmdlRIBuildEnd: reserve is not null");
  return Capture::end_build(graph);
}

// Of a captured graph the streams are the client's again.
aclError aclmdlRIGetStreams(aclmdlRI modelRI, aclrtStream* streams, uint32_t* numStreams) {
  SOFTCANN_ENTRY(aclmdlRIGetStreams);
  SOFTCANN_REQUIRE(numStreams, "numStreams");
  BUILT_OR_RETURN(graph, "aclmdlRIGetStreams", modelRI);
  const std::vector<Stream*> bound = Capture::bound(graph);
  if (streams != nullptr && *numStreams < bound.size()) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclmdlRIGetStreams: room for %u streams, graph %u has %zu", *numStreams, graph->id,
                bound.size());
  }
  for (size_t i = 0; streams != nullptr && i < bound.size(); ++i) streams[i] = bound[i]->handle();
  *numStreams = static_cast<uint32_t>(bound.size());
  return ACL_SUCCESS;
}

// Executions stop before their next task.
aclError aclmdlRIAbort(aclmdlRI modelRI) {
  SOFTCANN_ENTRY(aclmdlRIAbort);
  aclError error = ACL_SUCCESS;
  const auto graph = find_graph("aclmdlRIAbort", modelRI, &error);
  if (graph == nullptr) return error;
  if (graph->flow == nullptr) {
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "aclmdlRIAbort: graph %u was captured; such a graph is not stopped alone: aclrtStreamAbort stops its stream, "
                "aclrtDeviceTaskAbort the device",
                graph->id);
  }
  graph->flow->aborts.fetch_add(1, std::memory_order_acq_rel);
  return ACL_SUCCESS;
}

aclError aclrtActiveStream(aclrtStream activeStream, aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtActiveStream);
  SOFTCANN_REQUIRE(activeStream, "activeStream");
  STREAM_OR_RETURN(target, activeStream);
  STREAM_OR_RETURN(s, stream);
  const auto graph = Capture::built_by(s);
  if (graph == nullptr) return not_bound("aclrtActiveStream", s);
  if (Capture::built_by(target) != graph) return not_bound("aclrtActiveStream", target);
  auto* task = new ControlTask(ControlTask::Kind::activate, "aclrtActiveStream");
  task->target = target->id;
  s->submit(task, 0);
  return ACL_SUCCESS;
}

aclError aclrtSwitchStream(void* leftValue, aclrtCondition cond, void* rightValue, aclrtCompareDataType dataType,
                           aclrtStream trueStream, aclrtStream falseStream, aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtSwitchStream);
  SOFTCANN_REQUIRE(trueStream, "trueStream");
  if (cond < ACL_RT_EQUAL || cond > ACL_RT_LESS_OR_EQUAL ||
      (dataType != ACL_RT_SWITCH_INT32 && dataType != ACL_RT_SWITCH_INT64)) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtSwitchStream: condition %d, data type %d do not exist", static_cast<int>(cond),
                static_cast<int>(dataType));
  }
  if (falseStream != nullptr) return fail(ACL_ERROR_INVALID_PARAM, "aclrtSwitchStream: falseStream is to be null");
  const size_t bytes = dataType == ACL_RT_SWITCH_INT64 ? 8 : 4;
  if (const aclError code = check_number("aclrtSwitchStream", "leftValue", leftValue, bytes)) return code;
  if (const aclError code = check_number("aclrtSwitchStream", "rightValue", rightValue, bytes)) return code;
  STREAM_OR_RETURN(target, trueStream);
  STREAM_OR_RETURN(s, stream);
  const auto graph = Capture::built_by(s);
  if (graph == nullptr) return not_bound("aclrtSwitchStream", s);
  if (Capture::built_by(target) != graph) return not_bound("aclrtSwitchStream", target);
  auto* task = new ControlTask(ControlTask::Kind::choose, "aclrtSwitchStream");
  task->target = target->id;
  task->left = device_view(leftValue);
  task->right = device_view(rightValue);
  task->condition = cond;
  task->wide = bytes == 8;
  s->submit(task, 0);
  return ACL_SUCCESS;
}

aclError aclrtCreateLabel(aclrtLabel* label) {
  SOFTCANN_ENTRY(aclrtCreateLabel);
  SOFTCANN_REQUIRE(label, "label");
  SOFTCANN_CONTEXT(context, "aclrtCreateLabel");
  Labels& all = labels();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (all.alive == Labels::kMost) {
    return fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "aclrtCreateLabel: the process has %zu labels already", Labels::kMost);
  }
  Label* made = all.labels.add();
  made->serial = ++all.made;
  ++all.alive;
  *label = made->begin_life();
  if (check::on(check::kLeak)) check::note_made("label", *label);
  return ACL_SUCCESS;
}

aclError aclrtDestroyLabel(aclrtLabel label) {
  SOFTCANN_ENTRY(aclrtDestroyLabel);
  LABEL_OR_RETURN(found, "aclrtDestroyLabel", label);
  const std::lock_guard<std::mutex> lock(labels().mutex);
  if (!found->end_life()) return fail(ACL_ERROR_RT_INVALID_HANDLE, "aclrtDestroyLabel: another thread destroyed %p", label);
  --labels().alive;
  if (check::on(check::kLeak)) check::note_gone(label);
  return ACL_SUCCESS;
}

aclError aclrtSetLabel(aclrtLabel label, aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtSetLabel);
  LABEL_OR_RETURN(found, "aclrtSetLabel", label);
  STREAM_OR_RETURN(s, stream);
  if (Capture::built_by(s) == nullptr) return not_bound("aclrtSetLabel", s);
  {
    const std::lock_guard<std::mutex> lock(labels().mutex);
    if (std::exchange(found->set, true)) return fail(ACL_ERROR_INVALID_PARAM, "aclrtSetLabel: label %p is set already", label);
  }
  auto* task = new ControlTask(ControlTask::Kind::label, "aclrtSetLabel");
  task->label = found->serial;
  s->submit(task, 0);
  return ACL_SUCCESS;
}

aclError aclrtCreateLabelList(aclrtLabel* list, size_t num, aclrtLabelList* labelList) {
  SOFTCANN_ENTRY(aclrtCreateLabelList);
  SOFTCANN_REQUIRE(list, "labels");
  SOFTCANN_REQUIRE(labelList, "labelList");
  if (num == 0 || num > Labels::kMost) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtCreateLabelList: %zu labels; 1 to %zu are possible", num, Labels::kMost);
  }
  std::vector<uint64_t> serials;
  for (size_t i = 0; i < num; ++i) {
    LABEL_OR_RETURN(found, "aclrtCreateLabelList", list[i]);
    serials.push_back(found->serial);
  }
  const std::lock_guard<std::mutex> lock(labels().mutex);
  LabelList* made = labels().lists.add();
  made->labels = std::move(serials);
  *labelList = made->begin_life();
  if (check::on(check::kLeak)) check::note_made("label list", *labelList);
  return ACL_SUCCESS;
}

aclError aclrtDestroyLabelList(aclrtLabelList labelList) {
  SOFTCANN_ENTRY(aclrtDestroyLabelList);
  LABEL_LIST_OR_RETURN(found, "aclrtDestroyLabelList", labelList);
  if (!found->end_life()) {
    return fail(ACL_ERROR_RT_INVALID_HANDLE, "aclrtDestroyLabelList: another thread destroyed %p", labelList);
  }
  if (check::on(check::kLeak)) check::note_gone(labelList);
  return ACL_SUCCESS;
}

aclError aclrtSwitchLabelByIndex(void* ptr, uint32_t maxValue, aclrtLabelList labelList, aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtSwitchLabelByIndex);
  if (const aclError code = check_number("aclrtSwitchLabelByIndex", "ptr", ptr, sizeof(uint32_t))) return code;
  LABEL_LIST_OR_RETURN(list, "aclrtSwitchLabelByIndex", labelList);
  STREAM_OR_RETURN(s, stream);
  if (maxValue == 0 || maxValue > list->labels.size()) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtSwitchLabelByIndex: maxValue %u for a list of %zu labels", maxValue,
                list->labels.size());
  }
  if (Capture::built_by(s) == nullptr) return not_bound("aclrtSwitchLabelByIndex", s);
  auto* task = new ControlTask(ControlTask::Kind::jump, "aclrtSwitchLabelByIndex");
  task->index = static_cast<const uint32_t*>(device_view(ptr));
  task->labels.assign(list->labels.begin(), list->labels.begin() + maxValue);
  s->submit(task, 0);
  return ACL_SUCCESS;
}
}
