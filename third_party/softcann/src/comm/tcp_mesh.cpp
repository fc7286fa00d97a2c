#include "comm/tcp_mesh.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "rt/sync.h"

namespace softcann {
namespace {

constexpr int64_t kSecond = 1000000000;

// What a rank says when it calls the root, or another rank.
struct Hello {
  uint64_t nonce;
  uint32_t rank, ranks;
  Address address;  // where it accepts the ranks above it; its machine's part is replaced by what the root sees
};

// What the root answers: nothing is wrong if `text` is empty, and then the addresses of all ranks follow.
struct Answer {
  char text[160];
};

struct Meeting {
  const char* entry;
  const RootInfo& info;
  const Member& member;
  int64_t deadline;
  HcclResult* code;

  std::vector<Socket> refuse(HcclResult reason, const std::string& text) const {
    *code = static_cast<HcclResult>(fail(reason, "%s: %s", entry, text.c_str()));
    return {};
  }
  std::string within() const {
    return member.limits.connect_s == 0 ? "" : " within " + std::to_string(member.limits.connect_s) + " s (HCCL_CONNECT_TIMEOUT)";
  }
};

std::string wrong_hello(const Meeting& meeting, const Hello& hello, const std::vector<Socket>& called) {
  const Member& member = meeting.member;
  if (hello.nonce != meeting.info.nonce) return "the rootInfo is of another communicator";
  if (hello.ranks != member.ranks) {
    return "rank " + std::to_string(hello.rank) + " says there are " + std::to_string(hello.ranks) +
           " ranks, another rank said " + std::to_string(member.ranks);
  }
  if (hello.rank == member.rank || hello.rank >= called.size() || called[hello.rank].valid()) {
    return "rank " + std::to_string(hello.rank) + " has joined already";
  }
  return {};
}

// The root's side: hears from everybody, then tells everybody where the others are.
bool gather_addresses(const Meeting& meeting, const Socket& listener, std::vector<Address>* addresses, std::string* reason) {
  const uint32_t ranks = meeting.member.ranks;
  std::vector<Socket> called(ranks);
  for (uint32_t heard = 1; heard < ranks;) {
    Socket caller = listener.accept(meeting.deadline);
    if (!caller.valid()) {
      std::string absent;
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        if (rank != meeting.member.rank && !called[rank].valid()) absent += (absent.empty() ? "" : ", ") + std::to_string(rank);
      }
      *reason = "rank(s) " + absent + " of " + std::to_string(ranks) + " did not join" + meeting.within();
      return false;
    }
    Hello hello{};
    if (!caller.read(&hello, sizeof hello, now_ns() + 5 * kSecond)) continue;  // not a rank
    Answer answer{};
    const std::string wrong = wrong_hello(meeting, hello, called);
    if (!wrong.empty()) {
      std::snprintf(answer.text, sizeof answer.text, "%s", wrong.c_str());
      caller.write(&answer, sizeof answer, now_ns() + kSecond);
      continue;
    }
    Address seen = caller.peer();
    seen.port = hello.address.port;
    (*addresses)[hello.rank] = seen;
    called[hello.rank] = std::move(caller);
    ++heard;
  }
  const Answer welcome{};
  for (const Socket& rank : called) {
    if (!rank.valid()) continue;
    if (!rank.write(&welcome, sizeof welcome, meeting.deadline) ||
        !rank.write(addresses->data(), ranks * sizeof(Address), meeting.deadline)) {
      *reason = "a rank went away while the communicator was set up";
      return false;
    }
  }
  return true;
}

// Everybody else's.
bool ask_root(const Meeting& meeting, const Address& own, std::vector<Address>* addresses, std::string* reason) {
  Socket root;
  while (!(root = Socket::connect(meeting.info.address)).valid()) {
    if (now_ns() > meeting.deadline) {
      *reason = "cannot connect to the root at " + meeting.info.address.text() + meeting.within();
      return false;
    }
    usleep(20000);
  }
  const Hello hello{meeting.info.nonce, meeting.member.rank, meeting.member.ranks, own};
  Answer answer{};
  const bool answered = root.write(&hello, sizeof hello, meeting.deadline) && root.read(&answer, sizeof answer, meeting.deadline);
  *reason = answered ? answer.text : "the root did not answer, because it ended or other ranks did not join" + meeting.within();
  if (!reason->empty()) return false;
  if (root.read(addresses->data(), addresses->size() * sizeof(Address), meeting.deadline)) return true;
  *reason = "the root went away while the communicator was set up";
  return false;
}

}  // namespace

std::vector<Socket> connect_all(const char* entry, const RootInfo& info, const Member& member, Socket listener,
                                HcclResult* code) {
  const int64_t limit = member.limits.connect_s == 0 ? int64_t{1} << 40 : member.limits.connect_s;
  const Meeting meeting{entry, info, member, now_ns() + limit * kSecond, code};
  if (info.address.family == 0) return meeting.refuse(HCCL_E_NETWORK, "the root's process has no network");
  Address own;
  Socket accepting = Socket::listen(&own);
  if (!accepting.valid()) return meeting.refuse(HCCL_E_NETWORK, "cannot listen at " + own.text());
  std::vector<Address> addresses(member.ranks);
  addresses[member.rank] = own;
  std::string reason;
  const bool met =
      listener.valid() ? gather_addresses(meeting, listener, &addresses, &reason) : ask_root(meeting, own, &addresses, &reason);
  if (!met) return meeting.refuse(reason.find("did not join") != std::string::npos ? HCCL_E_TIMEOUT : HCCL_E_TCP_CONNECT, reason);

  std::vector<Socket> sockets(member.ranks);
  for (uint32_t peer = 0; peer < member.rank; ++peer) {
    sockets[peer] = Socket::connect(addresses[peer]);
    const Hello hello{info.nonce, member.rank, member.ranks, {}};
    if (!sockets[peer].valid() || !sockets[peer].write(&hello, sizeof hello, meeting.deadline)) {
      return meeting.refuse(HCCL_E_TCP_CONNECT,
                            "cannot connect to rank " + std::to_string(peer) + " at " + addresses[peer].text());
    }
  }
  for (uint32_t missing = member.ranks - 1 - member.rank; missing != 0;) {
    Socket caller = accepting.accept(meeting.deadline);
    Hello hello{};
    if (!caller.valid()) return meeting.refuse(HCCL_E_TIMEOUT, "a rank did not connect" + meeting.within());
    if (!caller.read(&hello, sizeof hello, now_ns() + 5 * kSecond)) continue;
    if (hello.nonce != info.nonce || hello.rank <= member.rank || hello.rank >= member.ranks || sockets[hello.rank].valid())
      continue;
    sockets[hello.rank] = std::move(caller);
    --missing;
  }
  return sockets;
}

}  // namespace softcann
