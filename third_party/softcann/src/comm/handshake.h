// How two ranks prove to each other, over a connection, that they belong to the same communicator.
//
// Note [Handshake]
// Each communicator has a secret, which its ranks have from the root info, hence through the client's own store. Whoever
// accepts a connection sends random bytes; the caller sends others and an HMAC over both and what it says; the answer
// carries an HMAC over both, too. So neither side believes anything of a stranger, nor of a recording. Until then a
// connection costs a descriptor and this fixed number of bytes. What follows on the connection is neither encrypted nor
// authenticated: see SECURITY.md.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "comm/control.h"
#include "comm/peers.h"
#include "rt/base/sha256.h"
#include "comm/socket.h"

namespace softcann {

using Nonce = std::array<uint8_t, 32>;

// Random bytes of the kernel; false when it has none to give.
bool fill_randomly(void* data, size_t bytes);

struct Challenge {
  static constexpr char kMagic[16] = "softcann-mesh-3";
  char magic[16];
  Nonce nonce;
};

// What a rank says when it calls the root, or another rank.
struct Hello {
  Nonce nonce;
  uint32_t rank, ranks;
  uint32_t patience_ms;  // how long it waits for an answer
  Address address;       // where it accepts the ranks above it
  ProcessId process;
  Digest proof;
};

// What it is told. Nothing is wrong if `code` is 0; then, from the root, the addresses and processes of all ranks are there.
struct Answer {
  int32_t code;  // HcclResult
  char text[192];
  Address addresses[kMaxRanks];
  uint32_t reserved;
  ProcessId processes[kMaxRanks];
  Digest proof;
};

// The caller's side, from the challenge to the answer. False without a believable answer; then *answer says what is wrong,
// and its code is HCCL_E_AGAIN when the other side cannot have looked at the hello, so that it makes sense to call again.
bool introduce(const Socket& socket, const Digest& secret, const Hello& said, int64_t deadline_ns, Answer* answer);

// The accepting side: takes any number of connections at once, gives each the same short time to prove itself, and hands
// out those that have.
class Acceptor {
 public:
  struct Caller {
    Socket socket;
    Nonce challenge{};
    Hello hello{};
    bool answer(const Digest& secret, Answer answer, int64_t deadline_ns) const;
  };

  Acceptor(Socket listener, const Digest& secret);

  // The next caller; none when the time is over.
  std::optional<Caller> next(int64_t deadline_ns);
  // Whether there is one already.
  bool has_caller();

 private:
  struct Pending {
    Caller caller;
    size_t received = 0;
    int64_t deadline_ns = 0;
  };
  void serve(int64_t deadline_ns);
  void accept_all();
  // False when it is to be dropped.
  bool read_from(Pending& pending);

  Socket listener_;
  const Digest secret_;
  std::deque<Pending> pending_;
  std::deque<Caller> proved_;
};

}  // namespace softcann
