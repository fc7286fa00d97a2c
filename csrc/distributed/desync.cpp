#include "distributed/desync.h"

#include <sstream>
#include <thread>

#include <c10/util/Logging.h>
#include <c10/util/thread_name.h>

#include "distributed/error.h"

namespace torch_npu::distributed {
namespace {

using namespace std::chrono_literals;

constexpr auto kPeriod = 300ms;
constexpr auto kPeriodWhileAsking = 20ms;
constexpr auto kStoreHangs = 300ms;
constexpr auto kFarewell = 1s;
constexpr char kTrouble[] = "hccl/trouble/timeout";

std::string key_of(int rank) { return "hccl/trouble/rank/" + std::to_string(rank); }
std::string key_of_round(uint64_t round) { return "hccl/trouble/round/" + std::to_string(round); }

// The thread. Never destroyed: it may hang in the store until the process ends.
class Asker {
 public:
  static Asker& instance() {
    static auto* asker = new Asker();
    return *asker;
  }

  void add(std::weak_ptr<DesyncDebugger> debugger) {
    std::lock_guard<std::mutex> lock(mutex_);
    debuggers_.push_back(std::move(debugger));
    if (std::exchange(running_, true)) return;
    ended_ = false;
    thread_ = std::thread([this] { run(); });
  }

  void wake() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      hurry_ = true;
    }
    wake_.notify_all();
  }

  void stop() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!std::exchange(running_, false)) return;
    wake_.notify_all();
    const bool ended = wake_.wait_for(lock, kFarewell, [this] { return ended_; });
    lock.unlock();
    if (ended) {
      thread_.join();
    } else {
      thread_.detach();
    }
  }

 private:
  void run() {
    c10::setThreadName("hccl_desync");
    std::unique_lock<std::mutex> lock(mutex_);
    while (running_) {
      std::erase_if(debuggers_, [](const auto& known) { return known.expired(); });
      const auto debuggers = debuggers_;
      lock.unlock();
      bool asking = false;
      for (const auto& known : debuggers) {
        if (const auto debugger = known.lock()) asking |= debugger->serve();
      }
      lock.lock();
      wake_.wait_for(lock, asking ? kPeriodWhileAsking : kPeriod, [this] { return !running_ || hurry_; });
      hurry_ = false;
    }
    ended_ = true;
    wake_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::weak_ptr<DesyncDebugger>> debuggers_;
  bool running_ = false, hurry_ = false, ended_ = false;
  std::thread thread_;
};

void say(std::string& text, const std::vector<int>& ranks, const std::string& what, const std::string& of_several = {}) {
  if (ranks.empty()) return;
  text += ranks.size() == 1 ? " Rank " : " Ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i ? ", " : "") + std::to_string(ranks[i]);
  text += " " + (ranks.size() > 1 && !of_several.empty() ? of_several : what) + ".";
}

}  // namespace

std::vector<uint8_t> DesyncDebugger::encode(const Progress& progress) {
  std::ostringstream text;
  text << progress.round << " " << progress.enqueued << " " << progress.completed << " " << progress.at << " "
       << progress.operation << "\n"
       << progress.agreement;
  const auto bytes = text.str();
  return {bytes.begin(), bytes.end()};
}

DesyncDebugger::Progress DesyncDebugger::decode(const std::vector<uint8_t>& bytes) {
  Progress progress;
  std::istringstream text(std::string(bytes.begin(), bytes.end()));
  text >> progress.round >> progress.enqueued >> progress.completed >> progress.at;
  std::getline(text >> std::ws, progress.operation);
  std::getline(text, progress.agreement);
  return progress;
}

std::shared_ptr<DesyncDebugger> DesyncDebugger::open(const std::shared_ptr<GroupState>& group) {
  std::shared_ptr<DesyncDebugger> made(new DesyncDebugger(group));
  Asker::instance().add(made);
  return made;
}

void DesyncDebugger::stop() { Asker::instance().stop(); }

DesyncDebugger::DesyncDebugger(const std::shared_ptr<GroupState>& group) : group_(group), answers_(group->size) {}

void DesyncDebugger::ask() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ++wanted_;
  }
  Asker::instance().wake();
}

bool DesyncDebugger::peer_timed_out() {
  std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(peer_timed_out_, false);
}

void DesyncDebugger::publish(GroupState& group) {
  auto at = group.oldest_collective();
  if (!at) at = group.last_operation();
  store_->set(key_of(group.rank), encode({round_, group.collectives.load(), group.completed.load(), at ? at->sequence : 0,
                                          at ? at->describe() : "none", at ? at->agreement() : ""}));
}

