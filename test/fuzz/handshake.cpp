// What a stranger sends where a rank is expected: to the one who calls, and to the one who accepts.
#include <sys/socket.h>
#include <unistd.h>

#include "comm/handshake.h"
#include "rt/base/sync.h"

using namespace softcann;

namespace {

constexpr int64_t kMillisecond = 1000000;

void call(const uint8_t* data, size_t size) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) __builtin_trap();
  const Socket here(ends[0]);
  Socket there(ends[1]);
  if (write(there.fd(), data, size) != static_cast<ssize_t>(size)) return;
  shutdown(there.fd(), SHUT_WR);
  Answer answer{};
  // Nobody but one in 2^256 guesses the proof.
  if (introduce(here, Digest{}, Hello{}, now_ns() + 100 * kMillisecond, &answer)) __builtin_trap();
}

void accept(const uint8_t* data, size_t size) {
  Address address{};
  address.family = AF_INET;
  address.bytes[0] = 127;
  address.bytes[3] = 1;
  Socket door = Socket::listen(&address);
  if (!door.valid()) return;
  door.set_nonblocking();
  Acceptor acceptor(std::move(door), Digest{});
  const Socket stranger = Socket::connect(address, now_ns() + 100 * kMillisecond);
  if (!stranger.valid()) return;
  if (!stranger.write(data, size, now_ns() + 100 * kMillisecond)) return;
  shutdown(stranger.fd(), SHUT_WR);
  if (acceptor.next(now_ns() + 2 * kMillisecond)) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  data[0] % 2 == 0 ? call(data + 1, size - 1) : accept(data + 1, size - 1);
  return 0;
}
