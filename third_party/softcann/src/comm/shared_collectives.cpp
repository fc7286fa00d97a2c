// Collectives on shared memory. Every rank computes its share straight out of, and into, the others' buffers.
#include <algorithm>
#include <cstring>

#include "comm/reduce.h"
#include "comm/shared_transport.h"
#include "rt/base/streaming_copy.h"

namespace softcann {
namespace {

// Note [Shares]
// Data that are few go through the posts: a rank writes its own, reads the others' and computes all it needs; one
// exchange is enough. Otherwise the posts tell where the buffers lie, and a rank may go on only when all have finished
// with its buffers: two exchanges. The elements are split so that each is computed by exactly one rank, always adding up
// in the order of ranks; so results are the same on all ranks and at all times.

// At the start of a post's body.
struct Details {
  uint64_t send_place, receive_place;  // where a direct post's buffers lie
  uint64_t send_bytes;
};
// Then a Part for each rank if the call tells ranks apart, then the data of a post that is not direct.

bool has_table(const Call& call) {
  return call.kind == HCCL_CMD_ALLTOALLV || call.kind == HCCL_CMD_ALLTOALLVC || call.kind == HCCL_CMD_REDUCE_SCATTER_V;
}

Details& details(Post& post) { return *reinterpret_cast<Details*>(post.body); }
Part* table(Post& post) { return reinterpret_cast<Part*>(post.body + sizeof(Details)); }
size_t data_offset(const Call& call, uint32_t ranks) { return sizeof(Details) + (has_table(call) ? ranks * sizeof(Part) : 0); }

bool sends_whole_table(uint8_t kind) {
  return kind == HCCL_CMD_ALLTOALL || kind == HCCL_CMD_REDUCE_SCATTER || kind == HCCL_CMD_SCATTER;
}

// Share `index` of `shares` of `count` elements, cut at cache lines.
void share_of(uint64_t count, size_t item, uint32_t index, uint32_t shares, uint64_t* first, uint64_t* length) {
  const uint64_t unit = std::max<uint64_t>(1, 2 * kCacheLine / item);
  const uint64_t units = (count + unit - 1) / unit;
  const uint64_t begin = std::min(count, units * index / shares * unit);
  *first = begin;
  *length = std::min(count, units * (index + 1) / shares * unit) - begin;
}

void copy(char* to, const char* from, uint64_t bytes) {
  if (bytes == 0 || to == from) return;
  const bool apart = to + bytes <= from || from + bytes <= to;
  if (apart) return copy_bytes(to, from, bytes);
  std::memmove(to, from, bytes);
}

}  // namespace

// Who has not completed the operation that had this slot before.
uint64_t SharedTransport::slot_users(uint64_t number) {
  if (number < kSlots) return 0;
  const uint64_t needed = number - kSlots + 1;
  if (known_completed_.load(std::memory_order_relaxed) >= needed) return 0;
  uint64_t users = 0, least = UINT64_MAX;
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    const uint64_t completed = control_.state(rank).completed.load(std::memory_order_acquire);
    least = std::min(least, completed);
    if (completed < needed) users |= uint64_t{1} << rank;
  }
  known_completed_.store(least, std::memory_order_relaxed);
  return users;
}

// All ranks come to the same answer, or it does not matter (the V variants) as each post says what it is.
bool SharedTransport::fits(const Operation& operation) const {
  const Call& call = operation.call;
  const size_t room = sizeof(Post::body) - data_offset(call, ranks_);
  if (call.kind == HCCL_CMD_SCATTER) return block_bytes(call) * ranks_ <= room;
  if (call.kind == HCCL_CMD_BROADCAST) return block_bytes(call) <= room;
  if (!operation.send_parts.empty()) {
    uint64_t total = 0;
    for (const Part& part : operation.send_parts) total += part.bytes;
    return total <= room;
  }
  return operation.send.bytes <= room;
}