bool DesyncDebugger::serve() {
  const auto group = group_.lock();
  if (!group) return false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!broken_.empty()) return false;
    calling_since_ = Clock::now();
  }
  bool asking = false;
  std::string broken;
  try {
    asking = talk(*group);
  } catch (const std::exception& error) {
    broken = text_of(error);  // the rank that kept it has ended, or it gives no second connection
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    calling_since_.reset();
    broken_ = broken;
  }
  changed_.notify_all();
  return asking;
}

bool DesyncDebugger::talk(GroupState& group) {
  if (!store_) store_ = group.store->clone();
  uint64_t wanted = 0;
  bool timed_out = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    wanted = wanted_;
    timed_out = timed_out_ && !std::exchange(told_, timed_out_);
  }
  bool heard = false;
  while (store_->check({key_of_round(round_ + 1)})) {
    ++round_;
    heard = true;
  }
  if (wanted != asked_) {
    store_->set(key_of_round(++round_), std::vector<uint8_t>{1});
    std::lock_guard<std::mutex> lock(mutex_);
    asked_ = wanted;
    own_round_ = round_;
    heard = true;
  }
  if (heard) publish(group);
  if (timed_out) {
    store_->set(kTrouble, std::vector<uint8_t>{1});
    other_seen_ = true;
  }
  if (round_ != 0 && !other_seen_ && store_->check({kTrouble})) {
    std::lock_guard<std::mutex> lock(mutex_);
    peer_timed_out_ = other_seen_ = true;
  }
  if (own_round_ == 0) return false;
  bool missing = false;
  for (int rank = 0; rank < group.size; ++rank) {
    if (rank == group.rank || (answers_[rank] && answers_[rank]->round >= own_round_)) continue;
    missing = true;
    if (!store_->check({key_of(rank)})) continue;
    auto progress = decode(store_->get(key_of(rank)));
    std::lock_guard<std::mutex> lock(mutex_);
    answers_[rank] = std::move(progress);
  }
  return missing;
}

std::string DesyncDebugger::report(const GroupState& group, const Ticket& ticket, Clock::time_point until) {
  std::unique_lock<std::mutex> lock(mutex_);
  timed_out_ = true;
  if (wanted_ == 0) ++wanted_;
  Asker::instance().wake();
  const auto answered = [&] {
    if (!broken_.empty()) return true;
    for (int rank = 0; rank < group.size; ++rank) {
      if (rank != group.rank && (!answers_[rank] || answers_[rank]->round < own_round_)) return false;
    }
    return asked_ == wanted_;
  };
  changed_.wait_until(lock, until, answered);
  if (!broken_.empty()) return " The other ranks could not be asked, the store is gone: " + broken_;
  const bool hangs = calling_since_ && Clock::now() - *calling_since_ > kStoreHangs;
  if (ticket.point_to_point()) return {};
  std::vector<int> silent, late, other, same, ahead;
  std::string others;
  for (int member = 0; member < group.size; ++member) {
    if (member == group.rank) continue;
    const int rank = group.global_rank(member);
    if (!answers_[member]) {
      silent.push_back(rank);
      continue;
    }
    const auto& progress = *answers_[member];
    if (progress.enqueued < ticket.sequence) {
      late.push_back(rank);
      others += " Rank " + std::to_string(rank) + " stopped after collective " + std::to_string(progress.enqueued) + ", " +
                progress.operation + ".";
    } else if (progress.at == ticket.sequence && progress.agreement != ticket.agreement()) {
      other.push_back(rank);
      others += " Rank " + std::to_string(rank) + " called " + progress.operation + " instead.";
    } else if (progress.completed >= ticket.sequence) {
      ahead.push_back(rank);
    } else {
      same.push_back(rank);
    }
  }
  if (hangs && static_cast<int>(silent.size()) == group.size - 1) {
    return " The other ranks could not be asked, the store does not answer: its host, usually rank 0, has stopped or cannot be "
           "reached.";
  }
  std::string text;
  say(text, late, "did not arrive");
  say(text, silent, "did not answer (ended, stopped, or its host cannot be reached)");
  say(text, other, "came with another operation");
  say(text, same, "waits too", "wait too");
  say(text, ahead, "has completed it", "have completed it");
  return text + others;
}

}  // namespace torch_npu::distributed
