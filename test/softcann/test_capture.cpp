// Graphs: what a capture takes, in which order it runs, and what cannot be captured.
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "acl_checks.h"
#include "rt/runtime.h"

namespace {

class Event {
 public:
  explicit Event(uint32_t flags = ACL_EVENT_SYNC) { OK(aclrtCreateEventExWithFlag(&raw_, flags)); }
  ~Event() { OK(aclrtDestroyEvent(raw_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator aclrtEvent() const { return raw_; }

 private:
  aclrtEvent raw_ = nullptr;
};

void begin(aclrtStream stream, aclmdlRICaptureMode mode = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL) {
  OK(aclmdlRICaptureBegin(stream, mode));
}

aclmdlRI end(aclrtStream stream) {
  aclmdlRI graph = nullptr;
  OK(aclmdlRICaptureEnd(stream, &graph));
  EXPECT(graph != nullptr);
  return graph;
}

// Ends a capture that has failed.
void end_failed(aclrtStream stream, aclError expected, const std::string& says) {
  aclmdlRI graph = nullptr;
  EXPECT(aclmdlRICaptureEnd(stream, &graph) == expected);
  EXPECT(graph == nullptr);
  EXPECT(std::string(aclGetRecentErrMsg()).find(says) != std::string::npos);
}

aclmdlRICaptureStatus status_of(aclrtStream stream) {
  auto status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
  OK(aclmdlRICaptureGetInfo(stream, &status, nullptr));
  return status;
}

// Writes down the numbers it is given, in the order of running.
struct Log {
  std::vector<int> numbers;
  struct Entry {
    Log* log;
    int number;
  };
  std::vector<Entry*> entries;
  void add(aclrtStream stream, int number) {
    entries.push_back(new Entry{this, number});
    OK(aclrtLaunchHostFunc(
        stream,
        [](void* data) {
          auto* entry = static_cast<Entry*>(data);
          entry->log->numbers.push_back(entry->number);
        },
        entries.back()));
  }
  ~Log() {
    for (Entry* entry : entries) delete entry;
  }
};

int read_int(const void* device) {
  int value = 0;
  OK(aclrtMemcpy(&value, sizeof value, device, sizeof value, ACL_MEMCPY_DEVICE_TO_HOST));
  return value;
}

}  // namespace

TEST(capture_runs_nothing_and_the_graph_all_each_time) {
  const auto stream = new_stream();
  void *a = nullptr, *b = nullptr;
  OK(aclrtMalloc(&a, 64, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtMalloc(&b, 64, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtMemset(a, 64, 0, 64));
  OK(aclrtMemset(b, 64, 0, 64));
  EXPECT(status_of(stream) == ACL_MODEL_RI_CAPTURE_STATUS_NONE);
  begin(stream);
  EXPECT(status_of(stream) == ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
  OK(aclrtMemsetAsync(a, 64, 1, 64, stream));
  OK(aclrtMemcpyAsync(b, 64, a, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
  const auto graph = end(stream);
  EXPECT(status_of(stream) == ACL_MODEL_RI_CAPTURE_STATUS_NONE);
  OK(aclrtSynchronizeStream(stream));
  EXPECT(read_int(b) == 0);
  for (int round = 0; round < 3; ++round) {
    OK(aclrtMemset(b, 64, 0, 64));
    OK(aclmdlRIExecuteAsync(graph, stream));
    OK(aclrtSynchronizeStream(stream));
    EXPECT(read_int(b) == 0x01010101);
  }
  OK(aclrtMemset(b, 64, 0, 64));
  OK(aclmdlRIExecute(graph, -1));
  EXPECT(read_int(b) == 0x01010101);
  OK(aclmdlRIDestroy(graph));
  EXPECT(aclmdlRIExecuteAsync(graph, stream) == ACL_ERROR_RT_INVALID_HANDLE);
  EXPECT(aclmdlRIDestroy(graph) == ACL_ERROR_RT_INVALID_HANDLE);
}

TEST(capture_takes_streams_that_wait_for_its_events) {
  const auto first = new_stream(), second = new_stream();
  const Event fork, join;
  Log log;
  begin(first);
  log.add(first, 1);
  OK(aclrtRecordEvent(fork, first));
  OK(aclrtStreamWaitEvent(second, fork));
  EXPECT(status_of(second) == ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
  aclmdlRI one = nullptr, other = nullptr;
  OK(aclmdlRICaptureGetInfo(first, nullptr, &one));
  OK(aclmdlRICaptureGetInfo(second, nullptr, &other));
  EXPECT(one != nullptr && one == other);
  uint32_t number = 0;
  OK(aclmdlRIGetId(one, &number));
  EXPECT(aclmdlRIExecuteAsync(one, second) == ACL_ERROR_RT_MODEL_CAPTURED);
  EXPECT(aclmdlRIDestroy(one) == ACL_ERROR_RT_MODEL_CAPTURED);
  log.add(second, 2);
  log.add(first, 3);
  OK(aclrtRecordEvent(join, second));
  OK(aclrtStreamWaitEvent(first, join));
  log.add(first, 4);
  const auto graph = end(first);
  EXPECT(graph == one);
  EXPECT(status_of(second) == ACL_MODEL_RI_CAPTURE_STATUS_NONE);
  EXPECT(log.numbers.empty());
  OK(aclmdlRIExecuteAsync(graph, first));
  OK(aclmdlRIExecuteAsync(graph, first));
  OK(aclrtSynchronizeStream(first));
  EXPECT((log.numbers == std::vector<int>{1, 2, 3, 4, 1, 2, 3, 4}));
  // The streams and events are ordinary ones again.
  log.add(second, 5);
  OK(aclrtRecordEvent(join, second));
  OK(aclrtStreamWaitEvent(first, join));
  OK(aclrtSynchronizeStream(first));
  EXPECT(log.numbers.back() == 5);
  OK(aclmdlRIDestroy(graph));
}

TEST(capture_wants_other_streams_joined_again) {
  const auto first = new_stream(), second = new_stream();
  const Event fork, join;
  Log log;
  begin(first);
  OK(aclrtRecordEvent(fork, first));
  OK(aclrtStreamWaitEvent(second, fork));
  OK(aclrtRecordEvent(join, second));
  log.add(second, 1);  // behind what the first stream will wait for
  OK(aclrtStreamWaitEvent(first, join));
  end_failed(first, ACL_ERROR_RT_STREAM_UNJOINED, "does not wait for the last");
  // A stream that took nothing need not be joined.
  begin(first);
  OK(aclrtRecordEvent(fork, first));
  OK(aclrtStreamWaitEvent(second, fork));
  OK(aclmdlRIDestroy(end(first)));
}

TEST(capture_refuses_what_waits) {
  const auto stream = new_stream();
  const Event event;
  aclrtStreamStatus status{};
  const std::vector<std::pair<const char*, std::function<aclError()>>> calls = {
      {"aclrtSynchronizeStream", [&] { return aclrtSynchronizeStream(stream); }},
      {"aclrtSynchronizeStreamWithTimeout", [&] { return aclrtSynchronizeStreamWithTimeout(stream, 1); }},
      {"aclrtStreamQuery", [&] { return aclrtStreamQuery(stream, &status); }},
      {"aclrtSynchronizeDevice", [&] { return aclrtSynchronizeDevice(); }},
      {"aclrtDestroyStream", [&] { return aclrtDestroyStream(stream); }},
      {"aclrtResetEvent", [&] { return aclrtResetEvent(event, stream); }},
      {"aclrtStreamAbort", [&] { return aclrtStreamAbort(stream); }},
  };
  for (const auto& [name, call] : calls) {
    begin(stream);
    EXPECT(call() == ACL_ERROR_RT_STREAM_CAPTURED);
    EXPECT(status_of(stream) == ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED);
    end_failed(stream, ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, name);
  }
  OK(aclrtSynchronizeStream(stream));
}

TEST(capture_events_have_no_time) {
  const auto stream = new_stream(), other = new_stream();
  const Event event(ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE);
  begin(stream);
  OK(aclrtRecordEvent(event, stream));
  aclrtEventRecordedStatus status{};
  EXPECT(aclrtQueryEventStatus(event, &status) == ACL_ERROR_RT_EVENT_CAPTURED);
  EXPECT(aclrtSynchronizeEvent(event) == ACL_ERROR_RT_EVENT_CAPTURED);
  float ms = 0;
  EXPECT(aclrtEventElapsedTime(&ms, event, event) == ACL_ERROR_RT_EVENT_CAPTURED);
  OK(aclmdlRIDestroy(end(stream)));
  EXPECT(aclrtStreamWaitEvent(other, event) == ACL_ERROR_RT_EVENT_CAPTURED);
  OK(aclrtRecordEvent(event, stream));
  OK(aclrtSynchronizeEvent(event));
  OK(aclrtStreamWaitEvent(other, event));
}

TEST(capture_does_not_depend_on_work_outside) {
  const auto stream = new_stream(), outside = new_stream();
  const Event event;
  std::atomic<bool> open{false};
  OK(aclrtLaunchHostFunc(
      outside,
      [](void* data) {
        while (!*static_cast<std::atomic<bool>*>(data)) {
        }
      },
      &open));
  OK(aclrtRecordEvent(event, outside));
  begin(stream);
  EXPECT(aclrtStreamWaitEvent(stream, event) == ACL_ERROR_RT_CAPTURE_DEPENDENCY);
  end_failed(stream, ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, "outside");
  open = true;
  OK(aclrtSynchronizeStream(outside));
}

TEST(capture_modes_and_synchronous_copies) {
  const auto stream = new_stream();
  void* memory = nullptr;
  OK(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST));
  char host[64] = {};
  const auto copy = [&] { return aclrtMemcpy(memory, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE); };
  const auto copy_elsewhere = [&] {
    aclError code = ACL_SUCCESS;
    std::thread([&] {
      OK(aclrtSetDevice(0));
      code = copy();
    }).join();
    return code;
  };
  begin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  EXPECT(copy_elsewhere() == ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT);
  end_failed(stream, ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, "aclrtMemcpy");
  begin(stream, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL);
  OK(copy_elsewhere());
  EXPECT(copy() == ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT);
  end_failed(stream, ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, "aclrtMemcpy");
  begin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED);
  OK(copy());
  OK(aclmdlRIDestroy(end(stream)));
  begin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  auto mode = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
  OK(aclmdlRICaptureThreadExchangeMode(&mode));
  EXPECT(mode == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  OK(copy());
  OK(aclmdlRICaptureThreadExchangeMode(&mode));
  OK(aclmdlRIDestroy(end(stream)));
}

TEST(capture_begins_and_ends_where_it_may) {
  const auto stream = new_stream(), other = new_stream();
  const Event event;
  aclmdlRI graph = nullptr;
  EXPECT(aclmdlRICaptureBegin(nullptr, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL) == ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT);
  EXPECT(aclmdlRICaptureBegin(stream, static_cast<aclmdlRICaptureMode>(9)) == ACL_ERROR_INVALID_PARAM);
  EXPECT(aclmdlRICaptureEnd(stream, &graph) == ACL_ERROR_RT_STREAM_NOT_CAPTURED);
  begin(stream);
  EXPECT(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL) == ACL_ERROR_RT_STREAM_CAPTURED);
  OK(aclrtRecordEvent(event, stream));
  OK(aclrtStreamWaitEvent(other, event));
  EXPECT(aclmdlRICaptureEnd(other, &graph) == ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED);
  std::thread([&] {
    OK(aclrtSetDevice(0));
    EXPECT(aclmdlRICaptureEnd(stream, &graph) == ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD);
  }).join();
  graph = end(stream);
  uint32_t id = 0;
  OK(aclmdlRIGetId(graph, &id));
  EXPECT(id > 0);
  OK(aclmdlRISetName(graph, "step"));
  char name[5] = {};
  EXPECT(aclmdlRIGetName(graph, 4, name) == ACL_ERROR_INVALID_PARAM);
  OK(aclmdlRIGetName(graph, sizeof name, name));
  EXPECT(std::string(name) == "step");
  OK(aclmdlRIDestroy(graph));
}

TEST(capture_keeps_what_clients_ask_of_its_stream) {
  const auto stream = new_stream();
  aclrtStreamAttrValue value{};
  value.cacheOpInfoSwitch = 1;
  OK(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_CACHE_OP_INFO, &value));
  value.cacheOpInfoSwitch = 0;
  OK(aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_CACHE_OP_INFO, &value));
  EXPECT(value.cacheOpInfoSwitch == 1);
}

TEST(capture_of_two_graphs_at_once) {
  const auto a = new_stream(), b = new_stream();
  const Event event;
  Log log;
  begin(a);
  begin(b);
  OK(aclrtRecordEvent(event, a));
  EXPECT(aclrtStreamWaitEvent(b, event) == ACL_ERROR_STREAM_CAPTURE_CONFLICT);
  log.add(a, 1);
  log.add(b, 2);
  const auto first = end(a), second = end(b);
  // A graph within a graph.
  begin(a);
  OK(aclmdlRIExecuteAsync(second, a));
  OK(aclmdlRIExecuteAsync(first, a));
  const auto both = end(a);
  OK(aclmdlRIDestroy(first));  // the other graph keeps it
  OK(aclmdlRIExecuteAsync(both, b));
  OK(aclmdlRIDestroy(both));  // and the queue keeps that
  OK(aclrtSynchronizeStream(b));
  EXPECT((log.numbers == std::vector<int>{2, 1}));
  OK(aclmdlRIDestroy(second));
}

namespace {

struct Words {
  void* memory = nullptr;
  Words() {
    OK(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemset(memory, 64, 0, 64));
  }
  ~Words() { OK(aclrtFree(memory)); }
  int value() const { return read_int(memory); }
};

// A graph that sets `x` in a task group.
aclmdlRI capture_group(aclrtStream stream, const Words& x, int byte, aclrtTaskGrp* group) {
  begin(stream);
  OK(aclmdlRICaptureTaskGrpBegin(stream));
  OK(aclrtMemsetAsync(x.memory, 64, byte, 64, stream));
  OK(aclmdlRICaptureTaskGrpEnd(stream, group));
  return end(stream);
}

}  // namespace

TEST(capture_task_group_is_updated_in_stream_order) {
  const auto stream = new_stream(), updater = new_stream();
  const Words x, y;
  aclrtTaskGrp group = nullptr;
  const auto graph = capture_group(stream, x, 1, &group);
  OK(aclmdlRICaptureTaskUpdateBegin(updater, group));
  EXPECT(status_of(updater) == ACL_MODEL_RI_CAPTURE_STATUS_NONE);
  OK(aclrtMemsetAsync(y.memory, 64, 2, 64, updater));
  OK(aclmdlRICaptureTaskUpdateEnd(updater));
  OK(aclrtSynchronizeStream(updater));
  EXPECT(y.value() == 0);  // taken, not run
  OK(aclmdlRIExecuteAsync(graph, stream));
  OK(aclrtSynchronizeStream(stream));
  EXPECT(x.value() == 0);
  EXPECT(y.value() == 0x02020202);
  OK(aclmdlRIDestroy(graph));
}

TEST(capture_refuses_updates_that_do_not_fit) {
  const auto stream = new_stream(), updater = new_stream();
  const Words x;
  aclrtTaskGrp group = nullptr;
  EXPECT(aclmdlRICaptureTaskGrpBegin(stream) == ACL_ERROR_RT_STREAM_NOT_CAPTURED);
  EXPECT(aclmdlRICaptureTaskGrpEnd(stream, &group) == ACL_ERROR_INVALID_PARAM);
  EXPECT(aclmdlRICaptureTaskUpdateEnd(updater) == ACL_ERROR_INVALID_PARAM);
  EXPECT(aclmdlRICaptureTaskUpdateBegin(updater, &group) == ACL_ERROR_RT_INVALID_HANDLE);
  const auto graph = capture_group(stream, x, 1, &group);
  Log log;
  OK(aclmdlRICaptureTaskUpdateBegin(updater, group));
  EXPECT(aclmdlRICaptureTaskUpdateBegin(updater, group) == ACL_ERROR_RT_STREAM_CAPTURED);
  EXPECT(aclrtSynchronizeStream(updater) == ACL_ERROR_RT_STREAM_CAPTURED);
  EXPECT(aclmdlRICaptureTaskUpdateEnd(updater) == ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
  OK(aclmdlRICaptureTaskUpdateBegin(updater, group));
  EXPECT(aclmdlRICaptureTaskUpdateEnd(updater) == ACL_ERROR_INVALID_PARAM);  // a task too few
  OK(aclmdlRICaptureTaskUpdateBegin(updater, group));
  log.add(updater, 1);
  EXPECT(aclmdlRICaptureTaskUpdateEnd(updater) == ACL_ERROR_INVALID_PARAM);  // of another kind
  OK(aclmdlRIExecuteAsync(graph, stream));
  OK(aclrtSynchronizeStream(stream));
  EXPECT(x.value() == 0x01010101);
  EXPECT(log.numbers.empty());
  OK(aclmdlRIDestroy(graph));
  EXPECT(aclmdlRICaptureTaskUpdateBegin(updater, group) == ACL_ERROR_RT_INVALID_HANDLE);
  begin(stream);
  OK(aclmdlRICaptureTaskGrpBegin(stream));
  end_failed(stream, ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, "task group");
}

TEST(capture_external_event_lets_a_graph_wait_for_its_update) {
  const auto stream = new_stream(), updater = new_stream();
  const Words x;
  const Event ready(ACL_EVENT_EXTERNAL);
  aclrtTaskGrp group = nullptr;
  begin(stream);
  OK(aclrtStreamWaitEvent(stream, ready));
  OK(aclrtResetEvent(ready, stream));
  OK(aclmdlRICaptureTaskGrpBegin(stream));
  OK(aclrtMemsetAsync(x.memory, 64, 1, 64, stream));
  OK(aclmdlRICaptureTaskGrpEnd(stream, &group));
  const auto graph = end(stream);
  for (int round = 2; round < 30; ++round) {
    OK(aclmdlRIExecuteAsync(graph, stream));
    auto status = ACL_EVENT_RECORDED_STATUS_COMPLETE;
    OK(aclrtQueryEventStatus(ready, &status));
    EXPECT(status == ACL_EVENT_RECORDED_STATUS_NOT_READY);
    EXPECT(aclrtSynchronizeStreamWithTimeout(stream, 1) == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    OK(aclmdlRICaptureTaskUpdateBegin(updater, group));
    OK(aclrtMemsetAsync(x.memory, 64, round, 64, updater));
    OK(aclmdlRICaptureTaskUpdateEnd(updater));
    OK(aclrtRecordEvent(ready, updater));
    OK(aclrtSynchronizeStream(stream));
    EXPECT(x.value() == round * 0x01010101);
  }
  OK(aclmdlRIDestroy(graph));
}

TEST(capture_external_event_is_a_signal_between_streams) {
  const auto first = new_stream(), second = new_stream();
  const Event event(ACL_EVENT_EXTERNAL);
  aclrtEvent none = nullptr;
  EXPECT(aclrtCreateEventExWithFlag(&none, ACL_EVENT_EXTERNAL | ACL_EVENT_TIME_LINE) == ACL_ERROR_INVALID_PARAM);
  Log log;
  OK(aclrtStreamWaitEvent(second, event));  // before anybody has recorded it
  log.add(second, 2);
  log.add(first, 1);
  OK(aclrtSynchronizeStream(first));
  EXPECT(aclrtSynchronizeEventWithTimeout(event, 1) == ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
  OK(aclrtRecordEvent(event, first));
  OK(aclrtSynchronizeEvent(event));
  OK(aclrtSynchronizeStream(second));
  EXPECT((log.numbers == std::vector<int>{1, 2}));
  OK(aclrtResetEvent(event, first));
  OK(aclrtSynchronizeStream(first));
  EXPECT(aclrtSynchronizeEventWithTimeout(event, 1) == ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
}

TEST(destroyed_graphs_call_back) {
  OK(aclrtSetDevice(0));
  aclrtStream stream = nullptr;
  OK(aclrtCreateStream(&stream));
  begin(stream);
  aclmdlRI graph = end(stream);
  std::vector<int> calls;
  const aclrtCallback first = [](void* to) { static_cast<std::vector<int>*>(to)->push_back(1); };
  const aclrtCallback second = [](void* to) { static_cast<std::vector<int>*>(to)->push_back(2); };
  OK(aclmdlRIDestroyRegisterCallback(graph, first, &calls));
  OK(aclmdlRIDestroyRegisterCallback(graph, second, &calls));
  OK(aclmdlRIDestroyRegisterCallback(graph, first, &calls));
  OK(aclmdlRIDestroyUnregisterCallback(graph, second));
  EXPECT(aclmdlRIDestroyUnregisterCallback(graph, second) == ACL_ERROR_INVALID_PARAM);
  EXPECT(calls.empty());
  OK(aclmdlRIDestroy(graph));
  EXPECT((calls == std::vector<int>{1, 1}));
  EXPECT(aclmdlRIDestroyRegisterCallback(graph, first, &calls) == ACL_ERROR_RT_INVALID_HANDLE);
  OK(aclrtDestroyStream(stream));
}

// A capture of several streams, each of which another thread captures on.
TEST(threads_show_events_of_one_graph) {
  constexpr int kThreads = 3, kEvents = 500;
  aclrtStream origin = new_stream();
  aclrtContext context = nullptr;
  OK(aclrtGetCurrentContext(&context));
  std::vector<aclrtStream> streams(kThreads);
  std::vector<aclrtEvent> events(kThreads * kEvents), joins(kThreads + 1);
  for (aclrtStream& stream : streams) OK(aclrtCreateStream(&stream));
  for (aclrtEvent& event : events) OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
  for (aclrtEvent& event : joins) OK(aclrtCreateEvent(&event));
  OK(aclmdlRICaptureBegin(origin, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
  OK(aclrtRecordEvent(joins.back(), origin));
  for (aclrtStream stream : streams) OK(aclrtStreamWaitEvent(stream, joins.back()));
  std::vector<std::thread> threads;
  std::atomic<int> begun{0};
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      OK(aclrtSetCurrentContext(context));
      for (++begun; begun < kThreads;) {
      }
      for (int j = 0; j < kEvents; ++j)
        OK(aclrtRecordEventWithFlag(events[i * kEvents + j], streams[i], ACL_EVENT_RECORD_EXTERNAL));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kThreads; ++i) {
    OK(aclrtRecordEvent(joins[i], streams[i]));
    OK(aclrtStreamWaitEvent(origin, joins[i]));
  }
  FAILS(aclrtRecordEventWithFlag(events[0], origin, ACL_EVENT_RECORD_EXTERNAL), ACL_ERROR_INVALID_PARAM, "already");
  aclmdlRI graph = nullptr;
  OK(aclmdlRICaptureEnd(origin, &graph));
  OK(aclmdlRIExecuteAsync(graph, origin));
  OK(aclrtSynchronizeStream(origin));
  for (aclrtEvent event : events) {
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    OK(aclrtQueryEventStatus(event, &status));
    EXPECT_EQ(static_cast<int>(status), static_cast<int>(ACL_EVENT_RECORDED_STATUS_COMPLETE));
    OK(aclrtDestroyEvent(event));
  }
  OK(aclmdlRIDestroy(graph));
  for (aclrtEvent event : joins) OK(aclrtDestroyEvent(event));
  for (aclrtStream stream : streams) OK(aclrtDestroyStream(stream));
  OK(aclrtDestroyStream(origin));
}
