// The control segment: what the ranks of a communicator on one machine share besides their devices' memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace softcann {

// Note [Control segment]
// It lies in a memory file without a name, which the other processes open through the creator's /proc/<pid>/fd; nothing
// is left when processes die, however they do. A block that one rank writes and others read has cache lines of its own.
//  - Collectives of a communicator are numbered in the order of the calls. Number n uses slot n % kSlots. There each
//    rank has a post: it describes the rank's call and carries either the data itself (when they are few) or where they
//    lie in the rank's device memory; writing `ready` = n + 1 publishes it. When a rank needs nothing more of the
//    others, it writes `done` = n + 1. A slot is used again when all ranks have completed the number that had it before.
//    A call that waits for nobody (the root's of a small broadcast) completes unchecked: a later one looks at the other
//    posts' `told`, before it writes to the rank's own. Of two ranks the first that reuses the slot finds the other's as
//    it was; as that one may be written to by now, `ready` is 0 meanwhile and is read before and after.
//  - Point-to-point messages are numbered for each pair of ranks and use lanes in the same way.
//  - A rank that waits first spins, then sleeps on its own `bell`; in `wanted` it names those whose posts it waits for,
//    and they ring.
//  - `failure` is written once, by the first rank that finds something wrong; all that wait look at it.
inline constexpr uint32_t kMaxRanks = 64;
inline constexpr uint32_t kSlots = 16;
inline constexpr uint32_t kLanes = 8;
inline constexpr size_t kCacheLine = 64;

struct Failure {
  enum State : uint32_t { kNone, kWriting, kSet };
  std::atomic<uint32_t> state;
  int32_t code;  // HcclResult
  uint32_t rank;
  char text[1000];
};

struct alignas(2 * kCacheLine) ControlHeader {
  static constexpr uint64_t kMagic = 0x6d6d6f6374667473;
  uint64_t magic;
  uint64_t nonce;
  std::atomic<uint32_t> ranks;   // 0 until the first rank joins
  std::atomic<uint32_t> remote;  // 1: a rank on another machine has called; all are to use TCP
  alignas(kCacheLine) Failure failure;
};

// How to join another communicator, for those ranks of this one that are to.
struct Invitation {
  std::atomic<uint64_t> key;  // 0: unused
  char data[120];
};

struct alignas(2 * kCacheLine) RankState {
  static constexpr uint32_t kInvitations = 16;
  enum Life : uint32_t { kAbsent, kJoining, kJoined, kAttached, kLeft };  // attached: has opened the others' memory
  std::atomic<uint32_t> life;
  int32_t pid;
  int32_t memory_fd;
  int32_t device;
  uint64_t capacity;
  char name[128];                                    // of the communicator, as this rank calls it
  alignas(kCacheLine) std::atomic<uint64_t> wanted;  // bit r: somebody of this rank sleeps until rank r posts
  std::atomic<uint32_t> bell;
  alignas(kCacheLine) std::atomic<uint64_t> completed;  // collectives below this number
  alignas(kCacheLine) Invitation invitations[kInvitations];
};

// What a rank says about its call; equal on all ranks, except for kDirect.
struct Call {
  uint8_t kind;
  uint8_t type;
  uint8_t op;
  uint8_t direct;  // the body says where the data lie, else it is the data
  uint32_t root;
  uint64_t count;
};

// A call in one word, for those who look at it later; the count's low half is all of a call whose data are in its post.
inline uint64_t in_a_word(const Call& call) {
  return uint64_t{call.kind} | uint64_t{call.type} << 8 | uint64_t{call.op} << 16 | uint64_t{call.root & 0xff} << 24 |
         call.count << 32;
}
inline Call from_word(uint64_t word) {
  return Call{static_cast<uint8_t>(word),       static_cast<uint8_t>(word >> 8),
              static_cast<uint8_t>(word >> 16), 0,
              static_cast<uint8_t>(word >> 24), word >> 32};
}

struct alignas(kCacheLine) Post {
  std::atomic<uint64_t> ready;
  std::atomic<uint64_t> told;
  Call call;
  char body[8192 - 32];
};
static_assert(sizeof(Call) == 16 && sizeof(Post) == 8192);

struct alignas(kCacheLine) Flag {
  std::atomic<uint64_t> value;
};

// One message under way from one rank to another.
struct alignas(kCacheLine) Lane {
  // The sender's.
  std::atomic<uint64_t> sent;
  Call call;
  union {
    uint64_t source;
    char body[4096 - 24];
  };
  std::atomic<uint64_t> left;  // number + 1 when the sender touches the lane no more
  // The receiver's.
  alignas(kCacheLine) std::atomic<uint64_t> wanted;
  Call wanted_call;
  uint64_t target;
  std::atomic<uint64_t> received;  // number + 1 when the receiver touches the lane no more
  // Both copy, a piece at a time.
  alignas(kCacheLine) std::atomic<uint32_t> next_piece;
  std::atomic<uint32_t> copied_pieces;
};

class Control {
 public:
  Control() = default;
  Control(void* memory, uint32_t ranks);

  static size_t bytes(uint32_t ranks);

  ControlHeader& header() const { return *header_; }
  RankState& state(uint32_t rank) const { return states_[rank]; }
  Flag& done(uint64_t number, uint32_t rank) const { return done_[(number % kSlots) * ranks_ + rank]; }
  Post& post(uint64_t number, uint32_t rank) const { return posts_[(number % kSlots) * ranks_ + rank]; }
  Lane& lane(uint32_t from, uint32_t to, uint64_t number) const {
    return lanes_[(size_t{from} * ranks_ + to) * kLanes + number % kLanes];
  }

  // Records the failure unless there is one already, and wakes everybody.
  void fail(int code, uint32_t rank, const char* text) const;
  bool failed() const { return header_->failure.state.load(std::memory_order_acquire) == Failure::kSet; }

  // Wakes rank `to` if it sleeps until rank `from` posts. To be called after each change that somebody may wait for; the
  // change must be a sequentially consistent store.
  void ring(uint32_t from, uint32_t to) const {
    RankState& sleeper = states_[to];
    const uint64_t bit = uint64_t{1} << from;
    if (__builtin_expect((sleeper.wanted.load(std::memory_order_seq_cst) & bit) != 0, 0)) wake(to, bit);
  }
  void ring_all(uint32_t from) const {
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      if (rank != from) ring(from, rank);
    }
  }
  void wake(uint32_t rank, uint64_t bits) const;

 private:
  uint32_t ranks_ = 0;
  ControlHeader* header_ = nullptr;
  RankState* states_ = nullptr;
  Flag* done_ = nullptr;
  Post* posts_ = nullptr;
  Lane* lanes_ = nullptr;
};

}  // namespace softcann
