// Host functions in stream order: run by the device (aclrtLaunchHostFunc), or by a thread of the client that asks for
// them (aclrtSubscribeReport, aclrtLaunchCallback, aclrtProcessReport).
#include <pthread.h>

#include <condition_variable>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>

#include "rt/graph/capture.h"
#include "rt/process/exit.h"
#include "rt/stream/host_threads.h"

using namespace softcann;

namespace {

struct Callback {
  aclrtCallback fn;
  void* data;
  Stream* parked;  // goes on when the callback has returned; nullptr when it did not wait
};

// Callbacks that a client's thread is to run.
struct Report {
  std::condition_variable arrived;
  std::deque<Callback> queue;
  int streams = 0;  // subscribed
};

struct Reports {
  std::mutex mutex;
  std::map<uint64_t, Report> threads;
};

Reports& reports() {
  static auto* instance = new Reports;
  return *instance;
}

struct ReportTask : Task {
  Stream* stream;
  uint64_t thread;
  Callback callback;
};

struct HostTask : Task {
  const Stream* stream;
  aclrtHostFunc fn;
  void* args;
};

aclError deliver(Task* self, bool) {
  auto* task = static_cast<ReportTask*>(self);
  const bool blocks = task->callback.parked != nullptr;
  const uint64_t thread = task->thread;
  const Callback callback = task->callback;
  delete task;
  Reports& s = reports();
  std::lock_guard<std::mutex> lock(s.mutex);
  Report& report = s.threads[thread];
  report.queue.push_back(callback);
  report.arrived.notify_one();
  if (blocks) waits_outside.fetch_add(1, std::memory_order_relaxed);
  return blocks ? kParked : ACL_SUCCESS;
}

}  // namespace

extern "C" {

aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void* args) {
  SOFTCANN_ENTRY(aclrtLaunchHostFunc);
  STREAM_OR_RETURN(s, stream);
  if (fn == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "aclrtLaunchHostFunc: the function is a null pointer");
  auto* task = new HostTask;
  task->name = "aclrtLaunchHostFunc";
  task->stream = s;
  task->fn = fn;
  task->args = args;
  // Runs on a failed stream too: clients free what their work used in such functions.
  task->repeat = [](Task* self, bool) {
    auto* host = static_cast<HostTask*>(self);
    const WaitOutside outside;
    run_host_function(host->stream->host_thread, host->fn, host->args);
    return ACL_SUCCESS;
  };
  task->discard = [](Task* self) { delete static_cast<HostTask*>(self); };
  task->run = &run_once;
  s->submit(task, kNeverInline);
  return ACL_SUCCESS;
}

aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtSubscribeReport);
  STREAM_OR_RETURN(s, stream);
  uint64_t none = 0;
  if (threadId == 0) return fail(ACL_ERROR_INVALID_PARAM, "aclrtSubscribeReport: the thread id is 0");
  std::lock_guard<std::mutex> lock(reports().mutex);
  if (!s->report_thread.compare_exchange_strong(none, threadId)) {
    return fail(ACL_ERROR_RT_STREAM_SUBSCRIBE, "aclrtSubscribeReport: thread %llu is subscribed to the stream already",
                static_cast<unsigned long long>(none));
  }
  ++reports().threads[threadId].streams;
  return ACL_SUCCESS;
}

aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtUnSubscribeReport);
  STREAM_OR_RETURN(s, stream);
  std::lock_guard<std::mutex> lock(reports().mutex);
  if (threadId == 0 || !s->report_thread.compare_exchange_strong(threadId, 0)) {
    return fail(ACL_ERROR_RT_STREAM_NO_CB_REG, "aclrtUnSubscribeReport: that thread is not subscribed to the stream");
  }
  Report& report = reports().threads[threadId];
  if (--report.streams == 0) report.arrived.notify_all();  // it waits for nothing any more
  return ACL_SUCCESS;
}

aclError aclrtLaunchCallback(aclrtCallback fn, void* userData, aclrtCallbackBlockType blockType, aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtLaunchCallback);
  STREAM_OR_RETURN(s, stream);
  if (fn == nullptr || (blockType != ACL_CALLBACK_NO_BLOCK && blockType != ACL_CALLBACK_BLOCK)) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtLaunchCallback: no function, or unknown block type %d",
                static_cast<int>(blockType));
  }
  SOFTCANN_NOT_CAPTURED(s, "aclrtLaunchCallback");
  const uint64_t thread = s->report_thread.load(std::memory_order_acquire);
  if (thread == 0) {
    return fail(ACL_ERROR_RT_STREAM_NO_CB_REG,
                "aclrtLaunchCallback: no thread is subscribed to the stream (aclrtSubscribeReport)");
  }
  auto* task = new ReportTask;
  task->name = "aclrtLaunchCallback";
  task->run = deliver;
  task->thread = thread;
  task->callback = Callback{fn, userData, blockType == ACL_CALLBACK_BLOCK ? s : nullptr};
  s->submit(task, 0);
  return ACL_SUCCESS;
}

aclError aclrtProcessReport(int32_t timeout) {
  SOFTCANN_ENTRY(aclrtProcessReport);
  if (timeout < -1) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtProcessReport: timeout %d; -1 is without limit", timeout);
  }
  Reports& s = reports();
  std::unique_lock<std::mutex> lock(s.mutex);
  auto it = s.threads.find(static_cast<uint64_t>(pthread_self()));
  if (it == s.threads.end() || (it->second.streams == 0 && it->second.queue.empty())) {
    return fail(ACL_ERROR_RT_THREAD_SUBSCRIBE, "aclrtProcessReport: this thread is subscribed to no stream");
  }
  Report& report = it->second;
  const auto ready = [&report] { return !report.queue.empty() || report.streams == 0; };
  if (timeout < 0) {
    report.arrived.wait(lock, ready);
  } else if (!report.arrived.wait_for(lock, std::chrono::milliseconds(timeout), ready)) {
    return fail(ACL_ERROR_RT_REPORT_TIMEOUT, "aclrtProcessReport: no callback within %d ms", timeout);
  }
  if (report.queue.empty())
    return fail(ACL_ERROR_RT_THREAD_SUBSCRIBE, "aclrtProcessReport: the thread was unsubscribed meanwhile");
  const Callback callback = report.queue.front();
  report.queue.pop_front();
  lock.unlock();
  callback.fn(callback.data);
  if (callback.parked == nullptr) return ACL_SUCCESS;
  waits_outside.fetch_sub(1, std::memory_order_relaxed);
  callback.parked->resume();
  return ACL_SUCCESS;
}
}
