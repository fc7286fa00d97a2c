// Events: versions, lifetime, time, waiting in every direction.
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "acl_checks.h"
#include "rt/runtime.h"

namespace {

struct FunctionTask : softcann::Task {
  std::function<void()> body;
};

void push(aclrtStream stream, std::function<void()> body, uint32_t cost = softcann::kNeverInline) {
  auto* task = new FunctionTask;
  task->name = "test task";
  task->body = std::move(body);
  task->run = [](softcann::Task* self, bool) {
    std::unique_ptr<FunctionTask> mine(static_cast<FunctionTask*>(self));
    mine->body();
    return ACL_SUCCESS;
  };
  OK(softcann::submit(stream, task, cost));
}

aclrtEvent new_event(uint32_t flags = ACL_EVENT_SYNC) {
  aclrtEvent event = nullptr;
  OK(aclrtCreateEventExWithFlag(&event, flags));
  return event;
}

bool has_completed(aclrtEvent event) {
  aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
  OK(aclrtQueryEventStatus(event, &status));
  return status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
}

bool is_idle(aclrtStream stream) {
  aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
  OK(aclrtStreamQuery(stream, &status));
  return status == ACL_STREAM_STATUS_COMPLETE;
}

// A task that blocks its stream until open() is called.
struct Gate {
  std::atomic<bool> opened{false};
  void block(aclrtStream stream) {
    push(stream, [this] {
      while (!opened) std::this_thread::yield();
    });
  }
  void open() { opened = true; }
};

}  // namespace

TEST(event_orders_two_streams) {
  aclrtStream a = new_stream(), b = new_stream();
  aclrtEvent event = new_event();
  Gate gate;
  std::atomic<int> value{0};
  gate.block(a);
  push(a, [&] { value = 1; });
  OK(aclrtRecordEvent(event, a));
  OK(aclrtStreamWaitEvent(b, event));
  int seen = -1;
  push(b, [&] { seen = value; });
  EXPECT(!has_completed(event));
  aclrtEventWaitStatus wait_status = ACL_EVENT_WAIT_STATUS_COMPLETE;
  OK(aclrtQueryEventWaitStatus(event, &wait_status));
  EXPECT_EQ(wait_status, ACL_EVENT_WAIT_STATUS_NOT_READY);
  FAILS(aclrtSynchronizeEventWithTimeout(event, 10), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "10 ms");
  gate.open();
  OK(aclrtSynchronizeEvent(event));
  EXPECT(has_completed(event));
  OK(aclrtSynchronizeStream(b));
  EXPECT_EQ(seen, 1);
  OK(aclrtQueryEventWaitStatus(event, &wait_status));
  EXPECT_EQ(wait_status, ACL_EVENT_WAIT_STATUS_COMPLETE);
  OK(aclrtDestroyEvent(event));
  FAILS(aclrtRecordEvent(event, a), ACL_ERROR_RT_INVALID_HANDLE, "does not exist");
  OK(aclrtDestroyStream(a));
  OK(aclrtDestroyStream(b));
}

TEST(event_may_be_destroyed_right_after_a_wait) {
  aclrtStream a = new_stream(), b = new_stream();
  Gate gate;
  int order = 0, first = 0, second = 0;
  gate.block(a);
  push(a, [&] { first = ++order; });
  aclrtEvent event = new_event();
  OK(aclrtRecordEvent(event, a));
  OK(aclrtStreamWaitEvent(b, event));
  OK(aclrtDestroyEvent(event));
  push(b, [&] { second = ++order; });
  gate.open();
  OK(aclrtSynchronizeStream(b));
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 2);
  OK(aclrtDestroyStream(a));
  OK(aclrtDestroyStream(b));
}

