// Ranks on one machine: through the control segment and each other's device memory.
#pragma once

#include <sched.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/control.h"
#include "comm/handshake.h"
#include "comm/sequence_numbers.h"
#include "comm/peers.h"
#include "comm/transport.h"
#include "rt/base/sync.h"

namespace softcann {

class SharedTransport : public Transport {
 public:
  // The segment is mapped and this rank has joined; the others' memory is opened by attach(). `view`: where this rank's
  // device memory is.
  SharedTransport(std::shared_ptr<Mapping> segment, uint32_t rank, uint32_t ranks, char* view, TimeLimits limits);

  // Waits until all ranks have joined and opens their memory. An error is recorded; HCCL_E_AGAIN is none, but says that
  // a rank on another machine has called at the acceptor (if this rank has it, or another one said so).
  HcclResult attach(Acceptor* acceptor);
  // The second part alone, for when all are known to have joined.
  HcclResult open_peers();

  void number(Operation& operation) override { numbering_.number(operation); }
  uint32_t cost(const Operation& operation) const override;
  aclError run(Operation& operation, bool brief) override;
  bool invite(uint64_t key, const void* data, size_t bytes) override;
  void withdraw(uint64_t key) override;
  bool invited(uint32_t rank, uint64_t key, void* data, size_t bytes) override;
  void leave() override;
  void fail(HcclResult code, const std::string& text) override;
  HcclResult failure(std::string* text) const override;

  const Control& control() const { return control_; }

 private:
  enum class Outcome { kReady, kLate, kBroken };
  static constexpr int64_t kSlice = 50000000;  // how often a sleeping rank looks after the others, in nanoseconds

  // Calls `missing` until it returns 0; what it returns is the set of ranks that have not come yet. `any`: it is worth
  // waking up for each of them, else only for the last.
  template <class Missing>
  Outcome wait(const Operation& operation, bool brief, bool any, Missing&& missing);
  int64_t patience(bool brief);
  bool broken() const;
  // Why one of `missing` cannot come any more, or that time is up; else empty. Only a thorough look asks the kernel
  // whether processes live.
  std::string trouble(uint64_t missing, const Operation& operation, bool thorough, HcclResult* code) const;
  void look_after(uint64_t peers, const Operation& operation);
  aclError result() const;
  uint64_t others() const { return all_ & ~(uint64_t{1} << rank_); }
  aclError mismatch(const std::string& text);

  // Collectives (shared_collectives.cpp).
  aclError run_collective(Operation& operation, bool brief);
  uint64_t slot_users(uint64_t number);
  bool fits(const Operation& operation) const;
  void post(Operation& operation);
  uint64_t sources(const Operation& operation) const;
  bool check_posts(const Operation& operation, uint64_t peers, bool* direct);
  void check_later(const Operation& operation, uint64_t peers);
  bool check_earlier(uint64_t number);
  aclError differs(const Call& found, uint32_t peer, const Call& call, uint64_t number);
  const char* sent_to_me(const Operation& operation, uint32_t peer, uint64_t* bytes) const;
  void move_data(const Operation& operation);
  void reduce_everywhere(const Operation& operation);
  void reduce_here(const Operation& operation);
  void broadcast(const Operation& operation);
  void gather(const Operation& operation, uint64_t peers);
  void complete(uint64_t number);

  // Messages (shared_messages.cpp).
  aclError run_messages(Operation& operation, bool brief);
  bool advance(Message& message);
  bool advance_send(Message& message, Lane& lane);
  bool advance_receive(Message& message, Lane& lane);
  bool copy_pieces(Message& message, Lane& lane);
  bool check_message(const Call& sent, const Call& wanted, uint32_t from, uint32_t to);

  const std::shared_ptr<Mapping> segment_;
  Control control_;
  const uint32_t rank_, ranks_;
  const uint64_t all_;
  const TimeLimits limits_;
  char* views_[kMaxRanks] = {};
  std::vector<std::shared_ptr<Process>> processes_;
  std::vector<std::shared_ptr<Mapping>> mappings_;
  int64_t brief_ns_ = 0, spin_ns_ = 0;
  std::atomic<uint32_t> impatience_{0}, waits_{0};

  mutable std::mutex mutex_;
  HcclResult own_code_ = HCCL_SUCCESS;  // what this rank found wrong
  std::string own_text_;
  std::atomic<bool> left_{false}, broken_{false};
  Numbering numbering_;
  std::atomic<uint64_t> known_completed_{0};  // by all
  // This rank's completed numbers; they can end out of order on different streams.
  std::atomic_flag completing_ = ATOMIC_FLAG_INIT;
  uint64_t finished_[kSlots] = {};
  uint64_t completed_ = 0;
  // Calls that have ended without having seen what `peers` call.
  struct Unchecked {
    uint64_t number, peers;
    Call call;
  };
  std::mutex unchecked_mutex_;
  std::vector<Unchecked> unchecked_;
  std::atomic<bool> has_unchecked_{false};
};

template <class Missing>
SharedTransport::Outcome SharedTransport::wait(const Operation& operation, bool brief, bool any, Missing&& missing) {
  if (missing() == 0) return Outcome::kReady;
  const int64_t start = now_ns(), budget = patience(brief);
  for (int round = 0;; ++round) {
    for (int i = 0; i < 24; ++i) {
      cpu_relax();
      if (missing() == 0) {
        impatience_.store(0, std::memory_order_relaxed);
        return Outcome::kReady;
      }
    }
    if (broken()) return Outcome::kBroken;
    if (now_ns() - start >= budget) break;
    // The first microseconds without a system call: most peers come at about the same time.
    if (round >= 4) sched_yield();
  }
  impatience_.store(std::min(impatience_.load(std::memory_order_relaxed) + 1, 4U), std::memory_order_relaxed);
  if (brief) return Outcome::kLate;
  RankState& own = control_.state(rank_);
  for (int64_t last_look = start;;) {
    const uint32_t heard = own.bell.load(std::memory_order_acquire);
    const uint64_t wanted = missing(), asked = any ? wanted : wanted & -wanted;
    own.wanted.fetch_or(asked, std::memory_order_seq_cst);
    const uint64_t absent = missing();
    if (absent == 0) return Outcome::kReady;
    if ((absent & asked) == 0) continue;  // the one asked has come just now; another one has to be asked
    if (broken()) return Outcome::kBroken;
    const int64_t now = now_ns();
    const bool thorough = now - last_look >= kSlice;
    if (thorough) last_look = now;
    HcclResult code = HCCL_SUCCESS;
    const std::string text = trouble(absent, operation, thorough, &code);
    if (!text.empty()) {
      // It may have come just before it went.
      const uint64_t still = missing();
      if (still == 0) return Outcome::kReady;
      if ((still & absent) == absent) fail(code, text);
      continue;
    }
    futex_wait(&own.bell, heard, kSlice, true);
  }
}

}  // namespace softcann
