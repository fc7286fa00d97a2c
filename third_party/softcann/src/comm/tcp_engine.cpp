#include "comm/tcp_engine.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>

#include "rt/base/sync.h"

namespace softcann {
namespace {

constexpr int64_t kFarewell = 5000000000;          // how long a rank that leaves tries to send what is left
constexpr uint64_t kMostData = uint64_t{1} << 44;  // of one frame: more than any device has
constexpr uint64_t kMostText = 4096;
constexpr uint64_t kFirstRoom = 1 << 20;
constexpr int64_t kTelling = 400000000;  // how long a failure is kept back until the others have been told

}  // namespace

bool Frame::plausible() const {
  switch (type) {
    case kCollective:
    case kMessage:
      return bytes <= kMostData;
    case kInvite:
      return bytes <= kMostText;
    case kFailure:  // a failure without a code would break nothing, and be told round and round
      return bytes <= kMostText && number != HCCL_SUCCESS && number < HCCL_E_RESERVED;
    case kWithdraw:
    case kLeave:
    case kReady:
    case kAsk:
    case kWaiting:
      return bytes == 0;
    default:
      return false;
  }
}

TcpEngine::TcpEngine(uint32_t rank, std::vector<Socket> sockets)
    : rank_(rank), peers_(sockets.size()), invitations_(sockets.size()), wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  for (size_t i = 0; i < sockets.size(); ++i) {
    peers_[i].socket = std::move(sockets[i]);
    if (!peers_[i].socket.valid()) continue;
    peers_[i].address = peers_[i].socket.peer();
    peers_[i].socket.set_nonblocking();
  }
  thread_ = std::thread([this] { serve(); });
}

TcpEngine::~TcpEngine() {
  leave();
  thread_.join();
}

void TcpEngine::wake() {
  const uint64_t one = 1;
  if (write(wake_fd_.fd(), &one, sizeof one) < 0) return;  // full: it is awake already
}

std::shared_ptr<TcpEngine::Transfer> TcpEngine::send(uint32_t peer, const Frame& frame, const char* data) {
  auto transfer = std::make_shared<Transfer>();
  transfer->frame = frame;
  transfer->data = const_cast<char*>(data);
  std::lock_guard<std::mutex> lock(mutex_);
  if (peer == rank_) {
    transfer->done = true;
    deliver(peers_[peer], frame, data);
    return transfer;
  }
  peers_[peer].outgoing.push_back(transfer);
  // Most of it usually fits into the socket, without the thread.
  if (peers_[peer].outgoing.size() == 1 && peers_[peer].socket.valid()) write_to(peers_[peer]);
  if (!transfer->done) wake();
  return transfer;
}

std::shared_ptr<TcpEngine::Transfer> TcpEngine::expect(uint32_t peer, const Frame& frame, char* data) {
  std::lock_guard<std::mutex> lock(mutex_);
  Peer& from = peers_[peer];
  const auto is_it = [&](const std::shared_ptr<Transfer>& early) { return same(early->frame, frame); };
  const auto early = std::find_if(from.unexpected.begin(), from.unexpected.end(), is_it);
  if (early != from.unexpected.end()) {
    std::shared_ptr<Transfer> transfer = *early;
    from.unexpected.erase(early);
    if (transfer->frame.bytes == frame.bytes && frame.bytes != 0) std::memcpy(data, transfer->own.data(), frame.bytes);
    return transfer;
  }
  auto transfer = std::make_shared<Transfer>();
  transfer->frame = frame;
  transfer->data = data;
  from.expected.push_back(transfer);
  return transfer;
}

bool TcpEngine::left_over(const std::map<uint64_t, Call>& ended, uint32_t* peer, Frame* frame) {
  std::lock_guard<std::mutex> lock(mutex_);
  bool found = false;
  for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
    for (const std::shared_ptr<Transfer>& early : peers_[rank].unexpected) {
      const Frame& kept = early->frame;
      if (kept.type != Frame::kCollective || (found && kept.number >= frame->number) || ended.count(kept.number) == 0) continue;
      found = true;
      *peer = rank;
      *frame = kept;
    }
  }
  return found;
}

bool TcpEngine::wait(const Transfers& transfers, int64_t deadline_ns, uint64_t* missing) {
  std::unique_lock<std::mutex> lock(mutex_);
  waits_.push_back(&transfers);
  const bool came = wait_locked(transfers, deadline_ns, missing, lock);
  if (!came) overdue_ |= *missing;
  waits_.erase(std::find(waits_.begin(), waits_.end(), &transfers));
  for (size_t i = 0; i < transfers.size() && !came; ++i) cancel(transfers[i].first, transfers[i].second, lock);
  return came;
}

