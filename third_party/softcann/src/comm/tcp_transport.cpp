#include "comm/tcp_transport.h"

#include <cstring>

#include "comm/reduce.h"
#include "rt/base/sync.h"

namespace softcann {
namespace {

using Transfers = TcpEngine::Transfers;

bool among(uint64_t set, uint32_t rank) { return (set >> rank & 1) != 0; }

// Share `index` of `shares` of a buffer of `count` elements.
Part share_of(uint64_t count, uint64_t item, uint32_t index, uint32_t shares) {
  const uint64_t first = count * index / shares, end = count * (index + 1) / shares;
  return Part{first * item, (end - first) * item};
}

}  // namespace

TcpTransport::TcpTransport(uint32_t rank, Mesh mesh, int64_t execute_limit_s)
    : rank_(rank),
      ranks_(static_cast<uint32_t>(mesh.sockets.size())),
      others_((ranks_ == 64 ? UINT64_MAX : (uint64_t{1} << ranks_) - 1) & ~(uint64_t{1} << rank)),
      limit_s_(execute_limit_s),
      processes_(std::move(mesh.processes)),
      numbering_(ranks_),
      engine_(rank, std::move(mesh.sockets)) {}

int64_t TcpTransport::deadline(const Operation& operation) const {
  return limit_s_ == 0 ? INT64_MAX : operation.started_ns + limit_s_ * 1000000000;
}

aclError TcpTransport::run(Operation& operation, bool) {
  if (operation.started_ns == 0) operation.started_ns = now_ns();
  std::string text;
  if (engine_.failure(&text) == HCCL_SUCCESS &&
      (operation.messages.empty() ? collective(operation) && check_earlier(operation) : messages(operation))) {
    return ACL_SUCCESS;
  }
  const HcclResult code = engine_.failure(&text);
  task_error("%s", text.c_str());
  return stream_error_of(code);
}

bool TcpTransport::invite(uint64_t key, const void* data, size_t bytes) {
  engine_.invite(Frame{Frame::kInvite, 0, key, {}, 0}, data, bytes);
  return true;
}

void TcpTransport::withdraw(uint64_t key) { engine_.invite(Frame{Frame::kWithdraw, 0, key, {}, 0}, nullptr, 0); }

bool TcpTransport::invited(uint32_t rank, uint64_t key, void* data, size_t bytes) {
  return engine_.invited(rank, key, data, bytes);
}

void TcpTransport::late(const Operation& operation, uint64_t missing) {
  std::string text;
  if (engine_.failure(&text) != HCCL_SUCCESS) return;
  const std::string what = describe(operation.call) + " (call " + std::to_string(operation.number) + ")";
  const std::string who = list_of(missing);
  // A peer that left is noticed at once, so it cannot be the time limit unless that is over.
  if (operation.started_ns != 0 && limit_s_ != 0 && now_ns() - operation.started_ns >= limit_s_ * 1000000000) {
    // Who is missing, or does not answer, may merely be slow: what the kernel says of others comes first.
    const std::string certain = standing_still(processes_), why = certain.empty() ? engine_.why(missing) : "";
    fail(HCCL_E_TIMEOUT, what + ": " + certain + "rank(s) " + who + " did not come to rank " + std::to_string(rank_) +
                             " within " + std::to_string(limit_s_) + " s (HCCL_EXEC_TIMEOUT)" + (why.empty() ? "" : ": " + why));
  } else {
    fail(HCCL_E_REMOTE, "rank " + who + " has destroyed the communicator while " + what + " was waiting for it in rank " +
                            std::to_string(rank_));
  }
}

HcclResult TcpTransport::meet(const char* entry, int64_t deadline_ns) {
  Transfers transfers;
  const Frame ready{Frame::kReady, 0, 0, {}, 0};
  for (uint32_t peer = 0; peer < ranks_; ++peer) {
    if (peer == rank_) continue;
    transfers.emplace_back(peer, engine_.expect(peer, ready, nullptr));
    transfers.emplace_back(peer, engine_.send(peer, ready, nullptr));
  }
  uint64_t missing = 0;
  if (engine_.wait(transfers, deadline_ns, &missing)) return HCCL_SUCCESS;
  std::string text;
  if (engine_.failure(&text) == HCCL_SUCCESS) {
    fail(HCCL_E_TIMEOUT, standing_still(processes_) + "rank(s) " + list_of(missing) + " of " + std::to_string(ranks_) +
                             " did not get connected to all others within HCCL_CONNECT_TIMEOUT");
  }
  const HcclResult code = engine_.failure(&text);
  return static_cast<HcclResult>(softcann::fail(code, "%s: %s", entry, text.c_str()));
}

bool TcpTransport::check_frame(const Operation& operation, uint32_t peer, const Frame& found, uint64_t expected) {
  const Call &own = operation.call, &other = found.call;
  if (other.kind != own.kind || other.type != own.type || other.op != own.op || other.root != own.root ||
      other.count != own.count) {
    differs(other, peer, own, operation.number);
    return false;
  }
  if (found.bytes == expected) return true;
  const std::string where = " (call " + std::to_string(operation.number) + ")";
  const uint64_t item = bytes_of(static_cast<HcclDataType>(own.type));
  fail(HCCL_E_PARA, describe(own) + where + ": rank " + std::to_string(peer) + " sends " + std::to_string(found.bytes / item) +
                        " elements to rank " + std::to_string(rank_) + ", which expects " + std::to_string(expected / item));
  return false;
}

void TcpTransport::differs(const Call& found, uint32_t peer, const Call& own, uint64_t number) {
  fail(HCCL_E_PARA, "the ranks call different things (call " + std::to_string(number) + "): rank " + std::to_string(peer) +
                        " calls " + describe(found) + ", rank " + std::to_string(rank_) + " calls " + describe(own));
}

// What has come for an earlier call from a rank that this one expected nothing of: that rank names another root.
bool TcpTransport::check_earlier(const Operation& operation) {
  constexpr size_t kRemembered = 1024;  // a rank that waits for nobody may be far ahead of the one that it differs from
  std::lock_guard<std::mutex> lock(rooted_mutex_);
  uint32_t peer = 0;
  Frame found{};
  if (engine_.left_over(rooted_, &peer, &found)) {
    differs(found.call, peer, rooted_.at(found.number), found.number);
    return false;
  }
  const int kind = operation.call.kind;
  if (kind != HCCL_CMD_BROADCAST && kind != HCCL_CMD_SCATTER && kind != HCCL_CMD_REDUCE) return true;
  rooted_.emplace(operation.number, operation.call);
  if (rooted_.size() > kRemembered) rooted_.erase(rooted_.begin());
  return true;
}

bool TcpTransport::exchange(const Operation& operation, uint32_t step, uint64_t to, const std::vector<Piece>& out, uint64_t from,
                            const std::vector<Part>& in, char* base) {
  Transfers transfers;
  Frame frame{Frame::kCollective, step, operation.number, operation.call, 0};
  // A frame is as long as the sender says; with another one here, nothing is written.
  for (uint32_t i = 1; i < ranks_; ++i) {
    const uint32_t peer = (rank_ + i) % ranks_;
    if (!among(from, peer)) continue;
    frame.bytes = in[peer].bytes;
    transfers.emplace_back(peer, engine_.expect(peer, frame, base + in[peer].offset));
  }
  const size_t receiving = transfers.size();
  for (uint32_t i = 1; i < ranks_; ++i) {
    const uint32_t peer = (rank_ + i) % ranks_;
    if (!among(to, peer)) continue;
    frame.bytes = out[peer].bytes;
    transfers.emplace_back(peer, engine_.send(peer, frame, out[peer].data));
  }
  uint64_t missing = 0;
  if (!engine_.wait(transfers, deadline(operation), &missing)) {
    late(operation, missing);
    return false;
  }
  for (size_t i = 0; i < receiving; ++i) {
    const uint32_t rank = transfers[i].first;
    if (!check_frame(operation, rank, transfers[i].second->frame, in[rank].bytes)) return false;
  }
  return true;
}

// Everybody adds up a share of the elements, then hands it round.
bool TcpTransport::all_reduce(const Operation& operation) {
  const Call& call = operation.call;
  const auto type = static_cast<HcclDataType>(call.type);
  const uint64_t item = bytes_of(type);
  std::vector<Piece> out(ranks_);
  std::vector<Part> shares(ranks_), in(ranks_);
  for (uint32_t rank = 0; rank < ranks_; ++rank) shares[rank] = share_of(call.count, item, rank, ranks_);
  const uint64_t own = shares[rank_].bytes;
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    out[rank] = Piece{operation.send.data + shares[rank].offset, shares[rank].bytes};
    in[rank] = Part{rank * own, own};
  }
  std::vector<char> parts(own * ranks_);
  if (!exchange(operation, 0, others_, out, others_, in, parts.data())) return false;
  const char* from[kMaxRanks];
  for (uint32_t rank = 0; rank < ranks_; ++rank) from[rank] = rank == rank_ ? out[rank_].data : parts.data() + rank * own;
  char* to[] = {operation.receive.data + shares[rank_].offset};
  reduce(type, static_cast<HcclReduceOp>(call.op), from, ranks_, to, 1, own / item);
  for (uint32_t rank = 0; rank < ranks_; ++rank) out[rank] = Piece{to[0], own};
  return exchange(operation, 1, others_, out, others_, shares, operation.receive.data);
}

