// Finds out, when a collective hangs, which ranks did not come to it.
//
// Note [Asking the others]
// A call of the store may never return: its host may be the very rank that has stopped. So one thread of each process makes
// all these calls, and the watchdog only looks at what has come of them. A rank whose operation comes near its timeout asks,
// before the time is over, by a key in the group's store; the others look for one three times a second and write down how far
// they have come. Nothing is written while all is well.
#pragma once

#include <condition_variable>
#include <optional>

#include "distributed/group_state.h"

namespace torch_npu::distributed {

class DesyncDebugger {
 public:
  // Served by the thread for as long as the group lives.
  static std::shared_ptr<DesyncDebugger> open(const std::shared_ptr<GroupState>& group);
  // Ends the thread, or leaves it alone where it hangs in the store; to be called before the process ends.
  static void stop();

  // Has the others asked (again). Does not wait.
  void ask();
  // What the other ranks say about the operation that hangs. Waits for their answers, until then.
  std::string report(const GroupState& group, const Ticket& ticket, Clock::time_point until);
  // True once, when another rank has run into a timeout.
  bool peer_timed_out();

  // Used by the thread. True while answers are missing.
  bool serve();

 private:
  struct Progress {
    uint64_t round = 0, enqueued = 0, completed = 0;
    uint64_t at = 0;                   // the sequence number of the oldest collective in flight, or of the last one
    std::string operation, agreement;  // its Ticket::describe() and agreement()
  };

  explicit DesyncDebugger(const std::shared_ptr<GroupState>& group);
  bool talk(GroupState& group);
  void publish(GroupState& group);
  static std::vector<uint8_t> encode(const Progress& progress);
  static Progress decode(const std::vector<uint8_t>& bytes);

  const std::weak_ptr<GroupState> group_;
  // The thread's.
  c10::intrusive_ptr<c10d::Store> store_;  // a connection of its own
  uint64_t round_ = 0;                     // the last question that was seen

  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t wanted_ = 0, asked_ = 0;  // questions of this rank
  uint64_t own_round_ = 0;           // the last one of them
  bool timed_out_ = false, told_ = false;
  bool peer_timed_out_ = false, other_seen_ = false;
  std::vector<std::optional<Progress>> answers_;
  std::string broken_;                              // why the store cannot be used any more
  std::optional<Clock::time_point> calling_since_;  // the store
};

}  // namespace torch_npu::distributed
