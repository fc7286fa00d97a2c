#include "transfer/place.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "rt/base/sync.h"

namespace softcann::transfer {
namespace {

constexpr int kBacklog = 512;

struct Meeting {
  sockaddr_un address{};
  socklen_t length;

  explicit Meeting(const EngineName& name) {
    address.sun_family = AF_UNIX;
    const int size =
        std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "softcann-hixl-%u-%s", geteuid(), name.text.c_str());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(size));
  }
  const sockaddr* generic() const { return reinterpret_cast<const sockaddr*>(&address); }
};

// Address and port apart: a port follows the closing bracket of IPv6, or the only colon of IPv4.
bool split(const std::string& text, std::string* address, std::string* port) {
  size_t end = text.find(':');
  if (!text.empty() && text[0] == '[') {
    const size_t bracket = text.find(']');
    if (bracket == std::string::npos) return false;
    *address = text.substr(1, bracket - 1);
    end = bracket + 1;
    if (end != text.size() && text[end] != ':') return false;
  } else {
    *address = text.substr(0, end);
  }
  if (end < text.size()) *port = text.substr(end + 1);
  return end >= text.size() || !port->empty();
}

}  // namespace

std::optional<EngineName> EngineName::parse(const std::string& text) {
  EngineName name;
  std::string address, port;
  if (!split(text, &address, &port)) return std::nullopt;
  const bool four = inet_pton(AF_INET, address.c_str(), name.address.bytes) == 1;
  if (!four && inet_pton(AF_INET6, address.c_str(), name.address.bytes) != 1) return std::nullopt;
  name.address.family = four ? AF_INET : AF_INET6;
  int number = 0;
  const auto [end, code] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (!port.empty() && (code != std::errc() || end != port.data() + port.size() || number > UINT16_MAX)) return std::nullopt;
  name.address.port = number > 0 ? static_cast<uint16_t>(number) : 0;
  char canonical[INET6_ADDRSTRLEN] = {};
  inet_ntop(name.address.family, name.address.bytes, canonical, sizeof canonical);
  name.text = (four ? std::string(canonical) : "[" + std::string(canonical) + "]") + ":" + std::to_string(name.address.port);
  return name;
}

Door Door::open(const EngineName& name, std::string* reason) {
  Door door;
  const auto failed = [&](const char* what) {
    *reason = what + std::string(": ") + std::strerror(errno);
    return Door{};
  };
  door.port = Socket(socket(name.address.family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in four{};
  sockaddr_in6 six{};
  four.sin_family = AF_INET;
  four.sin_port = six.sin6_port = htons(name.address.port);
  std::memcpy(&four.sin_addr, name.address.bytes, sizeof four.sin_addr);
  six.sin6_family = AF_INET6;
  std::memcpy(&six.sin6_addr, name.address.bytes, sizeof six.sin6_addr);
  const bool is_four = name.address.family == AF_INET;
  const auto* where = is_four ? reinterpret_cast<const sockaddr*>(&four) : reinterpret_cast<const sockaddr*>(&six);
  if (!door.port.valid() || bind(door.port.fd(), where, is_four ? sizeof four : sizeof six) != 0) {
    return failed("the port cannot be taken");
  }
  door.meeting = Socket(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const Meeting meeting(name);
  if (!door.meeting.valid() || bind(door.meeting.fd(), meeting.generic(), meeting.length) != 0 ||
      listen(door.meeting.fd(), kBacklog) != 0) {
    return failed("the name cannot be taken");
  }
  return door;
}

Knock knock(const EngineName& name, int64_t deadline_ns, Socket* made) {
  const Meeting meeting(name);
  for (;;) {
    Socket call(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!call.valid()) return Knock::refused;
    if (connect(call.fd(), meeting.generic(), meeting.length) == 0) {
      if (!call.of_same_user()) return Knock::stranger;
      *made = std::move(call);
      return Knock::open;
    }
    if (errno != EAGAIN && errno != EINTR) return Knock::refused;
    if (now_ns() > deadline_ns) return Knock::late;  // so many call that the queue is full
    usleep(1000);
  }
}

}  // namespace softcann::transfer
