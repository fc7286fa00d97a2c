#include "transfer/server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cstring>
#include <system_error>
#include <utility>

#include "rt/base/sync.h"
#include "rt/memory/check.h"
#include "rt/runtime.h"

namespace softcann::transfer {
namespace {

constexpr size_t kMostGuests = 512;     // CANN's own limit of connections
constexpr size_t kMostNotifies = 4096;  // that nobody has taken: CANN's own limit, too
constexpr int kNoDescriptorMs = 10;
constexpr int64_t kForever = INT64_MAX;
constexpr int64_t kPatience = 5'000'000'000;  // for the first words of who connects

uint32_t code_of(hixl::Status status) { return status; }

}  // namespace

bool Server::start(const EngineName& name, std::string* reason) {
  door_ = Door::open(name, reason);
  if (!door_.meeting.valid()) return false;
  wake_ = eventfd(0, EFD_CLOEXEC);
  if (wake_ < 0) {
    *reason = std::string("no descriptor is left: ") + std::strerror(errno);
    return false;
  }
  acceptor_ = std::thread([this] { accept_all(); });
  return true;
}

void Server::stop() {
  if (acceptor_.joinable()) {
    const uint64_t one = 1;
    if (write(wake_, &one, sizeof one) == sizeof one) acceptor_.join();
  }
  std::list<Guest> guests;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (Guest& guest : guests_) shutdown(guest.socket.fd(), SHUT_RDWR);
    guests.swap(guests_);
  }
  for (Guest& guest : guests) guest.thread.join();
  if (wake_ >= 0) close(std::exchange(wake_, -1));
  door_ = Door{};
}

std::vector<Notify> Server::take_notifies() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<Notify> taken(notifies_.begin(), notifies_.end());
  notifies_.clear();
  return taken;
}

void Server::accept_all() {
  for (;;) {
    pollfd watched[2] = {{door_.meeting.fd(), POLLIN, 0}, {wake_, POLLIN, 0}};
    if (poll(watched, 2, -1) < 0) continue;
    if (watched[1].revents != 0) return;
    Socket caller = door_.meeting.accept_now();
    if (!caller.valid()) {  // who calls stays at the door, and this thread would turn without rest, while no descriptor is free
      poll(watched + 1, 1, kNoDescriptorMs);
      continue;
    }
    if (!caller.of_same_user()) continue;
    std::list<Guest> left;  // whose threads have nothing to do any more
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (auto guest = guests_.begin(); guest != guests_.end();) {
        const auto here = guest++;
        if (here->left) left.splice(left.end(), guests_, here);
      }
      if (guests_.size() < kMostGuests) {
        Guest& guest = guests_.emplace_back();
        guest.socket = std::move(caller);
        try {
          guest.thread = std::thread([this, &guest] {
            serve(guest.socket);
            shutdown(guest.socket.fd(), SHUT_RDWR);
            const std::lock_guard<std::mutex> ending(mutex_);
            guest.left = true;
          });
        } catch (const std::system_error&) {
          guests_.pop_back();  // no thread to serve it: its connection ends
        }
      }
    }
    for (Guest& guest : left) guest.thread.join();
  }
}

void Server::serve(const Socket& socket) {
  const uint64_t last = memory_.last();
  char magic[sizeof kMagic];
  const int64_t until = now_ns() + kPatience;
  if (!socket.read(magic, sizeof magic, until) || std::memcmp(magic, kMagic, sizeof magic) != 0) return;
  const std::vector<Piece> offered = memory_.pieces(last, kMostPieces);
  Greeting greeting{{}, pool_ ? 1U : 0U, static_cast<uint32_t>(offered.size())};
  std::memcpy(greeting.magic, kMagic, sizeof kMagic);
  if (!socket.write(&greeting, sizeof greeting, until)) return;
  if (!socket.write(offered.data(), offered.size() * sizeof(Piece), until)) return;
  for (;;) {
    Request request{};
    if (!socket.read(&request, sizeof request, kForever)) return;
    order_memory();
    bool broken = false;
    std::vector<Piece> pieces;
    Reply reply{};
    switch (request.kind) {
      case Kind::read:
      case Kind::write:
        reply.code = read_pieces(socket, request, last, &pieces, &broken);
        break;
      case Kind::notify:
        reply.code = take_notify(socket, request, &broken);
        break;
      default:
        return;
    }
    if (broken || !socket.write(&reply, sizeof reply, kForever)) return;
    if (reply.code != hixl::SUCCESS || request.kind == Kind::notify) continue;
    for (const Piece& piece : pieces) {
      char* bytes = touchable(piece.address);
      const bool done =
          request.kind == Kind::read ? socket.write(bytes, piece.bytes, kForever) : socket.read(bytes, piece.bytes, kForever);
      if (!done) return;
      if (request.kind == Kind::write) check::mark_written_elsewhere(bytes, piece.bytes);
    }
    order_memory();
    if (request.kind == Kind::write && !socket.write(&reply, sizeof reply, kForever)) return;
  }
}

uint32_t Server::read_pieces(const Socket& socket, const Request& request, uint64_t last, std::vector<Piece>* pieces,
                             bool* broken) {
  const uint32_t count = request.first;
  *broken = count == 0 || count > kMostPieces;
  if (*broken) return code_of(hixl::PARAM_INVALID);
  pieces->resize(count);
  *broken = !socket.read(pieces->data(), count * sizeof(Piece), kForever);
  if (*broken) return code_of(hixl::FAILED);
  const bool staged = pool_ && request.second != 0;
  for (const Piece& piece : *pieces) {
    hixl::MemType type = hixl::MEM_HOST;
    if (piece.bytes == 0 || piece.bytes > kMostPieceBytes) return code_of(hixl::PARAM_INVALID);
    if (!memory_.find(piece.address, piece.bytes, last, &type) && !staged) return code_of(hixl::PARAM_INVALID);
    // Memory of the device may have been freed since it was registered.
    if (!usable_memory("hixl", piece.address, piece.bytes, type)) return code_of(hixl::PARAM_INVALID);
  }
  return code_of(hixl::SUCCESS);
}

uint32_t Server::take_notify(const Socket& socket, const Request& request, bool* broken) {
  *broken = request.first > kMostNotifyText || request.second > kMostNotifyText;
  if (*broken) return code_of(hixl::PARAM_INVALID);
  Notify notify{std::string(request.first, 0), std::string(request.second, 0)};
  const int64_t until = now_ns() + kPatience;
  *broken = !socket.read(notify.name.data(), request.first, until) || !socket.read(notify.text.data(), request.second, until);
  if (*broken) return code_of(hixl::FAILED);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (notifies_.size() >= kMostNotifies) return code_of(hixl::RESOURCE_EXHAUSTED);
  notifies_.push_back(std::move(notify));
  return code_of(hixl::SUCCESS);
}

}  // namespace softcann::transfer
