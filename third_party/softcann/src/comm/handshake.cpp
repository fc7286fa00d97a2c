#include "comm/handshake.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <type_traits>
#include <vector>

#include "comm/operation.h"
#include "rt/base/sync.h"

namespace softcann {
namespace {

constexpr int64_t kSecond = 1000000000;
constexpr int64_t kPatience = 5 * kSecond;
constexpr size_t kMostPending = 128;  // the oldest makes room: a rank needs milliseconds

// What goes over the wire has no padding, whose bytes could be anything.
static_assert(std::has_unique_object_representations_v<Challenge> && std::has_unique_object_representations_v<Hello> &&
              std::has_unique_object_representations_v<Answer>);

// Both sides put a word of their own first, so that neither's proof can be sent back as the other's.
template <class Message>
Digest prove(const Digest& secret, const char* role, const Nonce& challenge, const Nonce& reply, const Message& message) {
  std::string text(role);
  text.append(reinterpret_cast<const char*>(challenge.data()), challenge.size());
  text.append(reinterpret_cast<const char*>(reply.data()), reply.size());
  text.append(reinterpret_cast<const char*>(&message), offsetof(Message, proof));
  return hmac_sha256(secret, text);
}

}  // namespace

bool fill_randomly(void* data, size_t bytes) {
  char* at = static_cast<char*>(data);
  while (bytes != 0) {
    const ssize_t got = getrandom(at, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool introduce(const Socket& socket, const Digest& secret, const Hello& said, int64_t deadline_ns, Answer* answer) {
  const auto wrong = [answer](HcclResult code, const char* text) {
    *answer = Answer{};
    answer->code = code;
    std::snprintf(answer->text, sizeof answer->text, "%s", text);
    return false;
  };
  Challenge challenge{};
  if (!socket.read(&challenge, sizeof challenge, deadline_ns))
    return wrong(HCCL_E_AGAIN, "it accepts the connection and is silent");
  if (std::memcmp(challenge.magic, Challenge::kMagic, sizeof challenge.magic) != 0) {
    return wrong(HCCL_E_TCP_CONNECT, "it is not a rank of this version");
  }
  Hello hello = said;
  if (!fill_randomly(hello.nonce.data(), hello.nonce.size())) return wrong(HCCL_E_SYSCALL, "this process gets no random numbers");
  hello.proof = prove(secret, "caller", challenge.nonce, hello.nonce, hello);
  if (!socket.write(&hello, sizeof hello, deadline_ns) || !socket.read(answer, sizeof *answer, deadline_ns)) {
    return wrong(HCCL_E_TCP_CONNECT, "it gave no answer: it ended, or the rootInfo is of another communicator");
  }
  if (!equal(answer->proof, prove(secret, "accepter", challenge.nonce, hello.nonce, *answer))) {
    return wrong(HCCL_E_TCP_CONNECT, "it does not know the communicator's secret");
  }
  answer->text[sizeof answer->text - 1] = 0;
  if (answer->code < HCCL_SUCCESS || answer->code >= HCCL_E_RESERVED) {
    return wrong(HCCL_E_TCP_TRANSFER, "it answers with a code that no rank gives: it is damaged or of another version");
  }
  return answer->code == HCCL_SUCCESS;
}

bool Acceptor::Caller::answer(const Digest& secret, Answer answer, int64_t deadline_ns) const {
  answer.proof = prove(secret, "accepter", challenge, hello.nonce, answer);
  return socket.write(&answer, sizeof answer, deadline_ns);
}

Acceptor::Acceptor(Socket listener, const Digest& secret) : listener_(std::move(listener)), secret_(secret) {
  listener_.set_nonblocking();
}

void Acceptor::accept_all() {
  for (;;) {
    Pending made;
    made.caller.socket = listener_.accept_now();
    if (!made.caller.socket.valid()) return;
    made.deadline_ns = now_ns() + kPatience;
    Challenge challenge{};
    std::memcpy(challenge.magic, Challenge::kMagic, sizeof challenge.magic);
    if (!fill_randomly(challenge.nonce.data(), challenge.nonce.size())) return;
    made.caller.challenge = challenge.nonce;
    // It fits into an empty socket, or the caller is not worth waiting for.
    if (send(made.caller.socket.fd(), &challenge, sizeof challenge, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof challenge) continue;
    if (pending_.size() == kMostPending) pending_.pop_front();
    pending_.push_back(std::move(made));
  }
}

bool Acceptor::read_from(Pending& pending) {
  Hello& hello = pending.caller.hello;
  char* to = reinterpret_cast<char*>(&hello) + pending.received;
  const ssize_t got = recv(pending.caller.socket.fd(), to, sizeof hello - pending.received, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (got <= 0) return false;
  pending.received += static_cast<size_t>(got);
  if (pending.received < sizeof hello) return true;
  if (equal(hello.proof, prove(secret_, "caller", pending.caller.challenge, hello.nonce, hello))) {
    proved_.push_back(std::move(pending.caller));
  }
  return false;
}

// Waits until something happens, or the time is over, and deals with it.
void Acceptor::serve(int64_t deadline_ns) {
  std::vector<pollfd> watched{{listener_.fd(), POLLIN, 0}};
  for (const Pending& pending : pending_) watched.push_back({pending.caller.socket.fd(), POLLIN, 0});
  const int64_t left = std::clamp<int64_t>(deadline_ns - now_ns(), 0, kSecond / 10);
  if (poll(watched.data(), watched.size(), static_cast<int>((left + 999999) / 1000000)) < 0) return;
  std::deque<Pending> kept;
  const int64_t now = now_ns();
  for (size_t i = 0; i < pending_.size(); ++i) {
    const bool stays = watched[i + 1].revents == 0 || read_from(pending_[i]);
    if (stays && now < pending_[i].deadline_ns) kept.push_back(std::move(pending_[i]));
  }
  pending_ = std::move(kept);
  if (watched[0].revents != 0) accept_all();
}

bool Acceptor::has_caller() {
  serve(0);
  return !proved_.empty();
}

std::optional<Acceptor::Caller> Acceptor::next(int64_t deadline_ns) {
  while (proved_.empty()) {
    if (now_ns() > deadline_ns) return std::nullopt;
    serve(deadline_ns);
  }
  std::optional<Caller> found(std::move(proved_.front()));
  proved_.pop_front();
  return found;
}

}  // namespace softcann
