// Shares of time, from what processes tell of their streams.
#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>

#include "rt/base/process_usage.h"
#include "rt/base/sync.h"

namespace softcann {
namespace {

constexpr int64_t kShortest = 100'000'000, kLongest = 10'000'000'000;

struct Lately {
  std::mutex mutex;
  std::vector<StatusCopy> before, after;
  int64_t after_ns = 0;
};

Lately& lately() {
  static auto* instance = new Lately;
  return *instance;
}

const StatusCopy* find(const std::vector<StatusCopy>& copies, const StatusCopy& wanted) {
  for (const StatusCopy& copy : copies) {
    if (copy.pid == wanted.pid && copy.start_time == wanted.start_time) return &copy;
  }
  return nullptr;
}

}  // namespace

int device_utilization(int physical_device, const std::vector<StatusCopy>& before, const std::vector<StatusCopy>& after) {
  double share = 0;
  for (const StatusCopy& now : after) {
    const StatusCopy* then = find(before, now);
    if (then == nullptr || now.taken <= then->taken) continue;
    uint64_t busy = 0;
    for (int i = 0; i <= ProcessStatus::kStreams; ++i) {
      if (now.streams[i].device != physical_device || now.streams[i].busy < then->streams[i].busy) continue;
      busy += now.streams[i].busy - then->streams[i].busy;
    }
    share += static_cast<double>(busy) / static_cast<double>(now.taken - then->taken);
  }
  return static_cast<int>(std::min(100.0, share * 100 + 0.5));  // streams that computed at the same time count once
}

int recent_utilization(int physical_device) {
  Lately& l = lately();
  std::lock_guard<std::mutex> lock(l.mutex);
  const int64_t age = now_ns() - l.after_ns;
  if (l.after_ns == 0 || age > kLongest) {
    l.before = all_statuses();
    std::this_thread::sleep_for(std::chrono::nanoseconds(kShortest));
  } else if (age >= kShortest) {
    l.before.swap(l.after);
  } else {
    return device_utilization(physical_device, l.before, l.after);
  }
  l.after = all_statuses();
  l.after_ns = now_ns();
  return device_utilization(physical_device, l.before, l.after);
}

}  // namespace softcann
