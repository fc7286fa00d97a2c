#include "distributed/watchdog.h"

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <future>
#include <optional>
#include <thread>

#include <c10/util/Logging.h>
#include <c10/util/thread_name.h>

#include "acl/acl.h"
#include "core/error_context.h"
#include "core/options.h"
#include "core/thread_annotations.h"
#include "distributed/desync.h"
#include "distributed/error.h"
#include "distributed/private_file.h"

namespace torch_npu::distributed {
namespace {

using namespace std::chrono_literals;

constexpr auto kPeriod = 100ms;
constexpr auto kPatienceForAnswers = 600ms;
constexpr auto kPatienceForStacks = 300ms;

enum ErrorHandling : int64_t { kReportOnly = 0, kAbort = 1, kTearDown = 3 };

void write_dump(int global_rank, const std::string& when) {
  if (!core::options().hccl_dump_on_timeout || FlightRecorder::instance().capacity() == 0) return;
  const auto path = dump_flight_recorder(global_rank, core::options().hccl_trace_stacks);
  if (!path.empty()) LOG(ERROR) << "[hccl] " << when << "; the flight recorder was written to " << path;
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
    groups_.push_back({std::move(group), nullptr, nullptr, 0});
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

  // What the groups of this process have to say to a device error: those that have most to do with it.
  std::string explain() {
    std::vector<std::weak_ptr<GroupState>> groups;
    {
      const core::MutexLock lock(known_mutex_);
      groups = known_;
    }
    std::string text;
    auto most = GroupState::Explanation::kNone;
    for (const auto& known : groups) {
      const auto group = known.lock();
      const auto own = group ? group->explain() : GroupState::Explanation();
      if (own.text.empty() || own.weight < most) continue;
      if (own.weight > most) text.clear();
      most = own.weight;
      text += "\n" + own.text;
    }
    return text;
  }

  void keep_status(StatusFile file) {
    const core::MutexLock lock(mutex_);
    status_ = std::move(file);
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
    std::shared_ptr<DesyncDebugger> desync;
    std::shared_ptr<Ticket> doubtful;  // the operation that the other ranks were last asked about
    int questions = 0;                 // and how often
  };

  void start() NPU_REQUIRES(mutex_) {
    core::explain_device_errors_with([] { return instance().explain(); });
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
    // What it asks the device is not to break a capture of another thread.
    auto mode = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
    if (acl::aclmdlRICaptureThreadExchangeMode.available()) acl::aclmdlRICaptureThreadExchangeMode(&mode);
    core::MutexLock lock(mutex_);
    while (running_) {
      for (auto& watched : groups_) {
        beat_.fetch_add(1);
        look_at(watched);
      }
      beat_.fetch_add(1);
      if (const auto now = Clock::now(); status_ && now - status_written_ >= status_->interval) save_status();
      wake_.wait_for(lock.native(), kPeriod, [this] { return !running_; });
    }
  }

  void save_status() NPU_REQUIRES(mutex_) {
    std::vector<std::shared_ptr<GroupState>> groups;
    for (const auto& watched : groups_) groups.push_back(watched.group);
    write_status(*status_, groups, status_error_);
    status_written_ = Clock::now();
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

  void look_at(Watched& watched) NPU_REQUIRES(mutex_) {
    auto& group = *watched.group;
    if (group.failed() || !group.watched) return;
    // First: a collective that failed has ended, too, and is not to be taken for one that has run.
    for (const auto& communicator : group.communicators()) {
      if (const auto error = communicator->async_error()) {
        fail(watched, error->text, error->kind, group.oldest());
        return;
      }
    }
    try {
      group.sweep(true);
    } catch (const std::exception& error) {
      fail(watched, "the device reports an error: " + text_of(error), c10d::ErrorType::COMM_ERROR, group.oldest());
      return;
    }
    const auto now = Clock::now();
    if (const auto ticket = group.overdue(now)) {
      time_out(watched, *ticket, now);
      return;
    }
    auto* desync = debugger(watched);
    if (!desync) return;
    ask_in_time(watched, now);
    if (desync->peer_timed_out()) write_dump(group.global_rank(), "another rank is in trouble");
  }

  DesyncDebugger* debugger(Watched& watched) {
    if (!core::options().hccl_desync_debug || watched.group->size == 1) return nullptr;
    if (!watched.desync) watched.desync = DesyncDebugger::open(watched.group);
    return watched.desync.get();
  }

  // Twice before an operation's time is over, so that fresh answers are there when it is.
  static void ask_in_time(Watched& watched, Clock::time_point now) {
    const auto ticket = watched.group->oldest();
    if (!ticket) return;
    const auto timeout = watched.group->timeout_of(*ticket);
    const auto elapsed = now - ticket->enqueued;
    const auto share = [&](int quarters, std::chrono::milliseconds before) {
      return std::max(timeout * quarters / 4, timeout - before);
    };
    const int questions = elapsed > share(3, 1s) ? 2 : elapsed > share(2, 3s) ? 1 : 0;
    if (ticket != watched.doubtful) {
      watched.doubtful = ticket;
      watched.questions = 0;
    }
    if (questions <= watched.questions) return;
    watched.questions = questions;
    watched.desync->ask();
  }

  void time_out(Watched& watched, Ticket& ticket, Clock::time_point now) NPU_REQUIRES(mutex_) {
    auto& group = *watched.group;
    group.reported = true;
    auto* desync = debugger(watched);
    const auto report = desync ? desync->report(group, ticket, now + kPatienceForAnswers) : std::string();
    const auto message =
        c10::str(ticket.describe(), ", sequence number ", ticket.sequence, ", ran into its timeout of ",
                 group.timeout_of(ticket).count(), " ms: it has waited for ", ticket.seconds(Clock::now()), " s.", report,
                 " Enqueued last: collective ", group.collectives.load(), ", completed last: ", group.completed.load(), ".");
    if (core::options().hccl_async_error_handling == kReportOnly) {
      LOG(ERROR) << "[hccl] " << group.title() << message;
      ticket.enqueued = now;  // to be reported again after another timeout
      group.reported = false;
      return;
    }
    fail(watched, message, c10d::ErrorType::TIMEOUT, nullptr);
  }

  void fail(Watched& watched, std::string message, c10d::ErrorType kind, std::shared_ptr<Ticket> ticket) NPU_REQUIRES(mutex_) {
    auto& group = *watched.group;
    if (!ticket && kind != c10d::ErrorType::TIMEOUT) ticket = group.last_operation();
    if (ticket) {
      message = c10::str(ticket->describe(), ", sequence number ", ticket->sequence, ", failed after ",
                         ticket->seconds(Clock::now()), " s: ", message);
    }
    message = group.title() + message;
    LOG(ERROR) << "[hccl] " << message;
    write_dump(group.global_rank(), "after this error");
    status_error_ = message;
    if (status_) save_status();
    const auto handling = core::options().hccl_async_error_handling;
    group.fail(message, kind, true);
    if (handling == kTearDown) {
      LOG(ERROR) << "[hccl] ending the process, as TORCH_HCCL_ASYNC_ERROR_HANDLING=3 asks";
      std::abort();
    }
  }

  core::Mutex mutex_;
  std::condition_variable wake_, wake_monitor_;
  std::vector<Watched> groups_ NPU_GUARDED_BY(mutex_);
  std::optional<StatusFile> status_ NPU_GUARDED_BY(mutex_);
  std::string status_error_ NPU_GUARDED_BY(mutex_);
  Clock::time_point status_written_ NPU_GUARDED_BY(mutex_);
  core::Mutex known_mutex_;
  std::vector<std::weak_ptr<GroupState>> known_ NPU_GUARDED_BY(known_mutex_);
  std::atomic<bool> running_{false};
  std::atomic<uint64_t> beat_{0};
  std::thread thread_, monitor_;
};

}  // namespace

void watch(std::shared_ptr<GroupState> group) { Watchdog::instance().add(std::move(group)); }
void unwatch(const std::shared_ptr<GroupState>& group) { Watchdog::instance().remove(group); }
void keep_status(StatusFile file) { Watchdog::instance().keep_status(std::move(file)); }
void sweep_groups() { Watchdog::instance().sweep(); }
void stop_watchdog() {
  Watchdog::instance().stop();
  DesyncDebugger::stop();
}

std::string dump_flight_recorder(int global_rank, bool stacks) {
  const auto write = core::options().hccl_trace_pickle ? &FlightRecorder::pickle : &FlightRecorder::json;
  std::string text;
  if (stacks) {
    // Names of Python frames need the GIL, which a hanging thread may hold.
    auto named = std::make_shared<std::promise<std::string>>();
    auto future = named->get_future();
    std::thread([named, write] { named->set_value((FlightRecorder::instance().*write)({})); }).detach();
    if (future.wait_for(kPatienceForStacks) == std::future_status::ready) text = future.get();
  }
  if (text.empty()) text = (FlightRecorder::instance().*write)({true, false, false});
  return write_private_file(core::options().hccl_debug_info_file,
                            std::to_string(global_rank) + (core::options().hccl_trace_pickle ? "" : ".json"), text);
}

}  // namespace torch_npu::distributed
