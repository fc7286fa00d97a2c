// Host functions and callbacks in stream order.
#include <pthread.h>

#include <atomic>
#include <thread>

#include "acl_checks.h"

namespace {

std::atomic<int> counter{0};
std::atomic<int> seen_by_host{-1};
std::atomic<pthread_t> callback_thread;

void slow_callback(void*) {
  test::sleep_ms(20);
  callback_thread = pthread_self();
  ++counter;
}

void note(void*) { seen_by_host = counter.load(); }

}  // namespace

TEST(host_function_runs_in_order) {
  aclrtStream stream = new_stream();
  std::vector<int> order;
  const auto append = [](void* list) {
    auto* v = static_cast<std::vector<int>*>(list);
    v->push_back(static_cast<int>(v->size()));
  };
  for (int i = 0; i < 50; ++i) OK(aclrtLaunchHostFunc(stream, append, &order));
  OK(aclrtSynchronizeStream(stream));
  EXPECT_EQ(order.size(), size_t{50});
  FAILS(aclrtLaunchHostFunc(stream, nullptr, nullptr), ACL_ERROR_INVALID_PARAM, "null");
  OK(aclrtDestroyStream(stream));
}

TEST(callback_blocks_its_stream_and_runs_on_the_subscribed_thread) {
  aclrtStream stream = new_stream();
  FAILS(aclrtLaunchCallback(note, nullptr, ACL_CALLBACK_BLOCK, stream), ACL_ERROR_RT_STREAM_NO_CB_REG, "subscribed");
  FAILS(aclrtProcessReport(1), ACL_ERROR_RT_THREAD_SUBSCRIBE, "subscribed to no stream");
  std::atomic<bool> ready{false}, stop{false};
  std::atomic<int> timeouts{0};
  std::thread reporter([&] {
    ready = true;
    while (!stop) {
      const aclError code = aclrtProcessReport(20);
      if (code == ACL_ERROR_RT_REPORT_TIMEOUT) ++timeouts;
    }
  });
  while (!ready) std::this_thread::yield();
  const auto id = static_cast<uint64_t>(reporter.native_handle());
  OK(aclrtSubscribeReport(id, stream));
  FAILS(aclrtSubscribeReport(id, stream), ACL_ERROR_RT_STREAM_SUBSCRIBE, "already");
  counter = 0;
  OK(aclrtLaunchCallback(slow_callback, nullptr, ACL_CALLBACK_BLOCK, stream));
  OK(aclrtLaunchHostFunc(stream, note, nullptr));
  OK(aclrtSynchronizeStream(stream));
  EXPECT_EQ(seen_by_host.load(), 1);
  EXPECT(pthread_equal(callback_thread.load(), reporter.native_handle()));
  while (timeouts.load() == 0) test::sleep_ms(1);  // nothing to do for 20 ms is a timeout
  OK(aclrtUnSubscribeReport(id, stream));
  FAILS(aclrtUnSubscribeReport(id, stream), ACL_ERROR_RT_STREAM_NO_CB_REG, "not subscribed");
  stop = true;
  reporter.join();
  OK(aclrtDestroyStream(stream));
}

// A thread that waits without limit for what its streams have for it.
template <class Process, class Subscribe, class Leave>
void expect_end_of_wait(Process process, Subscribe subscribe, Leave leave) {
  aclrtStream stream = new_stream();
  std::atomic<bool> subscribed{false}, ended{false};
  std::atomic<aclError> code{ACL_SUCCESS};
  std::thread waits([&] {
    while (!subscribed) std::this_thread::yield();
    code = process(-1);
    ended = true;
  });
  const auto id = static_cast<uint64_t>(waits.native_handle());
  OK(subscribe(id, stream));
  subscribed = true;
  test::sleep_ms(20);
  EXPECT(!ended);
  OK(leave(id, stream));
  for (int i = 0; i < 2000 && !ended; ++i) test::sleep_ms(5);
  EXPECT(ended);
  EXPECT_EQ(code.load(), ACL_ERROR_RT_THREAD_SUBSCRIBE);
  ended ? waits.join() : waits.detach();
  OK(aclrtDestroyStream(stream));
}

TEST(who_waits_for_callbacks_goes_on_when_its_last_stream_leaves) {
  expect_end_of_wait(aclrtProcessReport, aclrtSubscribeReport, aclrtUnSubscribeReport);
}

TEST(who_waits_for_host_functions_goes_on_when_its_last_stream_leaves) {
  expect_end_of_wait(aclrtProcessHostFunc, aclrtSubscribeHostFunc, aclrtUnSubscribeHostFunc);
}