void SharedTransport::post(Operation& operation) {
  Post& own = control_.post(operation.number, rank_);
  own.ready.store(0, std::memory_order_relaxed);
  own.told.store(in_a_word(operation.call), std::memory_order_release);  // whoever reads it sees that `ready` is 0
  own.call = operation.call;
  own.call.direct = fits(operation) ? 0 : 1;
  operation.call.direct = own.call.direct;
  const bool root_only = operation.call.kind == HCCL_CMD_BROADCAST || operation.call.kind == HCCL_CMD_SCATTER;
  details(own).send_bytes = operation.send.bytes;
  if (own.call.direct != 0) {
    details(own).send_place = operation.send.place;
    details(own).receive_place = operation.receive.place;
    if (has_table(own.call)) std::copy(operation.send_parts.begin(), operation.send_parts.end(), table(own));
  } else {
    char* at = own.body + data_offset(own.call, ranks_);
    if (has_table(own.call)) {
      uint64_t packed = 0;
      for (uint32_t rank = 0; rank < ranks_; ++rank) {
        const Part& part = operation.send_parts[rank];
        if (part.bytes != 0)
          std::memcpy(at + packed, operation.send.data + part.offset, part.bytes);  // else there may be no data
        table(own)[rank] = Part{packed, part.bytes};
        packed += part.bytes;
      }
    } else if (operation.send.bytes != 0 && (!root_only || operation.call.root == rank_)) {
      std::memcpy(at, operation.send.data, operation.send.bytes);
    }
  }
  own.ready.store(operation.number + 1, std::memory_order_seq_cst);
  control_.ring_all(rank_);
}

// Whose posts this rank needs.
uint64_t SharedTransport::sources(const Operation& operation) const {
  const Call& call = operation.call;
  const uint64_t root = uint64_t{1} << call.root;
  if (call.direct != 0) return others();
  if (call.kind == HCCL_CMD_BROADCAST || call.kind == HCCL_CMD_SCATTER) return root & others();
  if (call.kind == HCCL_CMD_REDUCE && call.root != rank_) return 0;
  return others();
}

// Compares what the peers do with what this rank does. *direct: somebody's data are in its own memory.
bool SharedTransport::check_posts(const Operation& operation, uint64_t peers, bool* direct) {
  for (uint32_t peer = 0; peer < ranks_; ++peer) {
    if ((peers >> peer & 1) == 0) continue;
    const Call& call = operation.call;
    const Call& found = control_.post(operation.number, peer).call;
    if (found.kind != call.kind || found.type != call.type || found.op != call.op || found.root != call.root ||
        found.count != call.count) {
      differs(found, peer, call, operation.number);
      return false;
    }
    *direct = *direct || found.direct != 0;
    if (operation.receive_parts.empty()) continue;
    uint64_t bytes = 0;
    sent_to_me(operation, peer, &bytes);
    const uint64_t expected = operation.receive_parts[peer].bytes;
    if (bytes == expected) continue;
    const uint64_t item = bytes_of(static_cast<HcclDataType>(call.type));
    mismatch(describe(call) + " (call " + std::to_string(operation.number) + "): rank " + std::to_string(peer) + " sends " +
             std::to_string(bytes / item) + " elements to rank " + std::to_string(rank_) + ", which expects " +
             std::to_string(expected / item));
    return false;
  }
  return true;
}

aclError SharedTransport::differs(const Call& found, uint32_t peer, const Call& call, uint64_t number) {
  return mismatch("the ranks call different things (call " + std::to_string(number) + " of communicator " +
                  control_.state(rank_).name + "): rank " + std::to_string(peer) + " calls " + describe(found) + ", rank " +
                  std::to_string(rank_) + " calls " + describe(call));
}

// Notes that `operation` ends without having seen the posts of `peers`.
void SharedTransport::check_later(const Operation& operation, uint64_t peers) {
  if (peers == 0) return;
  std::lock_guard<std::mutex> lock(unchecked_mutex_);
  unchecked_.push_back({operation.number, peers, operation.call});
  has_unchecked_.store(true, std::memory_order_relaxed);
}

