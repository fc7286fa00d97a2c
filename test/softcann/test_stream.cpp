// Streams: order, asynchrony, overlap, errors, many threads.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <thread>

#include "acl_checks.h"
#include "rt/runtime.h"

namespace {

struct FunctionTask : softcann::Task {
  std::function<aclError(bool)> body;
};

// Queues `body`; a cost of 0 may run it at once.
void push(aclrtStream stream, std::function<aclError(bool)> body, uint32_t cost = softcann::kNeverInline) {
  auto* task = new FunctionTask;
  task->name = "test task";
  task->body = std::move(body);
  task->run = [](softcann::Task* self, bool skip) {
    std::unique_ptr<FunctionTask> mine(static_cast<FunctionTask*>(self));
    return mine->body(skip);
  };
  const aclError code = softcann::submit(stream, task, cost);
  if (code != 0) delete task;
  OK(code);
}

bool is_complete(aclrtStream stream) {
  aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
  OK(aclrtStreamQuery(stream, &status));
  return status == ACL_STREAM_STATUS_COMPLETE;
}

int threads_of_process() {
  int count = 0;
  FILE* f = std::fopen("/proc/self/status", "r");
  char line[256];
  while (f != nullptr && std::fgets(line, sizeof line, f) != nullptr) {
    if (std::sscanf(line, "Threads: %d", &count) == 1) break;
  }
  if (f != nullptr) std::fclose(f);
  return count;
}

// Whether a thread of this process waits inside the kernel.
bool sleeps(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string text;
  std::getline(file, text);
  const size_t name_ends = text.rfind(") ");
  return name_ends != std::string::npos && text.compare(name_ends + 2, 1, "S") == 0;
}

}  // namespace

TEST(stream_runs_small_tasks_on_the_caller) {
  aclrtStream stream = new_stream();
  std::thread::id ran;
  push(
      stream,
      [&](bool) {
        ran = std::this_thread::get_id();
        return 0;
      },
      100);
  EXPECT(ran == std::this_thread::get_id());
  push(
      stream,
      [&](bool) {
        ran = std::this_thread::get_id();
        return 0;
      },
      2000000000);
  while (!is_complete(stream)) test::sleep_ms(1);
  EXPECT(ran != std::this_thread::get_id());
  OK(aclrtDestroyStream(stream));
}

TEST(stream_keeps_order_inline_and_queued) {
  aclrtStream stream = new_stream();
  std::vector<int> seen;
  for (int i = 0; i < 2000; ++i) {
    push(
        stream,
        [&seen, i](bool) {
          seen.push_back(i);
          return 0;
        },
        i % 7 == 0 ? softcann::kNeverInline : 10);
  }
  OK(aclrtSynchronizeStream(stream));
  EXPECT_EQ(seen.size(), size_t{2000});
  bool ordered = true;
  for (int i = 0; i < static_cast<int>(seen.size()); ++i) ordered = ordered && seen[static_cast<size_t>(i)] == i;
  EXPECT(ordered);
  OK(aclrtDestroyStream(stream));
}

TEST(stream_is_asynchronous) {
  aclrtStream stream = new_stream();
  std::atomic<bool> go{false};
  push(stream, [&](bool) {
    while (!go) std::this_thread::yield();
    return 0;
  });
  EXPECT(!is_complete(stream));
  test::sleep_ms(20);
  EXPECT(!is_complete(stream));  // the running task counts
  FAILS(aclrtSynchronizeStreamWithTimeout(stream, 10), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "10 ms");
  FAILS(aclrtSynchronizeDeviceWithTimeout(5), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "ms");
  go = true;
  OK(aclrtSynchronizeStreamWithTimeout(stream, 300000));
  EXPECT(is_complete(stream));
  OK(aclrtDestroyStream(stream));
}

TEST(streams_overlap) {
  aclrtStream a = new_stream(), b = new_stream();
  std::atomic<int> arrived{0};
  // Each waits for the other: only possible when both run at the same time.
  const auto meet = [&](bool) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
    return 0;
  };
  push(a, meet);
  push(b, meet);
  OK(aclrtSynchronizeDevice());
  EXPECT_EQ(arrived.load(), 2);
  OK(aclrtDestroyStream(a));
  OK(aclrtDestroyStream(b));
}

