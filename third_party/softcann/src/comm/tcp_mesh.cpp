#include "comm/tcp_mesh.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "comm/tcp_engine.h"
#include "rt/base/sync.h"

namespace softcann {
namespace {

constexpr int64_t kSecond = 1000000000;

struct Trouble {
  HcclResult code = HCCL_SUCCESS;
  std::string text;
};

// What a rank knows of the others.
struct Others {
  explicit Others(uint32_t ranks) : addresses(ranks), ids(ranks), processes(ranks) {}

  void learn(uint32_t rank, const Address& address, const ProcessId& id) {
    addresses[rank] = address;
    ids[rank] = id;
    processes[rank] = Process::find(id);
  }

  std::vector<Address> addresses;
  std::vector<ProcessId> ids;
  std::vector<std::shared_ptr<Process>> processes;
};

struct Meeting {
  const RootInfo& info;
  const Member& member;
  int64_t deadline;

  std::string within() const {
    return member.limits.connect_s == 0 ? "" : " within " + std::to_string(member.limits.connect_s) + " s (HCCL_CONNECT_TIMEOUT)";
  }
  Hello hello(const Address& address) const {
    const auto left_ms = std::clamp<int64_t>((deadline - now_ns()) / 1000000, 0, UINT32_MAX);
    return Hello{{}, member.rank, member.ranks, static_cast<uint32_t>(left_ms), address, ProcessId::own(), {}};
  }
};

std::string wrong_hello(const Meeting& meeting, const Hello& hello, const std::vector<Acceptor::Caller>& called) {
  const Member& member = meeting.member;
  if (hello.ranks != member.ranks) {
    return "rank " + std::to_string(hello.rank) + " says there are " + std::to_string(hello.ranks) +
           " ranks, another rank said " + std::to_string(member.ranks);
  }
  if (hello.rank == member.rank || hello.rank >= called.size() || called[hello.rank].socket.valid()) {
    return "rank " + std::to_string(hello.rank) + " has joined already";
  }
  return {};
}

std::string absent(const Meeting& meeting, const std::vector<Acceptor::Caller>& called) {
  std::string text;
  for (uint32_t rank = 0; rank < called.size(); ++rank) {
    if (rank != meeting.member.rank && !called[rank].socket.valid()) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  }
  return text;
}

void refuse(const Meeting& meeting, const Acceptor::Caller& caller, const Trouble& why) {
  if (!caller.socket.valid()) return;
  Answer answer{};
  answer.code = why.code;
  std::snprintf(answer.text, sizeof answer.text, "%s", why.text.c_str());
  caller.answer(meeting.info.secret, answer, now_ns() + kSecond);
}

// When a caller has to have its answer, so that it learns who is missing before its own time is over.
int64_t answer_by(const Hello& hello) {
  const int64_t patience = int64_t{hello.patience_ms} * 1000000;
  return now_ns() + patience - std::min(patience / 8, kSecond / 4);
}

// The root's side: hears from everybody, then tells everybody where the others are.
Trouble gather_addresses(const Meeting& meeting, Acceptor& root, Others* others) {
  const uint32_t ranks = meeting.member.ranks;
  std::vector<Acceptor::Caller> called(ranks);
  int64_t deadline = meeting.deadline;
  for (uint32_t heard = 1; heard < ranks;) {
    std::optional<Acceptor::Caller> caller = root.next(deadline);
    if (!caller) {
      const Trouble late{HCCL_E_TIMEOUT, standing_still(others->processes) + "rank(s) " + absent(meeting, called) + " of " +
                                             std::to_string(ranks) + " did not join" + meeting.within()};
      for (const Acceptor::Caller& here : called) refuse(meeting, here, late);
      return late;
    }
    const Hello& hello = caller->hello;
    const std::string wrong = wrong_hello(meeting, hello, called);
    if (!wrong.empty()) {
      refuse(meeting, *caller, {HCCL_E_PARA, wrong});
      continue;
    }
    others->learn(hello.rank, hello.address, hello.process);
    deadline = std::min(deadline, answer_by(hello));
    called[hello.rank] = std::move(*caller);
    ++heard;
  }
  Answer welcome{};
  std::copy(others->addresses.begin(), others->addresses.end(), welcome.addresses);
  std::copy(others->ids.begin(), others->ids.end(), welcome.processes);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    if (called[rank].socket.valid() && !called[rank].answer(meeting.info.secret, welcome, meeting.deadline)) {
      return {HCCL_E_REMOTE, "rank " + std::to_string(rank) + " went away while the communicator was set up"};
    }
  }
  return {};
}

// Everybody else's. Opens the socket at which this rank accepts the ranks above it: at the address from which it reaches
// the root, which is the one at which the others reach it.
Trouble ask_root(const Meeting& meeting, Address* own, Socket* accepting, Others* others) {
  const Address& place = meeting.info.address;
  for (;;) {
    const Socket root = Socket::connect(place, meeting.deadline);
    if (root.valid() && !accepting->valid()) {
      if (options().hccl_if_ip.empty()) *own = root.local();
      *accepting = Socket::listen(own);
      if (!accepting->valid()) return {HCCL_E_NETWORK, "cannot listen at " + own->text()};
    }
    Answer answer{};
    if (root.valid() && introduce(root, meeting.info.secret, meeting.hello(*own), meeting.deadline, &answer)) {
      for (uint32_t rank = 0; rank < meeting.member.ranks; ++rank) {
        others->learn(rank, answer.addresses[rank], answer.processes[rank]);
      }
      return {};
    }
    const bool again = !root.valid() || answer.code == HCCL_E_AGAIN;
    if (!again)
      return {static_cast<HcclResult>(answer.code), "the root, rank 0 by custom, at " + place.text() + ": " + answer.text};
    if (now_ns() > meeting.deadline) {
      return {HCCL_E_TCP_CONNECT, "cannot connect to the root, rank 0 by custom, at " + place.text() + meeting.within() +
                                      "; where ranks are on several machines, HCCL_IF_IP on the root's is to be the address at "
                                      "which the others reach it"};
    }
    usleep(20000);
  }
}

// To a rank that is connected already, and might take this one for the cause.
void give_reason(const Socket& socket, const Trouble& why) {
  Frame frame{Frame::kFailure, 0, static_cast<uint64_t>(why.code), {}, why.text.size()};
  std::string data(reinterpret_cast<const char*>(&frame), sizeof frame);
  data += why.text;
  socket.write(data.data(), data.size(), now_ns() + kSecond / 10);
}

Trouble call_lower_ranks(const Meeting& meeting, const Others& others, std::vector<Socket>* sockets) {
  for (uint32_t peer = 0; peer < meeting.member.rank; ++peer) {
    Socket& socket = (*sockets)[peer];
    socket = Socket::connect(others.addresses[peer], meeting.deadline);
    Answer answer{};
    const bool met = socket.valid() && introduce(socket, meeting.info.secret, meeting.hello({}), meeting.deadline, &answer);
    if (!met) {
      return {HCCL_E_TCP_CONNECT, standing_still(others.processes) + "cannot connect to rank " + std::to_string(peer) + " at " +
                                      others.addresses[peer].text() + (socket.valid() ? std::string(": ") + answer.text : "")};
    }
  }
  return {};
}

// Whether a rank that is connected already has given up or ended: others may not come because of that.
Trouble news_of(uint32_t rank, const Socket& socket) {
  pollfd watched{socket.fd(), POLLIN | POLLRDHUP, 0};
  if (poll(&watched, 1, 0) != 1) return {};
  const bool ended = (watched.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
  Frame frame{};
  for (;;) {
    const bool here = recv(socket.fd(), &frame, sizeof frame, MSG_PEEK | MSG_DONTWAIT) == sizeof frame && frame.plausible();
    const bool failure = here && frame.type == Frame::kFailure;
    if (!here || (!failure && !ended)) break;
    const int64_t soon = now_ns() + kSecond / 10;
    std::string text(failure ? frame.bytes : 0, '\0');
    if (!socket.read(&frame, sizeof frame, soon) || !socket.read(text.data(), text.size(), soon)) break;
    if (failure) return {static_cast<HcclResult>(frame.number), text};
    if (frame.bytes != 0) break;
  }
  if (!ended) return {};
  return {HCCL_E_REMOTE, "rank " + std::to_string(rank) + " has ended while the communicator was set up"};
}

Trouble hear_upper_ranks(const Meeting& meeting, const Others& others, Acceptor& door, std::vector<Socket>* sockets) {
  const Member& member = meeting.member;
  for (uint32_t missing = member.ranks - 1 - member.rank; missing != 0;) {
    std::optional<Acceptor::Caller> caller = door.next(std::min(meeting.deadline, now_ns() + kSecond / 20));
    for (uint32_t rank = 0; rank < member.ranks && !caller; ++rank) {
      if (!(*sockets)[rank].valid()) continue;
      if (Trouble trouble = news_of(rank, (*sockets)[rank]); trouble.code != HCCL_SUCCESS) return trouble;
    }
    if (!caller && now_ns() < meeting.deadline) continue;
    if (!caller) {
      std::string text;
      for (uint32_t rank = member.rank + 1; rank < member.ranks; ++rank) {
        if (!(*sockets)[rank].valid()) text += (text.empty() ? "" : ", ") + std::to_string(rank);
      }
      return {HCCL_E_TIMEOUT, standing_still(others.processes) + "rank(s) " + text + " did not connect to rank " +
                                  std::to_string(member.rank) + meeting.within()};
    }
    const uint32_t rank = caller->hello.rank;
    if (rank <= member.rank || rank >= member.ranks || (*sockets)[rank].valid()) continue;
    if (!caller->answer(meeting.info.secret, Answer{}, meeting.deadline)) continue;
    (*sockets)[rank] = std::move(caller->socket);
    --missing;
  }
  return {};
}

}  // namespace

Mesh connect_all(const char* entry, const RootInfo& info, const Member& member, Acceptor* root, int64_t deadline_ns,
                 HcclResult* code) {
  const Meeting meeting{info, member, deadline_ns};
  Others others(member.ranks);
  std::vector<Socket> sockets(member.ranks);
  Address own = root != nullptr ? info.address : listening_address();
  Socket accepting;
  Trouble trouble;
  if (info.address.family == 0) {
    trouble = {HCCL_E_NETWORK, "the root's process has no network"};
  } else if (own.family == 0) {
    trouble = {HCCL_E_PARA, "HCCL_IF_IP=" + options().hccl_if_ip + " is not an IPv4 or IPv6 address"};
  } else if (root == nullptr) {
    trouble = ask_root(meeting, &own, &accepting, &others);
  } else if (accepting = Socket::listen(&own); accepting.valid()) {
    others.learn(member.rank, own, ProcessId::own());
    trouble = gather_addresses(meeting, *root, &others);
  } else {
    trouble = {HCCL_E_NETWORK, "cannot listen at " + own.text()};
  }
  if (trouble.code == HCCL_SUCCESS) {
    Acceptor door(std::move(accepting), info.secret);
    trouble = call_lower_ranks(meeting, others, &sockets);
    if (trouble.code == HCCL_SUCCESS) trouble = hear_upper_ranks(meeting, others, door, &sockets);
    // Who calls now, or has called in vain, might take this rank for the cause.
    while (trouble.code != HCCL_SUCCESS) {
      const std::optional<Acceptor::Caller> caller = door.next(now_ns() + kSecond / 10);
      if (!caller) break;
      refuse(meeting, *caller, trouble);
    }
  }
  if (trouble.code == HCCL_SUCCESS) return {std::move(sockets), std::move(others.processes)};
  for (const Socket& socket : sockets) {
    if (socket.valid()) give_reason(socket, trouble);
  }
  *code = static_cast<HcclResult>(fail(trouble.code, "%s: %s", entry, trouble.text.c_str()));
  return {};
}

}  // namespace softcann