// Reduce and ReduceScatter: everybody sends to `participants` what is theirs; those add it up.
bool TcpTransport::reduce_own(const Operation& operation, uint64_t participants) {
  const Call& call = operation.call;
  const auto type = static_cast<HcclDataType>(call.type);
  std::vector<Piece> out(ranks_);
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    Part part{call.kind == HCCL_CMD_REDUCE ? 0 : rank * block_bytes(call), block_bytes(call)};
    if (!operation.send_parts.empty()) part = operation.send_parts[rank];
    out[rank] = Piece{operation.send.data + part.offset, part.bytes};
  }
  const bool takes_part = among(participants, rank_);
  const uint64_t own = takes_part ? out[rank_].bytes : 0;
  std::vector<char> parts(own * ranks_);
  std::vector<Part> in(ranks_);
  for (uint32_t rank = 0; rank < ranks_; ++rank) in[rank] = Part{rank * own, own};
  if (!exchange(operation, 0, participants & others_, out, takes_part ? others_ : 0, in, parts.data())) return false;
  if (!takes_part) return true;
  const char* from[kMaxRanks];
  for (uint32_t rank = 0; rank < ranks_; ++rank) from[rank] = rank == rank_ ? out[rank_].data : parts.data() + rank * own;
  char* to[] = {operation.receive.data};
  reduce(type, static_cast<HcclReduceOp>(call.op), from, ranks_, to, 1, own / bytes_of(type));
  return true;
}