// In a process of its own: a thread that was joined just before is still counted for a moment.
CHILD(unused_streams) {
  OK(aclrtSetDevice(0));
  const int before = threads_of_process();
  std::vector<aclrtStream> streams;
  for (int i = 0; i < 64; ++i) streams.push_back(new_stream());
  int ran = 0;
  for (aclrtStream stream : streams)
    push(
        stream,
        [&](bool) {
          ++ran;
          return 0;
        },
        10);
  EXPECT_EQ(ran, 64);
  EXPECT_EQ(threads_of_process(), before);
  for (aclrtStream stream : streams) OK(aclrtDestroyStream(stream));
  return 0;
}

TEST(unused_streams_have_no_thread) { EXPECT_EQ(test::run_child("unused_streams"), 0); }

TEST(stream_error_is_reported_once_when_it_continues) {
  aclrtStream bad = new_stream(), good = new_stream();
  int after = 0;
  push(bad, [](bool) {
    softcann::task_error("index %d is out of range", 7);
    return ACL_ERROR_RT_AICORE_EXCEPTION;
  });
  push(bad, [&](bool skip) {
    after += skip ? 0 : 1;
    return 0;
  });
  push(good, [](bool) { return 0; });
  OK(aclrtSynchronizeStream(good));
  FAILS(aclrtSynchronizeStream(bad), ACL_ERROR_RT_AICORE_EXCEPTION, "test task failed");
  EXPECT_EQ(after, 1);
  OK(aclrtSynchronizeStream(bad));
  push(
      bad,
      [](bool) {
        softcann::task_error("index %d is out of range", 7);
        return ACL_ERROR_RT_AICORE_EXCEPTION;
      },
      1);
  FAILS(aclrtSynchronizeDevice(), ACL_ERROR_RT_AICORE_EXCEPTION, "index 7 is out of range");
  OK(aclrtDestroyStream(bad));
  OK(aclrtDestroyStream(good));
}

TEST(stream_that_stops_works_again_when_its_error_was_told) {
  aclrtStream bad = new_stream(), good = new_stream();
  OK(aclrtSetStreamFailureMode(bad, ACL_STOP_ON_FAILURE));
  int after = 0, elsewhere = 0, skipped = 0;
  push(bad, [](bool) { return ACL_ERROR_RT_AICORE_EXCEPTION; });
  push(bad, [&](bool skip) {
    skip ? ++skipped : ++after;
    return 0;
  });
  push(good, [&](bool skip) {
    elsewhere += skip ? 0 : 1;
    return 0;
  });
  FAILS(aclrtSynchronizeStream(bad), ACL_ERROR_RT_AICORE_EXCEPTION, "error 507015");
  OK(aclrtSynchronizeStream(bad));
  OK(aclrtSynchronizeStream(good));
  EXPECT_EQ(after, 0);
  EXPECT_EQ(skipped, 1);
  EXPECT_EQ(elsewhere, 1);
  push(bad, [&](bool skip) {
    after += skip ? 0 : 1;
    return 0;
  });
  OK(aclrtSynchronizeStream(bad));
  EXPECT_EQ(after, 1);
  push(bad, [](bool) { return ACL_ERROR_RT_AICORE_EXCEPTION; });
  OK(aclrtStreamAbort(bad));
  OK(aclrtSynchronizeStream(bad));
  OK(aclrtDestroyStream(bad));
  OK(aclrtDestroyStream(good));
}

TEST(event_of_a_stream_that_failed_tells_its_error) {
  aclrtStream bad = new_stream(), other = new_stream();
  OK(aclrtSetStreamFailureMode(bad, ACL_STOP_ON_FAILURE));
  aclrtEvent event = nullptr;
  OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
  push(bad, [](bool) { return ACL_ERROR_RT_AICORE_EXCEPTION; });
  OK(aclrtRecordEvent(event, bad));
  FAILS(aclrtSynchronizeEvent(event), ACL_ERROR_RT_AICORE_EXCEPTION, "error 507015");
  FAILS(aclrtSynchronizeEventWithTimeout(event, 1000), ACL_ERROR_RT_AICORE_EXCEPTION, "error 507015");
  aclrtEventRecordedStatus recorded = ACL_EVENT_RECORDED_STATUS_NOT_READY;
  FAILS(aclrtQueryEventStatus(event, &recorded), ACL_ERROR_RT_AICORE_EXCEPTION, "error 507015");
  EXPECT_EQ(recorded, ACL_EVENT_RECORDED_STATUS_COMPLETE);
  aclrtEventWaitStatus waited = ACL_EVENT_WAIT_STATUS_NOT_READY;
  FAILS(aclrtQueryEventWaitStatus(event, &waited), ACL_ERROR_RT_AICORE_EXCEPTION, "error 507015");
  // Who waits for the stream is still told, and once.
  FAILS(aclrtSynchronizeStream(bad), ACL_ERROR_RT_AICORE_EXCEPTION, "error 507015");
  OK(aclrtRecordEvent(event, bad));
  OK(aclrtSynchronizeEvent(event));
  OK(aclrtRecordEvent(event, other));
  OK(aclrtSynchronizeEvent(event));
  OK(aclrtDestroyEvent(event));
  OK(aclrtDestroyStream(bad));
  OK(aclrtDestroyStream(other));
}