TEST(event_waits_are_for_the_version_they_saw) {
  aclrtStream a = new_stream(), b = new_stream(), c = new_stream();
  aclrtEvent event = new_event();
  Gate gate_a, gate_c;
  gate_a.block(a);
  OK(aclrtRecordEvent(event, a));  // version 1, behind gate a
  OK(aclrtStreamWaitEvent(b, event));
  std::atomic<bool> passed{false};
  push(b, [&] { passed = true; });
  gate_c.block(c);
  OK(aclrtRecordEvent(event, c));  // version 2, behind gate c
  gate_c.open();
  OK(aclrtSynchronizeEvent(event));  // version 2
  EXPECT(has_completed(event));
  test::sleep_ms(5);
  EXPECT(!passed);  // version 1 is still open
  gate_a.open();
  OK(aclrtSynchronizeStream(b));
  EXPECT(passed);
  OK(aclrtDestroyEvent(event));
  for (aclrtStream stream : {a, b, c}) OK(aclrtDestroyStream(stream));
}

// What is known of an event and of its stream is one thing: neither is seen to have ended before the other.
TEST(event_and_stream_end_together) {
  aclrtStream a = new_stream();
  aclrtEvent event = new_event();
  int busy = 0, open = 0;
  for (int i = 0; i < 1000; ++i) {
    push(a, [] {});
    OK(aclrtRecordEvent(event, a));
    if (i % 2 == 0) {
      while (!has_completed(event)) std::this_thread::yield();
      busy += is_idle(a) ? 0 : 1;
    } else {
      while (!is_idle(a)) std::this_thread::yield();
      open += has_completed(event) ? 0 : 1;
    }
  }
  EXPECT_EQ(busy, 0);
  EXPECT_EQ(open, 0);
  OK(aclrtDestroyEvent(event));
  OK(aclrtDestroyStream(a));
}

TEST(event_never_recorded_is_no_wait) {
  aclrtStream a = new_stream();
  aclrtEvent event = new_event(ACL_EVENT_TIME_LINE);
  OK(aclrtStreamWaitEvent(a, event));
  OK(aclrtSynchronizeStream(a));
  OK(aclrtSynchronizeEvent(event));
  EXPECT(!has_completed(event));
  float ms = 0;
  FAILS(aclrtEventElapsedTime(&ms, event, event), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "never recorded");
  OK(aclrtRecordEvent(event, a));
  OK(aclrtSynchronizeStream(a));
  EXPECT(has_completed(event));
  OK(aclrtResetEvent(event, a));
  OK(aclrtSynchronizeStream(a));
  EXPECT(!has_completed(event));
  OK(aclrtDestroyEvent(event));
  OK(aclrtDestroyStream(a));
}

TEST(event_time_is_when_the_device_gets_there) {
  aclrtStream a = new_stream();
  aclrtEvent start = new_event(ACL_EVENT_TIME_LINE), end = new_event(ACL_EVENT_TIME_LINE), plain = new_event();
  Gate gate;
  gate.block(a);
  OK(aclrtRecordEvent(start, a));
  push(a, [] { test::sleep_ms(20); });
  OK(aclrtRecordEvent(end, a));
  OK(aclrtRecordEvent(plain, a));
  float ms = 0;
  FAILS(aclrtEventElapsedTime(&ms, start, end), ACL_ERROR_RT_EVENT_NOT_COMPLETE, "not complete");
  test::sleep_ms(30);
  const auto opened = std::chrono::steady_clock::now();
  gate.open();
  OK(aclrtSynchronizeEvent(end));
  OK(aclrtEventElapsedTime(&ms, start, end));
  const std::chrono::duration<float, std::milli> since = std::chrono::steady_clock::now() - opened;
  EXPECT(ms >= 20.0F && ms <= since.count());  // the time before the gate opened does not count
  FAILS(aclrtEventElapsedTime(&ms, end, start), ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, "before");
  OK(aclrtSynchronizeStream(a));
  FAILS(aclrtEventElapsedTime(&ms, start, plain), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "ACL_EVENT_TIME_LINE");
  // Two records that follow at once differ by microseconds, not by a clock tick of milliseconds; this thread may be
  // interrupted between them, but not every time.
  bool fine = false;
  for (int i = 0; i < 1000 && !fine; ++i) {
    OK(aclrtRecordEvent(start, a));
    OK(aclrtRecordEvent(end, a));
    OK(aclrtSynchronizeStream(a));
    OK(aclrtEventElapsedTime(&ms, start, end));
    EXPECT(ms >= 0.0F);
    fine = ms > 0.0F && ms < 1.0F;
  }
  EXPECT(fine);
  for (aclrtEvent event : {start, end, plain}) OK(aclrtDestroyEvent(event));
  OK(aclrtDestroyStream(a));
}

