#include "distributed/watchdog.h"

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <future>
#include <thread>

#include <c10/util/Logging.h>
#include <c10/util/thread_name.h>

#include "core/options.h"
#include "core/thread_annotations.h"
#include "distributed/desync.h"

namespace torch_npu::distributed {
namespace {

using namespace std::chrono_literals;

constexpr auto kPeriod = 100ms;
constexpr auto kDesyncPeriod = 1s;
constexpr auto kPatienceForStacks = 3s;

enum ErrorHandling : int64_t { kReportOnly = 0, kAbort = 1, kTearDown = 3 };

void write_dump(int global_rank, const std::string& when) {
  if (!core::options().hccl_dump_on_timeout || FlightRecorder::instance().capacity() == 0) return;
  const auto path = dump_flight_recorder(global_rank, core::options().hccl_trace_stacks);
  if (!path.empty()) LOG(ERROR) << "[hccl] " << when << "; the flight recorder was written to " << path;
}

int global_rank(const GroupState& group) {
  const auto& ranks = group.recorded->ranks;
  return static_cast<size_t>(group.rank) < ranks.size() ? static_cast<int>(ranks[group.rank]) : group.rank;
}

class Watchdog {
 public:
  static Watchdog& instance() {
    static auto* watchdog = new Watchdog();
    return *watchdog;
  }

  void add(std::shared_ptr<GroupState> group) {
    {
      const core::MutexLock lock(known_mutex_);
      std::erase_if(known_, [](const auto& known) { return known.expired(); });
      known_.push_back(group);
    }
    const core::MutexLock lock(mutex_);
    groups_.push_back({std::move(group), Clock::now(), nullptr});
    if (!running_) start();
  }

  void remove(const std::shared_ptr<GroupState>& group) {
    const core::MutexLock lock(mutex_);
    std::erase_if(groups_, [&](const Watched& watched) { return watched.group == group; });
  }

  // Does not need the watchdog's lock, which it may hold in a call that hangs.
  void sweep() {
    std::vector<std::weak_ptr<GroupState>> groups;
    {
      const core::MutexLock lock(known_mutex_);
      groups = known_;
    }
    for (const auto& known : groups) {
      const auto group = known.lock();
      if (!group || group->failed()) continue;
      try {
        group->sweep(true);
      } catch (const std::exception&) {
        // The watchdog meets the same error and fails the group with it.
      }
    }
  }

  void stop() {
    {
      const core::MutexLock lock(mutex_);
      if (!running_) return;
      running_ = false;
    }
    wake_.notify_all();
    wake_monitor_.notify_all();
    thread_.join();
    if (monitor_.joinable()) monitor_.join();
  }

 private:
  struct Watched {
    std::shared_ptr<GroupState> group;
    Clock::time_point last_desync_check;
    std::unique_ptr<DesyncDebugger> desync;
  };

  void start() NPU_REQUIRES(mutex_) {
    if (thread_.joinable()) thread_.join();
    running_ = true;
    thread_ = std::thread([this] { run(); });
    if (core::options().hccl_enable_monitoring && core::options().hccl_heartbeat_timeout_sec > 0) {
      if (monitor_.joinable()) monitor_.join();
      monitor_ = std::thread([this] { monitor(); });
    }
  }

  void run() {
    c10::setThreadName("hccl_watchdog");
    core::MutexLock lock(mutex_);
    while (running_) {
      for (auto& watched : groups_) {
        beat_.fetch_add(1);
        look_at(watched);
      }
      beat_.fetch_add(1);
      wake_.wait_for(lock.native(), kPeriod, [this] { return !running_; });
    }
  }

  // A watchdog that hangs (in a broken driver, say) protects nobody: end the process, as a supervisor can see that.
  void monitor() {
    c10::setThreadName("hccl_monitor");
    const auto patience = std::chrono::seconds(core::options().hccl_heartbeat_timeout_sec);
    auto seen = beat_.load();
    auto since = Clock::now();
    std::mutex own;
    std::unique_lock<std::mutex> lock(own);
    while (running_) {
      wake_monitor_.wait_for(lock, kPeriod);
      if (const auto now = beat_.load(); now != seen) {
        seen = now;
        since = Clock::now();
      } else if (Clock::now() - since > patience) {
        LOG(ERROR) << "[hccl] the watchdog has not moved for " << patience.count()
                   << " s (TORCH_HCCL_HEARTBEAT_TIMEOUT_SEC): a call to the device or the store hangs. Ending the process.";
        std::abort();
      }
    }
  }