// The buffers of a transfer that is not done are somebody else's soon.
void TcpEngine::cancel(uint32_t rank, const std::shared_ptr<Transfer>& transfer, std::unique_lock<std::mutex>& lock) {
  if (transfer->done) return;
  Peer& peer = peers_[rank];
  peer.expected.erase(std::remove(peer.expected.begin(), peer.expected.end(), transfer), peer.expected.end());
  changed_.wait(lock, [&] { return !peer.reading || peer.incoming != transfer; });
  if (transfer->done) return;
  if (peer.incoming == transfer) {
    // Else it is the engine's already.
    if (transfer->own.empty()) transfer->own.resize(transfer->frame.bytes);
  } else if (transfer->own.empty()) {
    transfer->own.assign(transfer->data, transfer->data + transfer->frame.bytes);
  }
  transfer->data = transfer->own.data();
}

uint64_t TcpEngine::not_done(const Transfers& transfers) const {
  uint64_t peers = 0;
  for (const auto& [peer, transfer] : transfers) peers |= uint64_t{!transfer->done} << peer;
  return peers;
}

bool TcpEngine::wait_locked(const Transfers& transfers, int64_t deadline_ns, uint64_t* missing,
                            std::unique_lock<std::mutex>& lock) {
  for (const auto& [peer, transfer] : transfers) {
    while (!transfer->done) {
      if (broken_) return false;
      // It reads no more, and what it had sent before has been read before.
      *missing = uint64_t{1} << peer;
      if (peers_[peer].left) return false;
      *missing = not_done(transfers);
      if (now_ns() > deadline_ns) return false;
      changed_.wait_for(lock, std::chrono::milliseconds(100));
    }
  }
  return true;
}

void TcpEngine::push_first(Peer& peer, const Frame& frame, const std::string& text) {
  auto made = std::make_shared<Transfer>();
  made->own.assign(text.begin(), text.end());
  made->data = made->own.data();
  made->frame = frame;
  made->frame.bytes = text.size();
  const bool begun = !peer.outgoing.empty() && peer.outgoing.front()->moved != 0;
  peer.outgoing.insert(peer.outgoing.begin() + begun, std::move(made));
}

void TcpEngine::fail(HcclResult code, const std::string& text) {
  std::unique_lock<std::mutex> lock(mutex_);
  fail_locked(code, text);
  changed_.wait(lock, [&] { return broken_.load(); });
}

void TcpEngine::fail_locked(HcclResult code, const std::string& whole) {
  if (code_ != HCCL_SUCCESS) return;
  code_ = code;
  text_ = whole.substr(0, kMostText);
  publish_by_ns_ = now_ns() + kTelling;
  for (Peer& peer : peers_) {
    if (!peer.socket.valid() || peer.left) continue;
    push_first(peer, Frame{Frame::kFailure, 0, static_cast<uint64_t>(code), {}, 0}, text_);
    write_to(peer);  // what is wrong with the connection turns up when it is read
  }
  publish();
  wake();
}

void TcpEngine::publish() {
  if (code_ == HCCL_SUCCESS || broken_) return;
  const auto to_tell = [](const Peer& peer) { return peer.socket.valid() && !peer.left && !peer.outgoing.empty(); };
  if (std::any_of(peers_.begin(), peers_.end(), to_tell) && now_ns() < publish_by_ns_) return;
  broken_.store(true, std::memory_order_release);
  changed_.notify_all();
}

HcclResult TcpEngine::failure(std::string* text) const {
  if (!broken_.load(std::memory_order_acquire)) return HCCL_SUCCESS;
  std::lock_guard<std::mutex> lock(mutex_);
  *text = text_;
  return code_;
}

void TcpEngine::leave() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (stopping_) return;
  stopping_ = true;
  for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
    if (rank == rank_ || !peers_[rank].socket.valid()) continue;
    auto farewell = std::make_shared<Transfer>();
    farewell->frame.type = Frame::kLeave;
    peers_[rank].outgoing.push_back(farewell);
  }
  if (code_ == HCCL_SUCCESS) {
    code_ = HCCL_E_UNAVAIL;
    text_ = "the communicator was destroyed";
  }
  broken_.store(true, std::memory_order_release);
  changed_.notify_all();
  wake();
}

void TcpEngine::invite(const Frame& frame, const void* data, size_t bytes) {
  for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
    if (rank == rank_) continue;
    auto transfer = std::make_shared<Transfer>();
    transfer->own.assign(static_cast<const char*>(data), static_cast<const char*>(data) + bytes);
    transfer->data = transfer->own.data();
    transfer->frame = frame;
    transfer->frame.bytes = bytes;
    std::lock_guard<std::mutex> lock(mutex_);
    peers_[rank].outgoing.push_back(transfer);
  }
  wake();
}

