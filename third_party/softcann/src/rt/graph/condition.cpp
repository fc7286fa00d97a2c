#include "rt/graph/condition.h"

#include <map>
#include <mutex>
#include <vector>

namespace softcann {
namespace {

// The handles that clients have; gone with the graph.
struct Conditions {
  std::mutex mutex;
  std::map<aclmdlRICondHandle, std::weak_ptr<Condition>> all;
};

Conditions& known() {
  static auto* instance = new Conditions;
  return *instance;
}

std::shared_ptr<Condition> find(const char* entry, aclmdlRICondHandle handle, aclError* error) {
  const std::lock_guard<std::mutex> lock(known().mutex);
  const auto found = known().all.find(handle);
  if (found != known().all.end()) {
    if (auto condition = found->second.lock()) return condition;
  }
  *error = fail(ACL_ERROR_RT_INVALID_HANDLE, "%s: condition %p does not exist, or its graph does not", entry, handle);
  return nullptr;
}

struct CondTask : Task {
  aclmdlRICondTaskType type;
  std::shared_ptr<Condition> condition;
  std::vector<std::shared_ptr<Graph>> branches;

  aclError choose(bool skip) const {
    if (skip) return ACL_SUCCESS;
    const uint64_t value = condition->value();
    switch (type) {
      case ACL_MODEL_RI_COND_TYPE_IF:
        if (value != 0) return branches[0]->run(false);
        return branches.size() > 1 ? branches[1]->run(false) : ACL_SUCCESS;
      case ACL_MODEL_RI_COND_TYPE_SWITCH:
        return value < branches.size() ? branches[value]->run(false) : ACL_SUCCESS;
      default:
        while (condition->value() != 0 && !Stream::drops_this_task()) {
          if (const aclError code = branches[0]->run(false)) return code;
        }
        return ACL_SUCCESS;
    }
  }
};

bool fits(aclmdlRICondTaskType type, uint32_t branches) {
  switch (type) {
    case ACL_MODEL_RI_COND_TYPE_IF:
      return branches == 1 || branches == 2;
    case ACL_MODEL_RI_COND_TYPE_WHILE:
      return branches == 1;
    case ACL_MODEL_RI_COND_TYPE_SWITCH:
      return branches >= 1;
    default:
      return false;
  }
}

}  // namespace

Condition::~Condition() {
  {
    const std::lock_guard<std::mutex> lock(known().mutex);
    known().all.erase(this);
  }
  if (memory != nullptr) aclrtFree(memory);
}

uint64_t Condition::value() const { return *static_cast<const volatile uint64_t*>(device_view(memory)); }

void Condition::assign_default() const {
  if (assigns) *static_cast<volatile uint64_t*>(device_view(memory)) = initial;
}

}  // namespace softcann

using namespace softcann;

extern "C" {

aclError aclmdlRICondHandleCreate(aclmdlRI modelRI, uint32_t defaultLaunchValue, aclmdlRICondHandleFlag flag,
                                  aclmdlRICondHandle* handle) {
  SOFTCANN_ENTRY(aclmdlRICondHandleCreate);
  SOFTCANN_REQUIRE(handle, "handle");
  aclError error = ACL_SUCCESS;
  const auto graph = find_graph("aclmdlRICondHandleCreate", modelRI, &error);
  if (graph == nullptr) return error;
  if (graph->complete) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclmdlRICondHandleCreate: graph %u is not being captured any more", graph->id);
  }
  if (flag != 0 && flag != ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclmdlRICondHandleCreate: flag %d does not exist", static_cast<int>(flag));
  }
  auto made = std::make_shared<Condition>();
  void* memory = nullptr;
  if (const aclError code = aclrtMalloc(&memory, sizeof(uint64_t), ACL_MEM_MALLOC_NORMAL_ONLY)) return code;
  made->memory = static_cast<uint64_t*>(memory);
  made->initial = defaultLaunchValue;
  made->assigns = true;
  made->assign_default();
  made->assigns = flag == ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT;
  const std::lock_guard<std::mutex> lock(known().mutex);
  known().all[made.get()] = made;
  *handle = made.get();
  graph->conditions.push_back(std::move(made));
  return ACL_SUCCESS;
}

aclError aclmdlRICondHandleGetCondPtr(aclmdlRICondHandle handle, uint64_t** ptr) {
  SOFTCANN_ENTRY(aclmdlRICondHandleGetCondPtr);
  SOFTCANN_REQUIRE(ptr, "ptr");
  aclError error = ACL_SUCCESS;
  const auto condition = find("aclmdlRICondHandleGetCondPtr", handle, &error);
  if (condition == nullptr) return error;
  *ptr = condition->memory;
  return ACL_SUCCESS;
}

aclError aclmdlRIAddCondTask(aclmdlRICondTaskParams params, aclrtStream stream, uint32_t flags) {
  SOFTCANN_ENTRY(aclmdlRIAddCondTask);
  constexpr const char* entry = "aclmdlRIAddCondTask";
  SOFTCANN_REQUIRE(params.modelRIArray, "modelRIArray");
  STREAM_OR_RETURN(s, stream);
  aclError error = ACL_SUCCESS;
  auto condition = find(entry, params.handle, &error);
  if (condition == nullptr) return error;
  if (flags != 0) return fail(ACL_ERROR_INVALID_PARAM, "%s: flags %u; 0 is the only one", entry, flags);
  if (!fits(params.type, params.size)) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: %u branches for type %d; if has 1 or 2, while 1, switch 1 or more", entry,
                params.size, static_cast<int>(params.type));
  }
  bool valid = false;
  const auto graph = Capture::graph_of(s, &valid);
  if (graph == nullptr) return fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, "%s: stream %d is not being captured", entry, s->id);
  auto* task = new CondTask;
  task->name = entry;
  task->type = params.type;
  task->condition = std::move(condition);
  task->repeat = [](Task* self, bool skip) { return static_cast<CondTask*>(self)->choose(skip); };
  task->discard = [](Task* self) { delete static_cast<CondTask*>(self); };
  task->run = &run_once;
  for (uint32_t i = 0; i < params.size; ++i) {
    auto branch = std::make_shared<Graph>(next_graph_id());
    branch->is_branch = true;
    params.modelRIArray[i] = publish_graph(branch);
    task->branches.push_back(branch);
    graph->branches.push_back(std::move(branch));
  }
  s->submit(task, kNeverInline);
  return ACL_SUCCESS;
}
}