  void look_at(Watched& watched) {
    auto& group = *watched.group;
    if (group.failed()) return;
    try {
      group.sweep(true);
    } catch (const std::exception& error) {
      fail(watched, std::string("the device reports an error: ") + error.what(), group.oldest());
      return;
    }
    for (const auto& communicator : group.communicators()) {
      if (const auto error = communicator->async_error()) {
        fail(watched, *error, group.oldest());
        return;
      }
    }
    const auto now = Clock::now();
    if (const auto ticket = group.overdue(now)) {
      time_out(watched, *ticket, now);
      return;
    }
    if (now - watched.last_desync_check > kDesyncPeriod) {
      watched.last_desync_check = now;
      if (auto* desync = debugger(watched)) {
        if (desync->answer(group)) write_dump(global_rank(group), "another rank is in trouble");
      }
    }
  }

  DesyncDebugger* debugger(Watched& watched) {
    if (!core::options().hccl_desync_debug || watched.group->size == 1) return nullptr;
    if (!watched.desync) watched.desync = std::make_unique<DesyncDebugger>(*watched.group);
    return watched.desync.get();
  }

  void time_out(Watched& watched, Ticket& ticket, Clock::time_point now) {
    auto& group = *watched.group;
    group.reported = true;
    const auto ran = std::chrono::duration_cast<std::chrono::milliseconds>(now - ticket.enqueued).count();
    const auto timeout = ticket.operation.timeout.count() >= 0 ? ticket.operation.timeout.count() : group.timeout_ms.load();
    auto message =
        c10::str(ticket.describe(), ", sequence number ", ticket.sequence, ", ran into its timeout: ", ran, " ms of ", timeout,
                 " ms. Enqueued last: collective ", group.collectives.load(), ", completed last: ", group.completed.load(), ".");
    if (auto* desync = debugger(watched)) message += desync->report(group, ticket);
    if (core::options().hccl_async_error_handling == kReportOnly) {
      LOG(ERROR) << "[hccl] [rank " << global_rank(group) << ", group " << group.recorded->name << "] " << message;
      ticket.enqueued = now;  // to be reported again after another timeout
      group.reported = false;
      return;
    }
    fail(watched, message, nullptr);
  }

  void fail(Watched& watched, std::string message, const std::shared_ptr<Ticket>& ticket) {
    auto& group = *watched.group;
    if (ticket) message = c10::str(ticket->describe(), ", sequence number ", ticket->sequence, ": ", message);
    message = c10::str("[rank ", global_rank(group), ", group ", group.recorded->name, "] ", message);
    LOG(ERROR) << "[hccl] " << message;
    write_dump(global_rank(group), "after this error");
    const auto handling = core::options().hccl_async_error_handling;
    group.fail(message, true);
    if (handling == kTearDown) {
      LOG(ERROR) << "[hccl] ending the process, as TORCH_HCCL_ASYNC_ERROR_HANDLING=3 asks";
      std::abort();
    }
  }

  core::Mutex mutex_;
  std::condition_variable wake_, wake_monitor_;
  std::vector<Watched> groups_ NPU_GUARDED_BY(mutex_);
  core::Mutex known_mutex_;
  std::vector<std::weak_ptr<GroupState>> known_ NPU_GUARDED_BY(known_mutex_);
  std::atomic<bool> running_{false};
  std::atomic<uint64_t> beat_{0};
  std::thread thread_, monitor_;
};

}  // namespace

void watch(std::shared_ptr<GroupState> group) { Watchdog::instance().add(std::move(group)); }
void unwatch(const std::shared_ptr<GroupState>& group) { Watchdog::instance().remove(group); }
void sweep_groups() { Watchdog::instance().sweep(); }
void stop_watchdog() { Watchdog::instance().stop(); }

std::string dump_flight_recorder(int global_rank, bool stacks) {
  const auto path = core::options().hccl_debug_info_file + std::to_string(global_rank);
  std::string text;
  if (stacks) {
    // Names of Python frames need the GIL, which a hanging thread may hold.
    auto named = std::make_shared<std::promise<std::string>>();
    auto future = named->get_future();
    std::thread([named] { named->set_value(FlightRecorder::instance().pickle({})); }).detach();
    if (future.wait_for(kPatienceForStacks) == std::future_status::ready) text = future.get();
  }
  if (text.empty()) text = FlightRecorder::instance().pickle({true, false, false});
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (file) return path;
  LOG(ERROR) << "[hccl] the flight recorder could not be written to " << path;
  return {};
}

}  // namespace torch_npu::distributed