bool TcpEngine::invited(uint32_t rank, uint64_t key, void* data, size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = invitations_[rank].find(key);
  if (found == invitations_[rank].end() || found->second.size() != bytes) return false;
  std::memcpy(data, found->second.data(), bytes);
  return true;
}

// Sends what the socket takes; false when the connection is broken.
bool TcpEngine::write_to(Peer& peer) {
  while (!peer.outgoing.empty()) {
    Transfer& transfer = *peer.outgoing.front();
    const uint64_t total = sizeof(Frame) + transfer.frame.bytes;
    iovec pieces[2];
    int count = 0;
    uint64_t from = transfer.moved;
    if (from < sizeof(Frame)) {
      pieces[count++] = {reinterpret_cast<char*>(&transfer.frame) + from, sizeof(Frame) - from};
      from = sizeof(Frame);
    }
    if (from < total) pieces[count++] = {transfer.data + (from - sizeof(Frame)), total - from};
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = static_cast<size_t>(count);
    const ssize_t sent = sendmsg(peer.socket.fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    transfer.moved += static_cast<uint64_t>(sent);
    if (transfer.moved < total) continue;
    transfer.done = true;
    peer.outgoing.pop_front();
    changed_.notify_all();
  }
  return true;
}

// A header has come: finds out where its data go.
void TcpEngine::start_data(uint32_t rank) {
  Peer& peer = peers_[rank];
  const auto is_it = [&](const std::shared_ptr<Transfer>& transfer) { return same(transfer->frame, peer.header); };
  const auto found = std::find_if(peer.expected.begin(), peer.expected.end(), is_it);
  peer.expected_incoming = found != peer.expected.end();
  if (peer.expected_incoming) {
    peer.incoming = *found;
    peer.expected.erase(found);
  } else {
    peer.incoming = std::make_shared<Transfer>();
  }
  Transfer& transfer = *peer.incoming;
  if (!peer.expected_incoming || transfer.frame.bytes != peer.header.bytes) {
    transfer.own.resize(std::min(peer.header.bytes, kFirstRoom));
    transfer.data = transfer.own.data();
  }
  transfer.frame = peer.header;
  transfer.moved = 0;
}

// For data of which nobody knows yet where they go, or that nobody expects in this size.
void TcpEngine::make_room(Peer& peer) {
  Transfer& transfer = *peer.incoming;
  if (transfer.own.empty() || transfer.moved < transfer.own.size()) return;
  transfer.own.resize(std::min<uint64_t>(peer.header.bytes, 2 * transfer.own.size()));
  transfer.data = transfer.own.data();
}

// Gives data that are here to whoever expects them, or keeps them.
void TcpEngine::deliver(Peer& peer, const Frame& frame, const char* data) {
  const auto is_it = [&](const std::shared_ptr<Transfer>& other) { return same(other->frame, frame); };
  const auto found = std::find_if(peer.expected.begin(), peer.expected.end(), is_it);
  std::shared_ptr<Transfer> transfer;
  if (found != peer.expected.end()) {
    transfer = *found;
    peer.expected.erase(found);
    if (transfer->frame.bytes == frame.bytes && frame.bytes != 0) std::memcpy(transfer->data, data, frame.bytes);
  } else {
    transfer = std::make_shared<Transfer>();
    transfer->own.assign(data, data + frame.bytes);
    peer.unexpected.push_back(transfer);
  }
  transfer->frame = frame;
  transfer->done = true;
  changed_.notify_all();
}

void TcpEngine::finish_data(uint32_t rank) {
  Peer& peer = peers_[rank];
  const std::shared_ptr<Transfer> transfer = std::move(peer.incoming);
  peer.incoming = nullptr;
  peer.header_read = 0;
  transfer->done = true;
  const Frame& frame = transfer->frame;
  switch (frame.type) {
    case Frame::kInvite:
      invitations_[rank][frame.number] = transfer->own;
      break;
    case Frame::kWithdraw:
      invitations_[rank].erase(frame.number);
      break;
    case Frame::kLeave:
      peer.left = true;
      break;
    case Frame::kFailure:
      fail_locked(static_cast<HcclResult>(frame.number), std::string(transfer->own.begin(), transfer->own.end()));
      break;
    case Frame::kAsk:
      answer(peer, frame.number);
      break;
    case Frame::kWaiting:
      peer.answered = frame.number;
      peer.waits_for = frame.call.count;
      break;
    default:
      // It may have become expected while it was being read.
      if (!peer.expected_incoming) deliver(peer, frame, transfer->data);
  }
  changed_.notify_all();
}

void TcpEngine::hang_up(Peer& peer) {
  peer.socket.reset();
  peer.outgoing.clear();
  changed_.notify_all();
}

// The connection has ended; that is all right after a farewell.
void TcpEngine::lose(uint32_t rank) {
  Peer& peer = peers_[rank];
  hang_up(peer);
  if (peer.left || stopping_) return;
  fail_locked(HCCL_E_REMOTE, "rank " + std::to_string(rank) + " has ended: rank " + std::to_string(rank_) +
                                 " lost its connection to " + peer.address.text());
}

// Reads what there is. The lock is not held while data are copied: nobody else touches `incoming`.
void TcpEngine::read_from(uint32_t rank, std::unique_lock<std::mutex>& lock) {
  Peer& peer = peers_[rank];
  for (int turns = 0; turns < 64; ++turns) {
    const bool header = peer.header_read < sizeof(Frame);
    if (!header) make_room(peer);
    char* to = header ? reinterpret_cast<char*>(&peer.header) + peer.header_read : peer.incoming->data + peer.incoming->moved;
    const uint64_t room = header || peer.incoming->own.empty() ? peer.header.bytes : peer.incoming->own.size();
    const uint64_t wanted = header ? sizeof(Frame) - peer.header_read : room - peer.incoming->moved;
    ssize_t got = 0;
    if (wanted != 0) {
      peer.reading = true;
      lock.unlock();
      got = recv(peer.socket.fd(), to, wanted, MSG_DONTWAIT);
      const int error = errno;
      lock.lock();
      peer.reading = false;
      changed_.notify_all();
      if (got < 0 && (error == EAGAIN || error == EINTR)) return;
      if (got <= 0) return lose(rank);
    }
    if (header) {
      peer.header_read += static_cast<uint64_t>(got);
      if (peer.header_read < sizeof(Frame)) continue;
      if (!peer.header.plausible()) {
        fail_locked(HCCL_E_TCP_TRANSFER, "rank " + std::to_string(rank) + " (" + peer.address.text() + ") sent rank " +
                                             std::to_string(rank_) + " a frame of type " + std::to_string(peer.header.type) +
                                             " and " + std::to_string(peer.header.bytes) +
                                             " bytes, which no rank sends: its process is damaged or of another version");
        return hang_up(peer);
      }
      start_data(rank);
    } else {
      peer.incoming->moved += static_cast<uint64_t>(got);
    }
    if (peer.incoming->moved == peer.header.bytes) finish_data(rank);
  }
}

void TcpEngine::serve() {
  pthread_setname_np(pthread_self(), "softcann-tcp");
  std::vector<pollfd> watched;
  std::vector<uint32_t> ranks;
  int64_t last_moment = INT64_MAX;
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    watched.assign(1, pollfd{wake_fd_.fd(), POLLIN, 0});
    ranks.assign(1, 0);
    bool to_send = false;
    for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
      const Peer& peer = peers_[rank];
      if (!peer.socket.valid()) continue;
      const bool sends = !peer.outgoing.empty();
      to_send = to_send || sends;
      watched.push_back(pollfd{peer.socket.fd(), static_cast<short>(sends ? POLLIN | POLLOUT : POLLIN), 0});
      ranks.push_back(rank);
    }
    if (stopping_) {
      if (last_moment == INT64_MAX) last_moment = now_ns() + kFarewell;
      if (!to_send || now_ns() > last_moment) return;
    }
    const int patience_ms = code_ != HCCL_SUCCESS && !broken_ ? 20 : 200;
    lock.unlock();
    poll(watched.data(), watched.size(), patience_ms);
    lock.lock();
    uint64_t count = 0;
    if (watched[0].revents != 0 && read(wake_fd_.fd(), &count, sizeof count) < 0) count = 0;
    for (size_t i = 1; i < watched.size(); ++i) {
      Peer& peer = peers_[ranks[i]];
      if ((watched[i].revents & (POLLIN | POLLERR | POLLHUP)) != 0 && peer.socket.valid()) {
        try {
          read_from(ranks[i], lock);
        } catch (const std::bad_alloc&) {
          fail_locked(HCCL_E_OOM, "rank " + std::to_string(rank_) + " has no memory for " + std::to_string(peer.header.bytes) +
                                      " bytes that rank " + std::to_string(ranks[i]) + " sends");
          hang_up(peer);
        }
      }
      if ((watched[i].revents & POLLOUT) != 0 && peer.socket.valid() && !write_to(peer)) lose(ranks[i]);
    }
    publish();
  }
}

}  // namespace softcann
