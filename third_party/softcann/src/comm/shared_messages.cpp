// Point-to-point messages on shared memory.
#include <algorithm>
#include <cstring>

#include "comm/shared_transport.h"

namespace softcann {
namespace {

// Note [Messages]
// A short message is copied into its lane, and the sender is done. For a long one both ranks copy, straight from the
// sender's buffer to the receiver's, a piece at a time, whoever is free; both are done when all pieces are copied.
enum Stage { kStart, kPosted, kDone };

constexpr uint64_t kPiece = 256 << 10;

uint32_t pieces_of(uint64_t bytes) { return static_cast<uint32_t>((bytes + kPiece - 1) / kPiece); }

}  // namespace

bool SharedTransport::check_message(const Call& sent, const Call& wanted, uint32_t from, uint32_t to) {
  if (sent.type == wanted.type && sent.count == wanted.count) return true;
  const auto what = [](const Call& call) {
    return std::to_string(call.count) + " " + name_of(static_cast<HcclDataType>(call.type));
  };
  mismatch("rank " + std::to_string(from) + " sends " + what(sent) + " to rank " + std::to_string(to) + ", which expects " +
           what(wanted));
  return false;
}

// Copies pieces as long as there are any. True when all are copied, by whomever.
bool SharedTransport::copy_pieces(Message& message, Lane& lane) {
  const uint32_t from = message.send ? rank_ : message.peer, to = message.send ? message.peer : rank_;
  const uint64_t bytes = message.buffer.bytes;
  const uint32_t pieces = pieces_of(bytes);
  while (lane.next_piece.load(std::memory_order_relaxed) < pieces) {
    const uint32_t piece = lane.next_piece.fetch_add(1, std::memory_order_relaxed);
    if (piece >= pieces) break;
    const uint64_t first = piece * kPiece;
    std::memmove(views_[to] + lane.target + first, views_[from] + lane.source + first, std::min(kPiece, bytes - first));
    if (lane.copied_pieces.fetch_add(1, std::memory_order_seq_cst) + 1 == pieces) control_.ring(rank_, message.peer);
  }
  return lane.copied_pieces.load(std::memory_order_acquire) == pieces;
}

// Takes the message as far as it goes without waiting; true when it is through.
bool SharedTransport::advance_send(Message& message, Lane& lane) {
  const uint64_t number = message.number, before = number - kLanes + 1;
  if (message.stage == kStart) {
    const bool free = number < kLanes || (lane.received.load(std::memory_order_acquire) == before &&
                                          lane.left.load(std::memory_order_acquire) == before);
    if (!free) return false;
    message.call.direct = message.buffer.bytes > sizeof lane.body ? 1 : 0;
    lane.call = message.call;
    if (message.call.direct != 0) {
      lane.source = message.buffer.place;
      lane.next_piece.store(0, std::memory_order_relaxed);
      lane.copied_pieces.store(0, std::memory_order_relaxed);
    } else if (message.buffer.bytes != 0) {
      std::memcpy(lane.body, message.buffer.data, message.buffer.bytes);
    }
    lane.sent.store(number + 1, std::memory_order_seq_cst);
    control_.ring(rank_, message.peer);
    message.stage = kPosted;
  }
  if (message.call.direct != 0) {
    if (lane.wanted.load(std::memory_order_acquire) != number + 1) return false;
    if (!check_message(message.call, lane.wanted_call, rank_, message.peer)) return true;
    if (!copy_pieces(message, lane)) return false;
  }
  lane.left.store(number + 1, std::memory_order_seq_cst);
  control_.ring(rank_, message.peer);
  return true;
}

bool SharedTransport::advance_receive(Message& message, Lane& lane) {
  const uint64_t number = message.number, before = number - kLanes + 1;
  if (message.stage == kStart) {
    // The sender may still be looking at what this rank wrote here before.
    if (number >= kLanes && lane.left.load(std::memory_order_acquire) < before) return false;
    lane.wanted_call = message.call;
    lane.target = message.buffer.place;
    lane.wanted.store(number + 1, std::memory_order_seq_cst);
    control_.ring(rank_, message.peer);
    message.stage = kPosted;
  }
  if (lane.sent.load(std::memory_order_acquire) != number + 1) return false;
  if (!check_message(lane.call, message.call, message.peer, rank_)) return true;
  if (lane.call.direct != 0) {
    if (!copy_pieces(message, lane)) return false;
  } else if (message.buffer.bytes != 0) {
    std::memcpy(message.buffer.data, lane.body, message.buffer.bytes);
  }
  lane.received.store(number + 1, std::memory_order_seq_cst);
  control_.ring(rank_, message.peer);
  return true;
}

bool SharedTransport::advance(Message& message) {
  if (message.stage == kDone) return true;
  const uint32_t from = message.send ? rank_ : message.peer, to = message.send ? message.peer : rank_;
  Lane& lane = control_.lane(from, to, message.number);
  if (message.send ? advance_send(message, lane) : advance_receive(message, lane)) message.stage = kDone;
  return message.stage == kDone;
}

aclError SharedTransport::run_messages(Operation& operation, bool brief) {
  if (broken()) return result();
  const Outcome outcome = wait(operation, brief, true, [&] {
    uint64_t missing = 0;
    for (Message& message : operation.messages) {
      if (!advance(message)) missing |= uint64_t{1} << message.peer;
    }
    return missing;
  });
  if (outcome == Outcome::kLate) return kUnfinished;
  return outcome == Outcome::kBroken || broken() ? result() : ACL_SUCCESS;
}

}  // namespace softcann
