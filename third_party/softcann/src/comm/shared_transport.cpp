#include "comm/shared_transport.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace softcann {
namespace {

constexpr int64_t kSecond = 1000000000;

}  // namespace

SharedTransport::SharedTransport(std::shared_ptr<Mapping> segment, uint32_t rank, uint32_t ranks, char* view, TimeLimits limits)
    : segment_(std::move(segment)),
      control_(segment_->view(), ranks),
      rank_(rank),
      ranks_(ranks),
      all_(ranks == 64 ? UINT64_MAX : (uint64_t{1} << ranks) - 1),
      limits_(limits),
      numbering_(ranks) {
  views_[rank] = view;
  spin_ns_ = static_cast<int64_t>(options().spin_us) * 1000;
  // Whoever spins keeps a CPU from the one it waits for when there are not enough of them.
  if (static_cast<int>(ranks) > usable_cpus()) spin_ns_ = std::min<int64_t>(spin_ns_, 4000);
  brief_ns_ = std::min<int64_t>(spin_ns_, 20000);
}

void SharedTransport::look_after(uint64_t peers, const Operation& operation) {
  HcclResult code = HCCL_SUCCESS;
  const std::string text = trouble(peers, operation, true, &code);
  if (!text.empty()) fail(code, text);
}

HcclResult SharedTransport::attach(Acceptor* acceptor) {
  const Operation joining;
  const int64_t deadline = limits_.connect_s == 0 ? INT64_MAX : now_ns() + limits_.connect_s * kSecond;
  uint64_t absent = others();
  processes_.resize(ranks_);
  const auto too_late = [&](const char* what) {
    if (now_ns() <= deadline) return false;
    fail(HCCL_E_TIMEOUT, standing_still(processes_) + "rank(s) " + list_of(absent) + " of " + std::to_string(ranks_) +
                             " did not " + what + " within " + std::to_string(limits_.connect_s) + " s (HCCL_CONNECT_TIMEOUT)");
    return true;
  };
  // Everybody has joined before anybody is opened, and all are open before anybody goes on.
  for (int64_t pause_us = 50;; pause_us = std::min<int64_t>(pause_us * 2, 2000)) {
    for (uint32_t peer = 0; peer < ranks_; ++peer) {
      if ((absent >> peer & 1) == 0 || control_.state(peer).life.load(std::memory_order_acquire) < RankState::kJoined) continue;
      processes_[peer] = Process::find(control_.state(peer).pid);
      absent &= ~(uint64_t{1} << peer);
    }
    look_after(others() & ~absent, joining);
    if (broken() || absent == 0) break;
    if (acceptor != nullptr && acceptor->has_caller()) control_.header().remote.store(1, std::memory_order_release);
    if (control_.header().remote.load(std::memory_order_acquire) != 0) return HCCL_E_AGAIN;
    if (too_late("join")) break;
    usleep(static_cast<useconds_t>(pause_us));
  }
  if (!broken()) open_peers();
  uint32_t joined = RankState::kJoined;
  control_.state(rank_).life.compare_exchange_strong(joined, RankState::kAttached, std::memory_order_acq_rel);
  absent = others();
  const auto all_attached = [&] {
    for (uint32_t peer = 0; peer < ranks_; ++peer) {
      if (control_.state(peer).life.load(std::memory_order_acquire) >= RankState::kAttached) absent &= ~(uint64_t{1} << peer);
    }
    return absent == 0;
  };
  for (; !broken() && !all_attached() && !too_late("open the others' memory"); usleep(50)) {
    HcclResult code = HCCL_SUCCESS;
    const std::string text = trouble(absent, joining, true, &code);
    // One that has come meanwhile may have left again.
    const uint64_t before = absent;
    if (!text.empty() && !all_attached() && absent == before) fail(code, text);
  }
  std::string text;
  const HcclResult code = failure(&text);
  return code == HCCL_SUCCESS ? code : static_cast<HcclResult>(softcann::fail(code, "%s", text.c_str()));
}

HcclResult SharedTransport::open_peers() {
  processes_.resize(ranks_);
  for (uint32_t peer = 0; peer < ranks_; ++peer) {
    const RankState& state = control_.state(peer);
    if (peer == rank_) continue;
    if (state.pid == control_.state(rank_).pid) {
      DeviceMemory memory;
      device_memory(state.device, &memory);
      views_[peer] = memory.view;
      continue;
    }
    mappings_.push_back(Mapping::open(state.pid, state.memory_fd, state.capacity));
    if (mappings_.back() == nullptr) {
      const std::string text = "rank " + std::to_string(rank_) + " cannot open the device memory of rank " +
                               std::to_string(peer) + " (process " + std::to_string(state.pid) + "): " + std::strerror(errno);
      fail(HCCL_E_REMOTE, text);
      return static_cast<HcclResult>(softcann::fail(HCCL_E_REMOTE, "%s", text.c_str()));
    }
    views_[peer] = mappings_.back()->view();
  }
  return HCCL_SUCCESS;
}

