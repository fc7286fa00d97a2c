#include "transfer/link.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "rt/base/sync.h"
#include "rt/memory/check.h"
#include "rt/runtime.h"

namespace softcann::transfer {
namespace {

hixl::Status status_fail(hixl::Status status, const char* entry, const EngineName& name, const char* text) {
  fail(static_cast<int>(status), "%s: %s: %s", entry, name.text.c_str(), text);
  return status;
}

}  // namespace

std::shared_ptr<Link> Link::connect(const char* entry, const EngineName& name, uint64_t last, int64_t deadline_ns,
                                    hixl::Status* status) {
  const auto wrong = [&](hixl::Status code, const char* text) {
    *status = status_fail(code, entry, name, text);
    return nullptr;
  };
  Socket socket;
  switch (knock(name, deadline_ns, &socket)) {
    case Knock::refused:
      return wrong(hixl::FAILED, "no engine of this user and this machine has that name (others are not reached)");
    case Knock::late:
      return wrong(hixl::TIMEOUT, "it did not accept the connection in time");
    case Knock::stranger:
      return wrong(hixl::FAILED, "another user's process has taken that name");
    case Knock::open:
      break;
  }
  const auto unanswered = [&] {
    if (now_ns() >= deadline_ns) return wrong(hixl::TIMEOUT, "it accepts the connection and is silent");
    return wrong(hixl::FAILED, "it closed the connection: it ends, or has as many connections as it may");
  };
  Greeting greeting{};
  if (!socket.write(kMagic, sizeof kMagic, deadline_ns) || !socket.read(&greeting, sizeof greeting, deadline_ns)) {
    return unanswered();
  }
  if (std::memcmp(greeting.magic, kMagic, sizeof kMagic) != 0 || greeting.count > kMostPieces) {
    return wrong(hixl::FAILED, "it is no engine of this version");
  }
  std::vector<Piece> offered(greeting.count);
  if (!socket.read(offered.data(), offered.size() * sizeof(Piece), deadline_ns)) return unanswered();
  *status = hixl::SUCCESS;
  return std::shared_ptr<Link>(new Link(name, std::move(socket), last, greeting.pool != 0, std::move(offered)));
}

bool Link::offers(uintptr_t begin, uint64_t bytes, bool staged) const {
  if (pool_ && staged) return true;  // what is the device's is refused there
  return std::any_of(offered_.begin(), offered_.end(), [&](const Piece& piece) {
    return begin >= piece.address && begin - piece.address < piece.bytes && bytes <= piece.bytes - (begin - piece.address);
  });
}

bool Link::broken() const {
  if (lost_.load(std::memory_order_acquire)) return true;
  // Between transfers the other side says nothing: what can be read then is its end.
  pollfd watched{socket_.fd(), POLLRDHUP, 0};
  return poll(&watched, 1, 0) > 0 && (watched.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

void Link::close() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    shutdown(socket_.fd(), SHUT_RDWR);
  }
  changed_.notify_all();
  if (worker_.joinable()) worker_.join();
}

Link::Turn::~Turn() {
  if (link_ == nullptr) return;
  {
    const std::lock_guard<std::mutex> lock(link_->mutex_);
    link_->taken_ = false;
  }
  link_->changed_.notify_all();
}

bool Link::Turn::take(Link* link, int64_t deadline_ns) {
  const auto is_free = [link] { return !link->taken_; };
  std::unique_lock<std::mutex> lock(link->mutex_);
  if (deadline_ns == INT64_MAX)
    link->changed_.wait(lock, is_free);
  else if (!link->changed_.wait_for(lock, std::chrono::nanoseconds(std::max<int64_t>(deadline_ns - now_ns(), 0)), is_free))
    return false;
  link->taken_ = true;
  link_ = link;
  return true;
}

hixl::Status Link::begin(const char* entry, int64_t deadline_ns, Turn* turn) {
  if (!turn->take(this, deadline_ns)) return status_fail(hixl::TIMEOUT, entry, name_, "other transfers took all of the time");
  if (!lost_.load(std::memory_order_acquire)) return hixl::SUCCESS;
  return status_fail(hixl::FAILED, entry, name_, "the connection broke: disconnect, and connect again");
}

hixl::Status Link::lost(const char* entry, int64_t deadline_ns) {
  lost_.store(true, std::memory_order_release);
  shutdown(socket_.fd(), SHUT_RDWR);
  if (now_ns() >= deadline_ns) return status_fail(hixl::TIMEOUT, entry, name_, "it took longer than the given time");
  return status_fail(hixl::FAILED, entry, name_, "the connection ended, or memory is not there any more");
}

hixl::Status Link::read_reply(const char* entry, int64_t deadline_ns) {
  Reply reply{};
  if (!socket_.read(&reply, sizeof reply, deadline_ns)) return lost(entry, deadline_ns);
  order_memory();
  switch (reply.code) {
    case hixl::SUCCESS:
      return hixl::SUCCESS;
    case hixl::PARAM_INVALID:
      return status_fail(hixl::PARAM_INVALID, entry, name_, "remote memory was not registered before the connection, or is gone");
    case hixl::RESOURCE_EXHAUSTED:
      return status_fail(hixl::RESOURCE_EXHAUSTED, entry, name_, "4096 notifies wait there already");
    default:
      return lost(entry, INT64_MAX);
  }
}

hixl::Status Link::exchange(const char* entry, hixl::TransferOp operation, const hixl::TransferOpDesc* pieces, size_t count,
                            bool staged, int64_t deadline_ns) {
  const bool reading = operation == hixl::READ;
  const Request request{reading ? Kind::read : Kind::write, static_cast<uint32_t>(count), staged ? 1U : 0U, 0};
  std::vector<Piece> remote(count);
  for (size_t i = 0; i < count; ++i) remote[i] = Piece{pieces[i].remote_addr, pieces[i].len};
  order_memory();
  if (!socket_.write(&request, sizeof request, deadline_ns) ||
      !socket_.write(remote.data(), count * sizeof(Piece), deadline_ns)) {
    return lost(entry, deadline_ns);
  }
  if (const hixl::Status refused = read_reply(entry, deadline_ns)) return refused;
  for (size_t i = 0; i < count; ++i) {
    char* bytes = touchable(pieces[i].local_addr);
    const bool done =
        reading ? socket_.read(bytes, pieces[i].len, deadline_ns) : socket_.write(bytes, pieces[i].len, deadline_ns);
    if (!done) return lost(entry, deadline_ns);
    if (reading) check::mark_written_elsewhere(bytes, pieces[i].len);
  }
  return reading ? hixl::SUCCESS : read_reply(entry, deadline_ns);
}

hixl::Status Link::transfer(const char* entry, hixl::TransferOp operation, const std::vector<hixl::TransferOpDesc>& pieces,
                            bool staged, int64_t deadline_ns) {
  Turn turn;
  if (const hixl::Status wrong = begin(entry, deadline_ns, &turn)) return wrong;
  for (size_t at = 0; at < pieces.size(); at += kMostPieces) {
    const size_t count = std::min<size_t>(pieces.size() - at, kMostPieces);
    if (const hixl::Status wrong = exchange(entry, operation, pieces.data() + at, count, staged, deadline_ns)) return wrong;
  }
  return hixl::SUCCESS;
}

hixl::Status Link::notify(const char* entry, const std::string& name, const std::string& text, int64_t deadline_ns) {
  Turn turn;
  if (const hixl::Status wrong = begin(entry, deadline_ns, &turn)) return wrong;
  const Request request{Kind::notify, static_cast<uint32_t>(name.size()), static_cast<uint32_t>(text.size()), 0};
  if (!socket_.write(&request, sizeof request, deadline_ns) || !socket_.write(name.data(), name.size(), deadline_ns) ||
      !socket_.write(text.data(), text.size(), deadline_ns)) {
    return lost(entry, deadline_ns);
  }
  return read_reply(entry, deadline_ns);
}

void Link::transfer_later(hixl::TransferOp operation, const std::vector<hixl::TransferOpDesc>& pieces,
                          std::shared_ptr<Pending> pending) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) {
      pending->reason = "TransferAsync: the connection is closed";
      pending->status.store(hixl::TransferStatus::FAILED, std::memory_order_release);
      return;
    }
    if (!worker_.joinable()) worker_ = std::thread([this] { work(); });
    jobs_.push_back(Job{operation, pieces, std::move(pending)});
  }
  changed_.notify_all();
}

void Link::work() {
  for (;;) {
    Job job;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return closed_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    // Of one that is closed each fails at once.
    const bool done = transfer("TransferAsync", job.operation, job.pieces, false, INT64_MAX) == hixl::SUCCESS;
    if (!done) job.pending->reason = aclGetRecentErrMsg();
    job.pending->status.store(done ? hixl::TransferStatus::COMPLETED : hixl::TransferStatus::FAILED, std::memory_order_release);
  }
}

}  // namespace softcann::transfer
