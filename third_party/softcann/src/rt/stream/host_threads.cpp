#include "rt/stream/host_threads.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>

#include "rt/base/error.h"
#include "rt/stream/stream.h"

using namespace softcann;

namespace {

constexpr std::chrono::milliseconds kAbortLooks{5};  // nobody wakes who waits when a stream's tasks are dropped

struct HostCall {
  aclrtHostFunc function;
  void* argument;
  bool done = false;
};

struct HostThread {
  std::deque<HostCall*> queue;
  int streams = 0;  // subscribed
};

struct HostThreads {
  std::mutex mutex;
  std::condition_variable changed;  // of all: a call came, ended, or a thread left
  std::map<uint64_t, HostThread> by_id;
};

HostThreads& host_threads() {
  static auto* instance = new HostThreads;
  return *instance;
}

}  // namespace

void softcann::run_host_function(const std::atomic<uint64_t>& subscribed, aclrtHostFunc function, void* argument) {
  const uint64_t id = subscribed.load(std::memory_order_acquire);
  if (id == 0) return function(argument);
  HostThreads& all = host_threads();
  HostCall call{function, argument};
  std::unique_lock<std::mutex> lock(all.mutex);
  HostThread& thread = all.by_id[id];
  thread.queue.push_back(&call);
  all.changed.notify_all();
  const auto over = [&] { return call.done || subscribed.load(std::memory_order_acquire) != id || Stream::drops_this_task(); };
  while (!all.changed.wait_for(lock, kAbortLooks, over)) {
  }
  if (call.done) return;
  const auto place = std::find(thread.queue.begin(), thread.queue.end(), &call);
  if (place == thread.queue.end()) return all.changed.wait(lock, [&] { return call.done; });  // it is at it
  thread.queue.erase(place);
  lock.unlock();
  function(argument);
}

extern "C" {

aclError aclrtSubscribeHostFunc(uint64_t hostFuncThreadId, aclrtStream exeStream) {
  SOFTCANN_ENTRY(aclrtSubscribeHostFunc);
  SOFTCANN_REQUIRE(exeStream, "exeStream");
  if (hostFuncThreadId == 0) return fail(ACL_ERROR_INVALID_PARAM, "aclrtSubscribeHostFunc: the thread id is 0");
  STREAM_OR_RETURN(s, exeStream);
  HostThreads& all = host_threads();
  const std::lock_guard<std::mutex> lock(all.mutex);
  uint64_t none = 0;
  if (!s->host_thread.compare_exchange_strong(none, hostFuncThreadId)) {
    return fail(ACL_ERROR_RT_STREAM_SUBSCRIBE, "aclrtSubscribeHostFunc: thread %llu is subscribed to the stream already",
                static_cast<unsigned long long>(none));
  }
  ++all.by_id[hostFuncThreadId].streams;
  return ACL_SUCCESS;
}

aclError aclrtUnSubscribeHostFunc(uint64_t hostFuncThreadId, aclrtStream exeStream) {
  SOFTCANN_ENTRY(aclrtUnSubscribeHostFunc);
  SOFTCANN_REQUIRE(exeStream, "exeStream");
  STREAM_OR_RETURN(s, exeStream);
  HostThreads& all = host_threads();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (hostFuncThreadId == 0 || !s->host_thread.compare_exchange_strong(hostFuncThreadId, 0)) {
    return fail(ACL_ERROR_RT_STREAM_NO_CB_REG, "aclrtUnSubscribeHostFunc: that thread is not subscribed to the stream");
  }
  --all.by_id[hostFuncThreadId].streams;
  all.changed.notify_all();
  return ACL_SUCCESS;
}

aclError aclrtProcessHostFunc(int32_t timeout) {
  SOFTCANN_ENTRY(aclrtProcessHostFunc);
  if (timeout < -1 || timeout == 0) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtProcessHostFunc: timeout %d; milliseconds, or -1, without limit", timeout);
  }
  HostThreads& all = host_threads();
  std::unique_lock<std::mutex> lock(all.mutex);
  HostThread& thread = all.by_id[static_cast<uint64_t>(pthread_self())];
  if (thread.streams == 0 && thread.queue.empty()) {
    return fail(ACL_ERROR_RT_THREAD_SUBSCRIBE, "aclrtProcessHostFunc: this thread is subscribed to no stream");
  }
  const auto ready = [&thread] { return !thread.queue.empty() || thread.streams == 0; };
  if (timeout < 0) {
    all.changed.wait(lock, ready);
  } else if (!all.changed.wait_for(lock, std::chrono::milliseconds(timeout), ready)) {
    return fail(ACL_ERROR_RT_REPORT_TIMEOUT, "aclrtProcessHostFunc: no host function within %d ms", timeout);
  }
  if (thread.queue.empty()) {
    return fail(ACL_ERROR_RT_THREAD_SUBSCRIBE, "aclrtProcessHostFunc: the thread was unsubscribed meanwhile");
  }
  HostCall* call = thread.queue.front();
  thread.queue.pop_front();
  lock.unlock();
  call->function(call->argument);
  lock.lock();
  call->done = true;
  all.changed.notify_all();
  return ACL_SUCCESS;
}
}