// Compares those calls with the posts that have come since. Whose slot call `number` takes is looked at for the last time.
bool SharedTransport::check_earlier(uint64_t number) {
  if (!has_unchecked_.load(std::memory_order_relaxed)) return true;
  std::lock_guard<std::mutex> lock(unchecked_mutex_);
  for (Unchecked& earlier : unchecked_) {
    for (uint64_t rest = earlier.peers; rest != 0; rest &= rest - 1) {
      const auto peer = static_cast<uint32_t>(__builtin_ctzll(rest));
      const Post& post = control_.post(earlier.number, peer);
      if (post.ready.load(std::memory_order_acquire) != earlier.number + 1) continue;
      const uint64_t told = post.told.load(std::memory_order_acquire);
      if (post.ready.load(std::memory_order_relaxed) != earlier.number + 1) continue;
      earlier.peers &= ~(uint64_t{1} << peer);
      if (told == in_a_word(earlier.call)) continue;
      differs(from_word(told), peer, earlier.call, earlier.number);
      return false;
    }
  }
  unchecked_.erase(
      std::remove_if(unchecked_.begin(), unchecked_.end(),
                     [&](const Unchecked& earlier) { return earlier.peers == 0 || earlier.number + kSlots <= number; }),
      unchecked_.end());
  has_unchecked_.store(!unchecked_.empty(), std::memory_order_relaxed);
  return true;
}

// Where the data lie that `peer` has for this rank.
const char* SharedTransport::sent_to_me(const Operation& operation, uint32_t peer, uint64_t* bytes) const {
  const Call& call = operation.call;
  const uint64_t block = block_bytes(call);
  const char* base = operation.send.data;
  Part part{sends_whole_table(call.kind) ? rank_ * block : 0, block};
  if (peer == rank_) {
    if (!operation.send_parts.empty()) part = operation.send_parts[rank_];
    if (call.kind == HCCL_CMD_ALLGATHER_V) part.bytes = operation.send.bytes;
  } else {
    Post& post = control_.post(operation.number, peer);
    base = post.call.direct != 0 ? views_[peer] + details(post).send_place : post.body + data_offset(call, ranks_);
    if (has_table(call)) part = table(post)[rank_];
    if (call.kind == HCCL_CMD_ALLGATHER_V) part.bytes = details(post).send_bytes;
  }
  *bytes = part.bytes;
  return base + part.offset;
}

// Direct AllReduce and Reduce: this rank computes its share of the elements for everybody who wants them.
void SharedTransport::reduce_everywhere(const Operation& operation) {
  const auto type = static_cast<HcclDataType>(operation.call.type);
  uint64_t first = 0, length = 0;
  share_of(operation.call.count, bytes_of(type), rank_, ranks_, &first, &length);
  const char* from[kMaxRanks];
  char* to[kMaxRanks];
  uint32_t targets = 0;
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    const Details& other = details(control_.post(operation.number, rank));
    from[rank] = views_[rank] + other.send_place + first * bytes_of(type);
    if (operation.call.kind == HCCL_CMD_REDUCE && operation.call.root != rank) continue;
    to[targets++] = views_[rank] + other.receive_place + first * bytes_of(type);
  }
  reduce(type, static_cast<HcclReduceOp>(operation.call.op), from, ranks_, to, targets, length);
}

// All other reductions: what is for this rank.
void SharedTransport::reduce_here(const Operation& operation) {
  const auto type = static_cast<HcclDataType>(operation.call.type);
  const char* from[kMaxRanks];
  uint64_t bytes = 0;
  for (uint32_t rank = 0; rank < ranks_; ++rank) from[rank] = sent_to_me(operation, rank, &bytes);
  char* to[] = {operation.receive.data};
  reduce(type, static_cast<HcclReduceOp>(operation.call.op), from, ranks_, to, 1, bytes / bytes_of(type));
}

// A direct broadcast: root and receiver share the work of each copy, so that root's CPU does not stand idle.
void SharedTransport::broadcast(const Operation& operation) {
  const uint32_t root = operation.call.root;
  const uint64_t bytes = block_bytes(operation.call);
  uint64_t first = 0, length = 0;
  share_of(bytes, 1, 0, ranks_, &first, &length);
  const auto buffer = [&](uint32_t rank) { return views_[rank] + details(control_.post(operation.number, rank)).receive_place; };
  if (rank_ != root) return copy(buffer(rank_) + length, buffer(root) + length, bytes - length);
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    if (rank != root) copy(buffer(rank), buffer(root), length);
  }
}

