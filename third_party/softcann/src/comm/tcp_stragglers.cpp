// Who holds up a communicator. See Note [Who is to blame].
#include <chrono>

#include "comm/tcp_engine.h"
#include "rt/base/sync.h"

namespace softcann {
namespace {

constexpr int64_t kAnswering = 500000000;  // how long a rank has to say what it waits for

}  // namespace

void TcpEngine::answer(Peer& peer, uint64_t question) {
  Frame frame{Frame::kWaiting, 0, question, {}, 0};
  frame.call.count = overdue_;
  for (const Transfers* transfers : waits_) frame.call.count |= not_done(*transfers);
  push_first(peer, frame, "");
}

std::string TcpEngine::why(uint64_t missing) {
  std::unique_lock<std::mutex> lock(mutex_);
  const uint64_t question = ++questions_;
  for (Peer& peer : peers_) {
    if (peer.socket.valid() && !peer.left) push_first(peer, Frame{Frame::kAsk, 0, question, {}, 0}, "");
  }
  wake();
  const auto silent = [&] {
    uint64_t ranks = 0;
    for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
      const Peer& peer = peers_[rank];
      if (peer.socket.valid() && !peer.left && peer.answered < question) ranks |= uint64_t{1} << rank;
    }
    return ranks;
  };
  const int64_t until = now_ns() + kAnswering;
  while (code_ == HCCL_SUCCESS && silent() != 0 && now_ns() < until) changed_.wait_for(lock, std::chrono::milliseconds(20));
  if (const uint64_t ranks = silent(); ranks != 0) return "rank(s) " + list_of(ranks) + " do not answer at all";
  // From those that are missing to those that they wait for, as long as there are any.
  uint64_t seen = 0, idle = 0;
  for (uint64_t next = missing; next != 0;) {
    seen |= next;
    uint64_t after = 0;
    for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
      if ((next >> rank & 1) == 0) continue;
      after |= peers_[rank].waits_for;
      if (peers_[rank].waits_for == 0) idle |= uint64_t{1} << rank;
    }
    next = after & ~seen & ~(uint64_t{1} << rank_);
  }
  // Those that are missing and wait for nobody have been named already.
  return (idle & ~missing) == 0 ? "" : "it waits for rank(s) " + list_of(idle) + ", which have not made their call";
}

}  // namespace softcann