bool TcpTransport::collective(const Operation& operation) {
  const Call& call = operation.call;
  const uint64_t all = others_ | uint64_t{1} << rank_, root = uint64_t{1} << call.root;
  const uint64_t block = block_bytes(call);
  if (call.kind == HCCL_CMD_ALLREDUCE) return all_reduce(operation);
  if (call.kind == HCCL_CMD_REDUCE) return reduce_own(operation, root);
  if (call.kind == HCCL_CMD_REDUCE_SCATTER || call.kind == HCCL_CMD_REDUCE_SCATTER_V) return reduce_own(operation, all);
  std::vector<Piece> out(ranks_);
  std::vector<Part> in(ranks_);
  const bool parts_of_send = call.kind == HCCL_CMD_ALLTOALL || call.kind == HCCL_CMD_SCATTER;
  const bool parts_of_receive = call.kind == HCCL_CMD_ALLTOALL || call.kind == HCCL_CMD_ALLGATHER;
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    Part part{parts_of_send ? rank * block : 0, call.kind == HCCL_CMD_ALLGATHER_V ? operation.send.bytes : block};
    if (!operation.send_parts.empty()) part = operation.send_parts[rank];
    out[rank] = Piece{operation.send.data + part.offset, part.bytes};
    in[rank] = operation.receive_parts.empty() ? Part{parts_of_receive ? rank * block : 0, block} : operation.receive_parts[rank];
  }
  uint64_t to = others_, from = others_;
  const bool from_root = call.kind == HCCL_CMD_BROADCAST || call.kind == HCCL_CMD_SCATTER;
  if (from_root) {
    to = call.root == rank_ ? others_ : 0;
    from = root & others_;
  }
  if (!exchange(operation, 0, to, out, from, in, operation.receive.data)) return false;
  const bool keeps = call.kind != HCCL_CMD_BROADCAST && (call.kind != HCCL_CMD_SCATTER || call.root == rank_);
  char* own = operation.receive.data + in[rank_].offset;
  if (keeps && out[rank_].bytes != 0 && own != out[rank_].data) std::memmove(own, out[rank_].data, out[rank_].bytes);
  return true;
}

bool TcpTransport::messages(const Operation& operation) {
  Transfers transfers;
  std::vector<const Message*> received;
  for (const Message& message : operation.messages) {
    const Frame frame{Frame::kMessage, 0, message.number, message.call, message.buffer.bytes};
    if (message.send) continue;
    transfers.emplace_back(message.peer, engine_.expect(message.peer, frame, message.buffer.data));
    received.push_back(&message);
  }
  for (const Message& message : operation.messages) {
    const Frame frame{Frame::kMessage, 0, message.number, message.call, message.buffer.bytes};
    if (message.send) transfers.emplace_back(message.peer, engine_.send(message.peer, frame, message.buffer.data));
  }
  uint64_t missing = 0;
  if (!engine_.wait(transfers, deadline(operation), &missing)) {
    late(operation, missing);
    return false;
  }
  for (size_t i = 0; i < received.size(); ++i) {
    const Frame& frame = transfers[i].second->frame;
    const Call &sent = frame.call, &wanted = received[i]->call;
    // With another number of bytes nothing was written, whatever the call says.
    if (sent.type == wanted.type && sent.count == wanted.count && frame.bytes == received[i]->buffer.bytes) continue;
    const auto what = [](const Call& call) {
      return std::to_string(call.count) + " " + name_of(static_cast<HcclDataType>(call.type));
    };
    fail(HCCL_E_PARA, "rank " + std::to_string(received[i]->peer) + " sends " + what(sent) + " (" + std::to_string(frame.bytes) +
                          " bytes) to rank " + std::to_string(rank_) + ", which expects " + what(wanted));
    return false;
  }
  return true;
}

}  // namespace softcann