TEST(aborted_work_is_told_to_who_waits) {
  aclrtStream stream = new_stream(), idle = new_stream();
  std::atomic<int> ran{0};
  for (int i = 0; i < 50; ++i) {
    push(stream, [&](bool skip) {
      if (!skip) test::sleep_ms(5), ++ran;
      return 0;
    });
  }
  OK(aclrtDeviceTaskAbort(0, 10000));
  EXPECT(ran.load() < 50);
  FAILS(aclrtSynchronizeStream(stream), ACL_ERROR_RT_DEVICE_TASK_ABORT, "were aborted");
  OK(aclrtSynchronizeStream(stream));
  OK(aclrtSynchronizeStream(idle));
  push(stream, [&](bool skip) {
    ran = skip ? 0 : 1000;
    return 0;
  });
  OK(aclrtSynchronizeStream(stream));
  EXPECT_EQ(ran.load(), 1000);
  push(stream, [](bool) {
    test::sleep_ms(300);
    return 0;
  });
  test::sleep_ms(20);
  FAILS(aclrtDeviceTaskAbort(0, 30), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "did not end within 30 ms");
  aclrtSynchronizeStream(stream);
  OK(aclrtDestroyStream(stream));
  OK(aclrtDestroyStream(idle));
}

TEST(stream_destroy_waits_and_handles_go_stale) {
  aclrtStream stream = new_stream();
  std::atomic<int> done{0};
  for (int i = 0; i < 10; ++i)
    push(stream, [&](bool) {
      test::sleep_ms(2);
      ++done;
      return 0;
    });
  OK(aclrtDestroyStream(stream));
  EXPECT_EQ(done.load(), 10);
  FAILS(aclrtSynchronizeStream(stream), ACL_ERROR_RT_INVALID_HANDLE, "does not exist");
  FAILS(aclrtDestroyStream(stream), ACL_ERROR_RT_INVALID_HANDLE, "does not exist");
  aclrtStream default_stream = nullptr;
  OK(aclrtCtxGetCurrentDefaultStream(&default_stream));
  FAILS(aclrtDestroyStream(default_stream), ACL_ERROR_INVALID_PARAM, "default");
}

TEST(stream_destroy_by_force_drops_what_is_queued) {
  aclrtStream stream = new_stream();
  std::atomic<bool> started{false}, go{false};
  std::atomic<int> ran{0};
  push(stream, [&](bool) {
    started = true;
    while (!go) std::this_thread::yield();
    return 0;
  });
  while (!started) std::this_thread::yield();  // else the thread that waits would run it itself
  for (int i = 0; i < 100; ++i)
    push(stream, [&](bool skip) {
      ran += skip ? 0 : 1;
      return 0;
    });
  std::atomic<pid_t> destroyer{0};
  std::thread destroying([&] {
    destroyer = gettid();
    OK(aclrtDestroyStreamForce(stream));
  });
  while (destroyer == 0 || !sleeps(destroyer)) std::this_thread::yield();  // until it waits for the first task
  go = true;
  destroying.join();
  EXPECT_EQ(ran.load(), 0);
}

TEST(stream_null_is_the_default_stream) {
  OK(aclrtSetDevice(0));
  int ran = 0;
  push(nullptr, [&](bool) {
    ++ran;
    return 0;
  });
  OK(aclrtSynchronizeStream(nullptr));
  EXPECT_EQ(ran, 1);
}

