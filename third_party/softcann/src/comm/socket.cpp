#include "comm/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "rt/base/options.h"
#include "rt/base/sync.h"

namespace softcann {
namespace {

socklen_t to_system(const Address& address, sockaddr_storage* out) {
  *out = {};
  if (address.family == AF_INET6) {
    auto* six = reinterpret_cast<sockaddr_in6*>(out);
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(address.port);
    std::memcpy(&six->sin6_addr, address.bytes, 16);
    return sizeof *six;
  }
  auto* four = reinterpret_cast<sockaddr_in*>(out);
  four->sin_family = AF_INET;
  four->sin_port = htons(address.port);
  std::memcpy(&four->sin_addr, address.bytes, 4);
  return sizeof *four;
}

Address from_system(const sockaddr* in) {
  Address address;
  address.family = in->sa_family;
  if (in->sa_family == AF_INET6) {
    const auto* six = reinterpret_cast<const sockaddr_in6*>(in);
    address.port = ntohs(six->sin6_port);
    std::memcpy(address.bytes, &six->sin6_addr, 16);
  } else {
    const auto* four = reinterpret_cast<const sockaddr_in*>(in);
    address.port = ntohs(four->sin_port);
    std::memcpy(address.bytes, &four->sin_addr, 4);
  }
  return address;
}

bool parse(const std::string& text, Address* address) {
  if (inet_pton(AF_INET, text.c_str(), address->bytes) == 1)
    address->family = AF_INET;
  else if (inet_pton(AF_INET6, text.c_str(), address->bytes) == 1)
    address->family = AF_INET6;
  return address->family != 0;
}

// Launchers say so: one machine has all ranks, or the ranks meet at loopback. Who starts ranks by other means on several
// machines sets HCCL_IF_IP.
bool all_ranks_are_here() {
  const std::string &all = options().world_size, &here = options().local_world_size, &meeting = options().master_addr;
  if (!all.empty() && all == here) return true;
  Address place;
  if (!parse(meeting, &place)) return meeting.empty() || meeting == "localhost";
  static constexpr uint8_t kLoopback6[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return place.family == AF_INET ? place.bytes[0] == 127 : std::memcmp(place.bytes, kLoopback6, sizeof kLoopback6) == 0;
}

// The first that is up and not loopback's; none if there is none. IPv4 is preferred; link-local IPv6 needs an interface's
// name and is left out.
Address outside_address() {
  Address best;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return best;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const bool usable = entry->ifa_addr != nullptr && (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_LOOPBACK) == 0;
    if (!usable || (entry->ifa_addr->sa_family != AF_INET && entry->ifa_addr->sa_family != AF_INET6)) continue;
    const Address found = from_system(entry->ifa_addr);
    if (found.family == AF_INET6 && found.bytes[0] == 0xfe && (found.bytes[1] & 0xc0) == 0x80) continue;
    if (best.family == 0 || (best.family == AF_INET6 && found.family == AF_INET)) best = found;
  }
  freeifaddrs(list);
  return best;
}

void prepare(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

// Waits until the socket is ready for `events`; false when the time is over.
bool wait_for(int fd, short events, int64_t deadline_ns) {
  for (;;) {
    pollfd watched{fd, events, 0};
    const int64_t left = deadline_ns - now_ns();
    if (left <= 0) return false;
    const int ready = poll(&watched, 1, static_cast<int>(std::min<int64_t>(left / 1000000 + 1, 1000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

}  // namespace

Address listening_address() {
  Address address;
  if (!options().hccl_if_ip.empty()) {
    parse(options().hccl_if_ip, &address);
    return address;
  }
  if (!all_ranks_are_here()) address = outside_address();
  if (address.family == 0) parse("127.0.0.1", &address);
  return address;
}

std::string Address::text() const {
  char buffer[INET6_ADDRSTRLEN] = {};
  inet_ntop(family, bytes, buffer, sizeof buffer);
  return std::string(buffer) + " port " + std::to_string(port);
}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

int Socket::release() { return std::exchange(fd_, -1); }

void Socket::reset() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

Socket Socket::listen(Address* address) {
  address->port = 0;
  Socket socket(::socket(address->family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage storage;
  socklen_t length = to_system(*address, &storage);
  const auto* generic = reinterpret_cast<sockaddr*>(&storage);
  if (!socket.valid() || bind(socket.fd(), generic, length) != 0 || ::listen(socket.fd(), 1024) != 0 ||
      getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&storage), &length) != 0) {
    return Socket();
  }
  *address = from_system(reinterpret_cast<sockaddr*>(&storage));
  return socket;
}

Socket Socket::connect(const Address& address, int64_t deadline_ns) {
  Socket socket(::socket(address.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_storage storage;
  const socklen_t length = to_system(address, &storage);
  if (!socket.valid()) return Socket();
  if (::connect(socket.fd(), reinterpret_cast<sockaddr*>(&storage), length) != 0) {
    int reason = errno;
    socklen_t size = sizeof reason;
    if (reason != EINPROGRESS || !wait_for(socket.fd(), POLLOUT, deadline_ns)) return Socket();
    if (getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &reason, &size) != 0 || reason != 0) return Socket();
  }
  prepare(socket.fd());
  return socket;
}

Socket Socket::accept(int64_t deadline_ns) const { return wait_for(fd_, POLLIN, deadline_ns) ? accept_now() : Socket(); }

Socket Socket::accept_now() const {
  Socket socket(accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC));
  if (socket.valid()) prepare(socket.fd());
  return socket;
}

Address Socket::peer() const {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  getpeername(fd_, reinterpret_cast<sockaddr*>(&storage), &length);
  return from_system(reinterpret_cast<sockaddr*>(&storage));
}

Address Socket::local() const {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  getsockname(fd_, reinterpret_cast<sockaddr*>(&storage), &length);
  return from_system(reinterpret_cast<sockaddr*>(&storage));
}

bool Socket::of_same_user() const {
  ucred other{};
  socklen_t length = sizeof other;
  return getsockopt(fd_, SOL_SOCKET, SO_PEERCRED, &other, &length) == 0 && other.uid == geteuid();
}

bool Socket::write(const void* data, size_t bytes, int64_t deadline_ns) const {
  const char* at = static_cast<const char*>(data);
  while (bytes != 0) {
    if (!wait_for(fd_, POLLOUT, deadline_ns)) return false;
    const ssize_t done = send(fd_, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (done < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (done <= 0) return false;
    at += done;
    bytes -= static_cast<size_t>(done);
  }
  return true;
}

bool Socket::read(void* data, size_t bytes, int64_t deadline_ns) const {
  char* at = static_cast<char*>(data);
  while (bytes != 0) {
    if (!wait_for(fd_, POLLIN, deadline_ns)) return false;
    const ssize_t done = recv(fd_, at, bytes, MSG_DONTWAIT);
    if (done < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (done <= 0) return false;
    at += done;
    bytes -= static_cast<size_t>(done);
  }
  return true;
}

void Socket::set_nonblocking() const { fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK); }

}  // namespace softcann