// A ring of streams, each waiting for an event of its neighbour, many rounds, with as few threads as there may be.
TEST(event_ring_does_not_deadlock) {
  constexpr int kStreams = 24, kRounds = 40;
  std::vector<aclrtStream> streams;
  for (int i = 0; i < kStreams; ++i) streams.push_back(new_stream());
  std::atomic<int> ran{0};
  Gate gate;
  gate.block(streams[0]);
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < kStreams; ++i) {
      aclrtEvent event = new_event();
      push(streams[i], [&] { ++ran; }, i % 2 == 0 ? 10 : softcann::kNeverInline);
      OK(aclrtRecordEvent(event, streams[i]));
      OK(aclrtStreamWaitEvent(streams[(i + 1) % kStreams], event));
      OK(aclrtStreamWaitEvent(streams[(i + 5) % kStreams], event));
      OK(aclrtDestroyEvent(event));
    }
  }
  gate.open();
  OK(aclrtSynchronizeDevice());
  EXPECT_EQ(ran.load(), kStreams * kRounds);
  for (aclrtStream stream : streams) OK(aclrtDestroyStream(stream));
}

TEST(event_stress_from_many_threads) {
  constexpr int kThreads = 6, kRounds = 400;
  std::vector<aclrtStream> streams;
  for (int i = 0; i < kThreads; ++i) streams.push_back(new_stream());
  aclrtEvent shared = new_event(ACL_EVENT_TIME_LINE);
  std::atomic<int> ran{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      OK(aclrtSetDevice(0));
      for (int i = 0; i < kRounds; ++i) {
        push(streams[t], [&] { ++ran; }, i % 4 == 0 ? softcann::kNeverInline : 1);
        OK(aclrtRecordEvent(shared, streams[t]));
        OK(aclrtStreamWaitEvent(streams[(t + 1) % kThreads], shared));
        if (i % 50 == 0) OK(aclrtSynchronizeEvent(shared));
        aclrtEventRecordedStatus status;
        OK(aclrtQueryEventStatus(shared, &status));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  OK(aclrtDestroyEvent(shared));
  OK(aclrtSynchronizeDevice());
  EXPECT_EQ(ran.load(), kThreads * kRounds);
  for (aclrtStream stream : streams) OK(aclrtDestroyStream(stream));
}

TEST(a_notify_is_destroyed_while_other_threads_use_it) {
  aclrtStream stream = new_stream();
  aclrtContext context = nullptr;
  OK(aclrtGetCurrentContext(&context));
  for (int round = 0; round < 20; ++round) {
    aclrtNotify notify = nullptr;
    OK(aclrtCreateNotify(&notify, 0));
    std::atomic<int> begun{0};
    std::vector<std::thread> users;
    for (int i = 0; i < 2; ++i) {
      users.emplace_back([&] {
        OK(aclrtSetCurrentContext(context));
        aclError code = ACL_SUCCESS;
        while (code == ACL_SUCCESS) {
          code = aclrtRecordNotify(notify, stream);
          if (code == ACL_SUCCESS) code = aclrtWaitAndResetNotify(notify, stream, 1);
          ++begun;
        }
        EXPECT_EQ(code, ACL_ERROR_RT_INVALID_HANDLE);
      });
    }
    while (begun < 4) std::this_thread::yield();
    OK(aclrtDestroyNotify(notify));
    for (std::thread& user : users) user.join();
    OK(aclrtStreamAbort(stream));
  }
  OK(aclrtDestroyStream(stream));
}
