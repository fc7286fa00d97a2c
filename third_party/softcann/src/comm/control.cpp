#include "comm/control.h"

#include <cstdio>

#include "rt/base/sync.h"

namespace softcann {
namespace {

size_t post_offset(uint32_t ranks) {
  const size_t before = sizeof(ControlHeader) + sizeof(RankState) * ranks + sizeof(Flag) * kSlots * ranks;
  return (before + 4095) / 4096 * 4096;
}

}  // namespace

size_t Control::bytes(uint32_t ranks) {
  return post_offset(ranks) + sizeof(Post) * kSlots * ranks + sizeof(Lane) * kLanes * ranks * ranks;
}

Control::Control(void* memory, uint32_t ranks) : ranks_(ranks) {
  static_assert(sizeof(ControlHeader) % alignof(RankState) == 0);
  char* base = static_cast<char*>(memory);
  header_ = reinterpret_cast<ControlHeader*>(base);
  states_ = reinterpret_cast<RankState*>(base + sizeof(ControlHeader));
  done_ = reinterpret_cast<Flag*>(states_ + ranks);
  posts_ = reinterpret_cast<Post*>(base + post_offset(ranks));
  lanes_ = reinterpret_cast<Lane*>(posts_ + size_t{kSlots} * ranks);
}

void Control::fail(int code, uint32_t rank, const char* text) const {
  Failure& failure = header_->failure;
  uint32_t none = Failure::kNone;
  if (!failure.state.compare_exchange_strong(none, Failure::kWriting)) return;
  failure.code = code;
  failure.rank = rank;
  std::snprintf(failure.text, sizeof failure.text, "%s", text);
  failure.state.store(Failure::kSet, std::memory_order_seq_cst);
  for (uint32_t to = 0; to < ranks_; ++to) wake(to, UINT64_MAX);
}

void Control::wake(uint32_t rank, uint64_t bits) const {
  states_[rank].wanted.fetch_and(~bits, std::memory_order_seq_cst);
  states_[rank].bell.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(&states_[rank].bell, true);
}

}  // namespace softcann
