// Conditional tasks of graphs: which branch runs, how often, and what is refused.
#include <string>
#include <vector>

#include "acl_checks.h"

namespace {

struct Word {
  void* memory = nullptr;
  Word() {
    OK(aclrtMalloc(&memory, 8, ACL_MEM_MALLOC_HUGE_FIRST));
    set(0);
  }
  ~Word() { OK(aclrtFree(memory)); }
  Word(const Word&) = delete;
  Word& operator=(const Word&) = delete;
  void set(uint64_t value) const { OK(aclrtMemcpy(memory, 8, &value, 8, ACL_MEMCPY_HOST_TO_DEVICE)); }
  uint64_t get() const {
    uint64_t value = 0;
    OK(aclrtMemcpy(&value, 8, memory, 8, ACL_MEMCPY_DEVICE_TO_HOST));
    return value;
  }
};

// Puts `to` = `from` on the stream.
void copy(aclrtStream stream, void* to, const void* from) {
  OK(aclrtMemcpyAsync(to, 8, from, 8, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
}

aclmdlRI graph_of(aclrtStream stream) {
  aclmdlRI graph = nullptr;
  OK(aclmdlRICaptureGetInfo(stream, nullptr, &graph));
  return graph;
}

struct Condition {
  aclmdlRICondHandle handle = nullptr;
  uint64_t* value = nullptr;
  Condition(aclrtStream stream, uint32_t initial, bool assigns) {
    const auto flag = static_cast<aclmdlRICondHandleFlag>(assigns ? ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT : 0);
    OK(aclmdlRICondHandleCreate(graph_of(stream), initial, flag, &handle));
    OK(aclmdlRICondHandleGetCondPtr(handle, &value));
  }
};

std::vector<aclmdlRI> add(aclrtStream stream, aclmdlRICondHandle handle, aclmdlRICondTaskType type, uint32_t branches) {
  std::vector<aclmdlRI> graphs(branches);
  OK(aclmdlRIAddCondTask({handle, type, branches, graphs.data()}, stream, 0));
  return graphs;
}

// Each branch copies its own number to `out`.
void capture_branches(const std::vector<aclmdlRI>& graphs, const std::vector<Word>& numbers, const Word& out) {
  const auto stream = new_stream();
  for (size_t i = 0; i < graphs.size(); ++i) {
    OK(aclmdlRICaptureToModelRIBegin(stream, graphs[i], ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    EXPECT(graph_of(stream) == graphs[i]);
    copy(stream, out.memory, numbers[i].memory);
    OK(aclmdlRICaptureEnd(stream, nullptr));
  }
}

std::vector<Word> numbers(size_t count) {
  std::vector<Word> made(count);
  for (size_t i = 0; i < count; ++i) made[i].set(100 + i);
  return made;
}

}  // namespace

TEST(condition_if_and_switch_choose_a_branch_at_each_execution) {
  const auto stream = new_stream();
  const Word input, out;
  const auto values = numbers(3);
  for (const auto& [type, branches] : std::vector<std::pair<aclmdlRICondTaskType, uint32_t>>{
           {ACL_MODEL_RI_COND_TYPE_IF, 1}, {ACL_MODEL_RI_COND_TYPE_IF, 2}, {ACL_MODEL_RI_COND_TYPE_SWITCH, 3}}) {
    OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    const Condition condition(stream, 0, true);
    copy(stream, condition.value, input.memory);
    capture_branches(add(stream, condition.handle, type, branches), values, out);
    aclmdlRI graph = nullptr;
    OK(aclmdlRICaptureEnd(stream, &graph));
    for (uint64_t chosen = 0; chosen < 5; ++chosen) {
      input.set(chosen);
      out.set(7);
      OK(aclmdlRIExecuteAsync(graph, stream));
      OK(aclrtSynchronizeStream(stream));
      uint64_t expected = chosen < branches ? 100 + chosen : 7;
      if (type == ACL_MODEL_RI_COND_TYPE_IF) expected = chosen != 0 ? 100 : branches == 2 ? 101 : 7;
      EXPECT(out.get() == expected);
    }
    OK(aclmdlRIDestroy(graph));
    uint64_t* gone = nullptr;
    EXPECT(aclmdlRICondHandleGetCondPtr(condition.handle, &gone) == ACL_ERROR_RT_INVALID_HANDLE);
  }
}

TEST(condition_while_repeats_and_defaults_are_assigned_at_each_execution) {
  const auto stream = new_stream(), side = new_stream();
  // Numbers to be copied one place down: the loop ends when the 0 at the end has come to the front.
  Word list[4];
  const Word zero, rounds;
  OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
  const Condition condition(stream, 1, true);
  const auto body = add(stream, condition.handle, ACL_MODEL_RI_COND_TYPE_WHILE, 1);
  OK(aclmdlRICaptureToModelRIBegin(side, body[0], ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
  copy(side, rounds.memory, list[0].memory);
  copy(side, condition.value, list[1].memory);
  for (int i = 0; i < 3; ++i) copy(side, list[i].memory, list[i + 1].memory);
  OK(aclmdlRICaptureEnd(side, nullptr));
  aclmdlRI graph = nullptr;
  OK(aclmdlRICaptureEnd(stream, &graph));
  for (int execution = 0; execution < 2; ++execution) {
    for (uint64_t i = 0; i < 4; ++i) list[i].set(i < 3 ? 3 - i : 0);
    OK(aclmdlRIExecuteAsync(graph, stream));
    OK(aclrtSynchronizeStream(stream));
    EXPECT(rounds.get() == 1);  // the last number before the 0
    EXPECT(list[0].get() == 0);
  }
  OK(aclmdlRIDestroy(graph));
}

TEST(condition_while_without_end_ends_with_its_stream_s_tasks) {
  const auto stream = new_stream(), side = new_stream();
  const Word from, to;
  from.set(3);
  OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
  const Condition condition(stream, 1, true);
  const auto body = add(stream, condition.handle, ACL_MODEL_RI_COND_TYPE_WHILE, 1);
  OK(aclmdlRICaptureToModelRIBegin(side, body[0], ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
  copy(side, to.memory, from.memory);
  OK(aclmdlRICaptureEnd(side, nullptr));
  aclmdlRI graph = nullptr;
  OK(aclmdlRICaptureEnd(stream, &graph));
  OK(aclmdlRIExecuteAsync(graph, stream));
  EXPECT(aclrtSynchronizeStreamWithTimeout(stream, 20) == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  OK(aclrtStreamAbort(stream));
  EXPECT(to.get() == 3);
  OK(aclmdlRIDestroy(graph));
}

TEST(condition_within_a_branch) {
  const auto stream = new_stream(), side = new_stream();
  const Word outer_input, inner_input, out;
  const auto values = numbers(1);
  OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
  const Condition outer(stream, 0, true);
  copy(stream, outer.value, outer_input.memory);
  const auto branch = add(stream, outer.handle, ACL_MODEL_RI_COND_TYPE_IF, 1);
  OK(aclmdlRICaptureToModelRIBegin(side, branch[0], ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
  const Condition inner(side, 0, true);
  copy(side, inner.value, inner_input.memory);
  capture_branches(add(side, inner.handle, ACL_MODEL_RI_COND_TYPE_IF, 1), values, out);
  OK(aclmdlRICaptureEnd(side, nullptr));
  aclmdlRI graph = nullptr;
  OK(aclmdlRICaptureEnd(stream, &graph));
  for (int both = 0; both < 4; ++both) {
    outer_input.set(both & 1);
    inner_input.set(both >> 1);
    out.set(7);
    OK(aclmdlRIExecuteAsync(graph, stream));
    OK(aclrtSynchronizeStream(stream));
    EXPECT(out.get() == (both == 3 ? 100 : 7));
  }
  OK(aclmdlRIDestroy(graph));
}

TEST(condition_refuses_what_does_not_fit) {
  const auto stream = new_stream(), side = new_stream();
  OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
  const Condition condition(stream, 0, false);
  aclmdlRI graphs[3] = {};
  const auto add_task = [&](aclmdlRICondTaskType type, uint32_t size) {
    return aclmdlRIAddCondTask({condition.handle, type, size, graphs}, stream, 0);
  };
  EXPECT(add_task(ACL_MODEL_RI_COND_TYPE_IF, 3) == ACL_ERROR_INVALID_PARAM);
  EXPECT(add_task(ACL_MODEL_RI_COND_TYPE_WHILE, 2) == ACL_ERROR_INVALID_PARAM);
  EXPECT(add_task(static_cast<aclmdlRICondTaskType>(3), 1) == ACL_ERROR_INVALID_PARAM);
  EXPECT(aclmdlRIAddCondTask({condition.handle, ACL_MODEL_RI_COND_TYPE_IF, 1, graphs}, side, 0) ==
         ACL_ERROR_RT_STREAM_NOT_CAPTURED);
  EXPECT(aclmdlRIAddCondTask({&graphs, ACL_MODEL_RI_COND_TYPE_IF, 1, graphs}, stream, 0) == ACL_ERROR_RT_INVALID_HANDLE);
  OK(add_task(ACL_MODEL_RI_COND_TYPE_IF, 1));
  EXPECT(aclmdlRIExecuteAsync(graphs[0], side) == ACL_ERROR_INVALID_PARAM);
  EXPECT(aclmdlRIDestroy(graphs[0]) == ACL_ERROR_INVALID_PARAM);
  // A branch that was not captured.
  aclmdlRI graph = nullptr;
  EXPECT(aclmdlRICaptureEnd(stream, &graph) == ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
  EXPECT(std::string(aclGetRecentErrMsg()).find("of a conditional task has not been captured") != std::string::npos);
  // One that is captured twice.
  OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
  const Condition other(stream, 0, false);
  const auto branch = add(stream, other.handle, ACL_MODEL_RI_COND_TYPE_IF, 1);
  OK(aclmdlRICaptureToModelRIBegin(side, branch[0], ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
  OK(aclmdlRICaptureEnd(side, nullptr));
  EXPECT(aclmdlRICaptureToModelRIBegin(side, branch[0], ACL_MODEL_RI_CAPTURE_MODE_RELAXED) == ACL_ERROR_RT_MODEL_CAPTURED);
  OK(aclmdlRICaptureEnd(stream, &graph));
  aclmdlRICondHandle late = nullptr;
  EXPECT(aclmdlRICondHandleCreate(graph, 0, ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT, &late) == ACL_ERROR_INVALID_PARAM);
  OK(aclmdlRIDestroy(graph));
  EXPECT(aclmdlRIDestroy(branch[0]) == ACL_ERROR_RT_INVALID_HANDLE);
}