TEST(stream_of_another_context_is_refused) {
  aclrtStream stream = new_stream();
  aclrtContext context = nullptr, primary = nullptr;
  OK(aclrtGetCurrentContext(&primary));
  OK(aclrtCreateContext(&context, 0));
  FAILS(aclrtSynchronizeStream(stream), ACL_ERROR_RT_STREAM_CONTEXT, "belongs to device");
  OK(aclrtSetCurrentContext(primary));
  OK(aclrtDestroyContext(context));
  FAILS(aclrtSetCurrentContext(context), ACL_ERROR_RT_INVALID_HANDLE, "does not exist");
  OK(aclrtDestroyStream(stream));
  std::thread([stream] { FAILS(aclrtSynchronizeStream(stream), ACL_ERROR_RT_CONTEXT_NULL, "aclrtSetDevice"); }).join();
}

TEST(stream_priorities_flags_and_attributes) {
  OK(aclrtSetDevice(0));
  aclrtStream stream = nullptr;
  OK(aclrtCreateStreamWithConfig(&stream, 3, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC));
  uint32_t value = 0;
  OK(aclrtStreamGetPriority(stream, &value));
  EXPECT_EQ(value, 3U);
  OK(aclrtStreamGetFlags(stream, &value));
  EXPECT_EQ(value, 3U);
  int32_t id = -1;
  OK(aclrtStreamGetId(stream, &id));
  EXPECT(id >= 0);
  FAILS(aclrtCreateStreamWithConfig(&stream, 8, 0), ACL_ERROR_INVALID_PARAM, "priority 8");
  FAILS(aclrtCreateStreamWithConfig(&stream, 0, ACL_STREAM_DEVICE_USE_ONLY), ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "not supported");
  aclrtStreamAttrValue attribute{};
  attribute.failureMode = 1;
  OK(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_FAILURE_MODE, &attribute));
  attribute.failureMode = 0;
  OK(aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_FAILURE_MODE, &attribute));
  EXPECT_EQ(attribute.failureMode, uint64_t{1});
  OK(aclrtDestroyStream(stream));
}

TEST(stream_copies_are_ordered) {
  aclrtStream stream = new_stream();
  constexpr size_t kBytes = size_t{8} << 20;
  void *a = nullptr, *b = nullptr;
  OK(aclrtMalloc(&a, kBytes, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtMalloc(&b, kBytes, ACL_MEM_MALLOC_HUGE_FIRST));
  std::vector<unsigned char> back(kBytes);
  for (int round = 1; round <= 3; ++round) {
    OK(aclrtMemsetAsync(a, kBytes, round, kBytes, stream));
    OK(aclrtMemcpyAsync(b, kBytes, a, kBytes, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    OK(aclrtMemcpyAsync(back.data(), kBytes, b, kBytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    OK(aclrtSynchronizeStream(stream));
    EXPECT(back.front() == round && back[kBytes / 2] == round && back.back() == round);
  }
  OK(aclrtFree(a));
  OK(aclrtFree(b));
  OK(aclrtDestroyStream(stream));
}

// Many threads on shared and own streams: nothing is lost, order holds per thread.
TEST(stream_stress) {
  constexpr int kThreads = 8, kStreams = 3, kTasks = 1500;
  std::vector<aclrtStream> streams;
  for (int i = 0; i < kStreams; ++i) streams.push_back(new_stream());
  std::atomic<int> total{0}, disorder{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      OK(aclrtSetDevice(0));
      aclrtStream own = nullptr;
      OK(aclrtCreateStream(&own));
      std::vector<int> last(kStreams, -1);
      for (int i = 0; i < kTasks; ++i) {
        const size_t s = static_cast<size_t>(i * 7 + t) % kStreams;
        push(
            streams[s],
            [&, s, i](bool) {
              if (last[s] >= i) ++disorder;
              last[s] = i;
              ++total;
              return 0;
            },
            i % 3 == 0 ? softcann::kNeverInline : 5);
        push(
            own,
            [&](bool) {
              ++total;
              return 0;
            },
            i % 5 == 0 ? softcann::kNeverInline : 5);
        if (i % 97 == 0) OK(aclrtSynchronizeStream(streams[s]));
      }
      for (aclrtStream stream : streams) OK(aclrtSynchronizeStream(stream));
      OK(aclrtDestroyStream(own));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(total.load(), kThreads * kTasks * 2);
  EXPECT_EQ(disorder.load(), 0);
  for (aclrtStream stream : streams) OK(aclrtDestroyStream(stream));
}