// Copies what each of `peers` has for this rank to its place.
void SharedTransport::gather(const Operation& operation, uint64_t peers) {
  const Call& call = operation.call;
  const bool by_rank = call.kind == HCCL_CMD_ALLGATHER || call.kind == HCCL_CMD_ALLTOALL;
  // What all ranks read is read by all at the same time: then it comes from memory once, and from a cache for the others. Else
  // each rank begins with another peer.
  const bool same_for_all = call.kind == HCCL_CMD_ALLGATHER || call.kind == HCCL_CMD_ALLGATHER_V;
  for (uint32_t i = 0; i < ranks_; ++i) {
    const uint32_t peer = same_for_all ? i : (rank_ + i) % ranks_;
    if ((peers >> peer & 1) == 0) continue;
    uint64_t bytes = 0;
    const char* from = sent_to_me(operation, peer, &bytes);
    const uint64_t offset = !operation.receive_parts.empty() ? operation.receive_parts[peer].offset : by_rank ? peer * bytes : 0;
    copy(operation.receive.data + offset, from, bytes);
  }
}

void SharedTransport::move_data(const Operation& operation) {
  const Call& call = operation.call;
  switch (call.kind) {
    case HCCL_CMD_BARRIER:
      return;
    case HCCL_CMD_ALLREDUCE:
    case HCCL_CMD_REDUCE:
      if (call.direct != 0) return reduce_everywhere(operation);
      if (call.kind == HCCL_CMD_REDUCE && call.root != rank_) return;
      return reduce_here(operation);
    case HCCL_CMD_REDUCE_SCATTER:
    case HCCL_CMD_REDUCE_SCATTER_V:
      return reduce_here(operation);
    case HCCL_CMD_BROADCAST:
      if (call.direct != 0) return broadcast(operation);
      if (call.root == rank_) return;
      return gather(operation, uint64_t{1} << call.root);
    case HCCL_CMD_SCATTER:
      return gather(operation, uint64_t{1} << call.root);
    default:
      return gather(operation, all_);
  }
}

void SharedTransport::complete(uint64_t number) {
  while (completing_.test_and_set(std::memory_order_acquire)) cpu_relax();
  finished_[number % kSlots] = number + 1;
  const uint64_t before = completed_;
  while (finished_[completed_ % kSlots] == completed_ + 1) ++completed_;
  if (completed_ != before) control_.state(rank_).completed.store(completed_, std::memory_order_seq_cst);
  completing_.clear(std::memory_order_release);
  control_.ring_all(rank_);
}

aclError SharedTransport::run_collective(Operation& operation, bool brief) {
  const uint64_t number = operation.number;
  if (broken()) return result();
  if (operation.stage == 0) {
    const Outcome outcome = wait(operation, brief, false, [&] { return slot_users(number); });
    if (outcome != Outcome::kReady) return outcome == Outcome::kLate ? kUnfinished : result();
    if (!check_earlier(number)) return result();
    post(operation);
    operation.stage = 1;
  }
  if (operation.stage == 1) {
    const uint64_t needed = sources(operation);
    uint64_t absent = needed;
    const Outcome outcome = wait(operation, brief, false, [&] {
      for (uint64_t rest = absent; rest != 0; rest &= rest - 1) {
        const auto peer = static_cast<uint32_t>(__builtin_ctzll(rest));
        if (control_.post(number, peer).ready.load(std::memory_order_acquire) == number + 1) absent &= ~(uint64_t{1} << peer);
      }
      return absent;
    });
    if (outcome != Outcome::kReady) return outcome == Outcome::kLate ? kUnfinished : result();
    bool direct = operation.call.direct != 0;
    if (!check_posts(operation, needed, &direct) || !check_earlier(0)) return result();
    check_later(operation, others() & ~needed);
    move_data(operation);
    if (direct) {
      control_.done(number, rank_).value.store(number + 1, std::memory_order_seq_cst);
      control_.ring_all(rank_);
    }
    operation.stage = 2;
  }
  if (operation.call.direct != 0) {
    uint64_t absent = others();
    const Outcome outcome = wait(operation, brief, false, [&] {
      for (uint64_t rest = absent; rest != 0; rest &= rest - 1) {
        const auto peer = static_cast<uint32_t>(__builtin_ctzll(rest));
        if (control_.done(number, peer).value.load(std::memory_order_acquire) == number + 1) absent &= ~(uint64_t{1} << peer);
      }
      return absent;
    });
    if (outcome != Outcome::kReady) return outcome == Outcome::kLate ? kUnfinished : result();
  }
  complete(number);
  return ACL_SUCCESS;
}

}  // namespace softcann
