#include "distributed/desync.h"

#include <sstream>
#include <thread>

#include <c10/util/Logging.h>

namespace torch_npu::distributed {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 10s;  // others answer once a second, where they get to run
constexpr char kFlag[] = "hccl/trouble/flag";

std::string key_of(int rank) { return "hccl/trouble/rank/" + std::to_string(rank); }

struct Progress {
  uint64_t enqueued = 0, completed = 0;
  std::string operation, agreement;  // Ticket::describe() and agreement()
};

std::vector<uint8_t> encode(const Progress& progress) {
  const auto text = std::to_string(progress.enqueued) + " " + std::to_string(progress.completed) + " " + progress.operation +
                    "\n" + progress.agreement;
  return {text.begin(), text.end()};
}

Progress decode(const std::vector<uint8_t>& bytes) {
  Progress progress;
  std::istringstream text(std::string(bytes.begin(), bytes.end()));
  text >> progress.enqueued >> progress.completed;
  std::getline(text >> std::ws, progress.operation);
  std::getline(text, progress.agreement);
  return progress;
}

void say(std::string& text, const std::vector<int>& ranks, const std::string& what, const std::string& of_several = {}) {
  if (ranks.empty()) return;
  text += ranks.size() == 1 ? " Rank " : " Ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i ? ", " : "") + std::to_string(ranks[i]);
  text += " " + (ranks.size() > 1 && !of_several.empty() ? of_several : what) + ".";
}

}  // namespace

DesyncDebugger::DesyncDebugger(GroupState& group) {
  try {
    store_ = group.store->clone();
  } catch (const std::exception& error) {
    LOG(WARNING) << "[hccl] hanging collectives cannot be explained, the store gives no second connection: " << error.what();
  }
}

void DesyncDebugger::publish(GroupState& group) {
  const auto last = group.last_operation();
  store_->set(key_of(group.rank), encode({group.collectives.load(), group.completed.load(), last ? last->describe() : "none",
                                          last ? last->agreement() : ""}));
}

bool DesyncDebugger::answer(GroupState& group) {
  if (!store_ || answered_) return false;
  try {
    if (!store_->check({kFlag})) return false;
    publish(group);
  } catch (const std::exception&) {
    store_.reset();  // the rank that kept it has ended
    return false;
  }
  answered_ = true;
  return true;
}

std::string DesyncDebugger::report(GroupState& group, const Ticket& ticket) {
  if (!store_) return {};
  std::vector<int> silent, late, other, same, ahead;
  std::string others;
  try {
    publish(group);
    answered_ = true;
    store_->set(kFlag, std::vector<uint8_t>{1});
    const auto until = Clock::now() + kPatience;
    for (int rank = 0; rank < group.size; ++rank) {
      if (rank == group.rank) continue;
      while (!store_->check({key_of(rank)}) && Clock::now() < until) std::this_thread::sleep_for(50ms);
      if (!store_->check({key_of(rank)})) {
        silent.push_back(rank);
        continue;
      }
      const auto progress = decode(store_->get(key_of(rank)));
      if (progress.enqueued < ticket.sequence) {
        late.push_back(rank);
        others += " Rank " + std::to_string(rank) + " stopped after collective " + std::to_string(progress.enqueued) + ", " +
                  progress.operation + ".";
      } else if (progress.enqueued == ticket.sequence && progress.agreement != ticket.agreement()) {
        other.push_back(rank);
        others += " Rank " + std::to_string(rank) + " called " + progress.operation + " instead.";
      } else if (progress.completed >= ticket.sequence) {
        ahead.push_back(rank);
      } else {
        same.push_back(rank);
      }
    }
  } catch (const std::exception& error) {
    store_.reset();
    return std::string(" The other ranks could not be asked, the store is gone: ") + error.what();
  }
  if (ticket.point_to_point()) return {};
  std::string text;
  say(text, late, "did not arrive");
  say(text, silent, "did not answer (ended, stopped, or its host cannot be reached)");
  say(text, other, "came with another operation");
  say(text, same, "waits too", "wait too");
  say(text, ahead, "has completed it", "have completed it");
  return text + others;
}

}  // namespace torch_npu::distributed