// How long to spin. After spinning in vain it is tried for shorter, as the peer may be waiting for just this CPU, with
// the full time now and then to find out whether that has changed.
int64_t SharedTransport::patience(bool brief) {
  const int64_t full = brief ? brief_ns_ : spin_ns_;
  if (waits_.fetch_add(1, std::memory_order_relaxed) % 32 == 0) return full;
  return full >> impatience_.load(std::memory_order_relaxed);
}

bool SharedTransport::broken() const {
  return left_.load(std::memory_order_relaxed) || broken_.load(std::memory_order_relaxed) || control_.failed();
}

HcclResult SharedTransport::failure(std::string* text) const {
  const Failure& failure = control_.header().failure;
  if (control_.failed()) {
    *text = failure.text;
    return static_cast<HcclResult>(failure.code);
  }
  if (left_.load(std::memory_order_relaxed)) {
    *text = "the communicator was destroyed";
    return HCCL_E_UNAVAIL;
  }
  if (!broken_.load(std::memory_order_acquire)) return HCCL_SUCCESS;
  // Another rank is about to report something, and may never come to it.
  std::lock_guard<std::mutex> lock(mutex_);
  *text = own_text_;
  return own_code_;
}

void SharedTransport::fail(HcclResult code, const std::string& text) {
  std::lock_guard<std::mutex> lock(mutex_);
  control_.fail(code, rank_, text.c_str());
  if (broken_.load(std::memory_order_relaxed)) return;
  own_code_ = code;
  own_text_ = text;
  broken_.store(true, std::memory_order_release);
}

bool SharedTransport::invite(uint64_t key, const void* data, size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (Invitation& invitation : control_.state(rank_).invitations) {
    if (invitation.key.load(std::memory_order_relaxed) != 0) continue;
    std::memcpy(invitation.data, data, bytes);
    invitation.key.store(key, std::memory_order_release);
    return true;
  }
  return false;
}

void SharedTransport::withdraw(uint64_t key) {
  for (Invitation& invitation : control_.state(rank_).invitations) {
    if (invitation.key.load(std::memory_order_relaxed) == key) invitation.key.store(0, std::memory_order_release);
  }
}

bool SharedTransport::invited(uint32_t rank, uint64_t key, void* data, size_t bytes) {
  for (Invitation& invitation : control_.state(rank).invitations) {
    if (invitation.key.load(std::memory_order_acquire) != key) continue;
    std::memcpy(data, invitation.data, bytes);
    return true;
  }
  return false;
}

void SharedTransport::leave() {
  left_.store(true, std::memory_order_seq_cst);
  control_.state(rank_).life.store(RankState::kLeft, std::memory_order_seq_cst);
  control_.wake(rank_, 0);
  control_.ring_all(rank_);
}

aclError SharedTransport::result() const {
  std::string text;
  const HcclResult code = failure(&text);
  task_error("%s", text.c_str());
  return stream_error_of(code);
}

aclError SharedTransport::mismatch(const std::string& text) {
  fail(HCCL_E_PARA, text);
  return result();
}

std::string SharedTransport::trouble(uint64_t missing, const Operation& operation, bool thorough, HcclResult* code) const {
  *code = HCCL_E_REMOTE;
  const std::string what = operation.call.kind == 0
                               ? "the communicator was set up"
                               : describe(operation.call) + " (call " + std::to_string(operation.number) + ") was waiting for it";
  for (uint32_t peer = 0; peer < ranks_; ++peer) {
    if ((missing >> peer & 1) == 0 || peer == rank_) continue;
    const RankState& state = control_.state(peer);
    if (state.life.load(std::memory_order_acquire) == RankState::kLeft) {
      return "rank " + std::to_string(peer) + " has destroyed the communicator while " + what + " in rank " +
             std::to_string(rank_);
    }
    if (thorough && processes_[peer] != nullptr && processes_[peer]->ended()) {
      return "rank " + std::to_string(peer) + " (process " + std::to_string(state.pid) + ") has ended while " + what +
             " in rank " + std::to_string(rank_);
    }
  }
  if (operation.started_ns == 0 || limits_.execute_s == 0) return {};
  if (now_ns() - operation.started_ns < limits_.execute_s * kSecond) return {};
  *code = HCCL_E_TIMEOUT;
  // Who is missing may merely be slow, or wait for another one itself.
  return describe(operation.call) + " (call " + std::to_string(operation.number) + "): " + standing_still(processes_) +
         "rank(s) " + list_of(missing) + " did not come to rank " + std::to_string(rank_) + " within " +
         std::to_string(limits_.execute_s) + " s (HCCL_EXEC_TIMEOUT)";
}

uint32_t SharedTransport::cost(const Operation& operation) const {
  uint64_t bytes = std::max(operation.send.bytes, operation.receive.bytes);
  for (const Message& message : operation.messages) bytes += message.buffer.bytes;
  // 64 bytes a nanosecond is what caches give. What lies in memory takes longer, but then waking a worker on top does
  // not make it faster.
  return static_cast<uint32_t>(std::min<uint64_t>(1000 + bytes / 64, kNeverInline - 1));
}

aclError SharedTransport::run(Operation& operation, bool brief) {
  if (operation.started_ns == 0 && !brief) operation.started_ns = now_ns();
  return operation.messages.empty() ? run_collective(operation, brief) : run_messages(operation, brief);
}

}  // namespace softcann
